"""What was imported from servers, in the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from reveal_core.importing.covered import ImportRecord, joined, missing_of
from storage.store import Store

NOON = datetime(2026, 11, 29, 12, 0, 0, 123_000, tzinfo=UTC)


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def test_a_record_comes_back_and_replaces_its_own(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert store.imports("n 1") == ()
    one = ImportRecord("b", "http://prometheus:9090", ((at(0), at(1)), (at(3), at(4))))
    other = ImportRecord("a", 'http://prometheus:9090 {job="x"}')
    assert store.put_import("n 1", one) == "imports/host=n%201.json"
    store.put_import("n 1", other)
    assert store.imports("n 1") == (other, one)
    more = ImportRecord("b", one.what, joined(one.covered, at(1), at(3)))
    store.put_import("n 1", more)
    assert store.imports("n 1") == (other, ImportRecord("b", one.what, ((at(0), at(4)),)))
    assert store.imports("n2") == ()
    assert store.hosts() == []


def test_a_damaged_file_is_put_aside(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    path = tmp_path / "imports/host=n1.json"
    path.parent.mkdir()
    path.write_text('[{"source": "a", "what": "b", "covered": [["yesterday", 3]]}]')
    assert store.imports("n1") == ()
    assert not path.exists()
    assert list((tmp_path / "quarantine").rglob("host=n1.json"))


STRETCHES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda pair: (at(pair[0]), at(pair[0] + pair[1])))
)


@given(STRETCHES, st.integers(0, 40), st.integers(1, 15))
def test_what_is_missing_and_what_is_covered_make_the_whole(
    stretches: list[tuple[datetime, datetime]], begin: int, length: int
) -> None:
    covered: tuple[tuple[datetime, datetime], ...] = ()
    for stretch in stretches:
        covered = joined(covered, *stretch)
    minutes = {m for first, last in stretches for m in range(60) if first <= at(m) < last}
    assert {m for first, last in covered for m in range(60) if first <= at(m) < last} == minutes
    assert all(left[1] < right[0] for left, right in pairwise(covered))
    gaps = missing_of(covered, at(begin), at(begin + length))
    missing = [m for first, last in gaps for m in range(60) if first <= at(m) < last]
    assert missing == sorted(set(range(begin, begin + length)) - minutes)
