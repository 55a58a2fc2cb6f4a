"""Compaction: readers see the same before, during and after, whatever happens meanwhile."""

from __future__ import annotations

import secrets
from datetime import timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maintenance_parts import (
    H20,
    HOST,
    HOUR,
    MINUTE,
    RANGES,
    Dying,
    Killed,
    Meddled,
    assert_same_looks,
    columns_of,
    histories,
    looks,
    made,
)
from storage_parts import parquet, times

from reveal_core.errors import UsageError
from reveal_core.segment import (
    PARTS_KEY,
    REPLACES_KEY,
    Segment,
    SegmentPart,
    encode_metadata,
    encode_parts,
)
from storage.backend import Backend
from storage.compaction import MERGED_BYTES, SMALL_BYTES, compact_hour, plan_groups
from storage.layout import SegmentName, host_folder, parse_segment_key, segment_key
from storage.rewriting import Rewritten, StoredSegment
from storage.store import Store
from storage.telemetry import read_telemetry

HOURS = [H20 + n * HOUR for n in range(4)]


def everything(_name: SegmentName) -> bool:
    return True


def compact(backend: Backend, *, dry_run: bool = False) -> Rewritten:
    done = Rewritten()
    for hour in HOURS:
        done += compact_hour(backend, HOST, hour, everything, dry_run=dry_run)
    return done


def files(store: Store) -> list[str]:
    return [name for hour in HOURS for name in store.backend.names(host_folder(hour, HOST))]


def minutes(count: int, first: int = 0) -> list[Segment]:
    return [made(H20 + n * MINUTE, n) for n in range(first, first + count)]


@settings(max_examples=12, deadline=None)
@given(histories(), st.lists(st.integers(0, 25), max_size=3))
def test_readers_see_the_same_however_often_it_is_killed(segments: list[Segment], kills: list[int]) -> None:
    store = Store(f"memory://{secrets.token_hex(6)}")
    for one in segments:
        store.put_segment(one)
    before = looks(store)
    extent = store.extent(HOST)
    for lives in kills:
        try:
            compact(Dying(store.backend.url, lives))
        except Killed:
            assert_same_looks(looks(store), before)
    done = compact(store.backend)
    assert done.notes == ()
    assert_same_looks(looks(store), before)
    assert store.extent(HOST) == extent
    assert compact(store.backend) == Rewritten()
    if segments:  # what comes once more, as an agent's spool may bring it, changes nothing
        store.put_segment(segments[0])
        assert_same_looks(looks(store), before)
        compact(store.backend)
        assert_same_looks(looks(store), before)


def test_a_killed_run_costs_nothing_in_any_kind_of_store(
    store: Store, request: pytest.FixtureRequest
) -> None:
    options = request.getfixturevalue("s3_options") if store.url.startswith("s3") else None
    for one in minutes(6):
        store.put_segment(one)
    before = looks(store, RANGES[:1])
    for lives in (0, 1, 3):
        with pytest.raises(Killed):
            compact(Dying(store.url, lives, options))
        assert_same_looks(looks(store, RANGES[:1]), before)
    compact(store.backend)
    assert files(store) == ["20261129T200000.000Z-b-1-000000=20261129T200500.000Z-000005.parquet"]
    assert_same_looks(looks(store, RANGES[:1]), before)


def test_small_segments_become_a_file_each_quarter_of_an_hour(store: Store) -> None:
    for one in minutes(20):
        store.put_segment(one)
    before = looks(store, RANGES[1:2])
    rehearsed = compact(store.backend, dry_run=True)
    assert len(files(store)) == 20
    done = compact(store.backend)
    assert done == rehearsed
    assert (done.segments, done.into) == (20, 2)
    assert done.bytes_after < done.bytes_before / 3
    assert files(store) == [
        "20261129T200000.000Z-b-1-000000=20261129T201400.000Z-000014.parquet",
        "20261129T201500.000Z-b-1-000015=20261129T201900.000Z-000019.parquet",
    ]
    assert_same_looks(looks(store, RANGES[1:2]), before)
    assert store.hosts(H20 + 7 * MINUTE, H20 + 8 * MINUTE) == [HOST]
    assert store.hosts(H20 + 7 * MINUTE + timedelta(seconds=31), H20 + 8 * MINUTE) == []


def test_a_late_segment_joins_what_was_merged_around_it(local_store: Store) -> None:
    ones = minutes(10)
    late = ones.pop(4)
    for one in ones:
        local_store.put_segment(one)
    assert compact(local_store.backend).into == 2
    local_store.put_segment(late)
    before = looks(local_store)
    assert before[0] is not None
    assert before[0].telemetry.frame.height == 30
    assert compact(local_store.backend).segments == 3
    assert files(local_store) == ["20261129T200000.000Z-b-1-000000=20261129T200900.000Z-000009.parquet"]
    assert_same_looks(looks(local_store), before)


@pytest.mark.parametrize("moment", range(1, 22))
def test_two_at_once_lose_nothing(moment: int) -> None:
    store = Store(f"memory://{secrets.token_hex(6)}")
    late = minutes(6)
    early = [late.pop(2), late.pop(-1)]
    for one in late:
        store.put_segment(one)
    full = Store(f"memory://{secrets.token_hex(6)}")
    for one in minutes(6):
        full.put_segment(one)

    def meddle() -> None:
        for one in early:
            store.put_segment(one)
        compact(Backend(store.url))

    meddled = Meddled(store.url, moment, meddle)
    compact(meddled)
    if meddled.moment > 0:
        meddle()
    assert_same_looks(looks(store), looks(full))
    compact(store.backend)
    assert_same_looks(looks(store), looks(full))
    assert len(files(store)) == 1


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_reader_misses_nothing_that_is_merged_while_it_reads(moment: int) -> None:
    store = Store(f"memory://{secrets.token_hex(6)}")
    for one in minutes(5):
        store.put_segment(one)
    before = looks(store)[0]
    meddled = Meddled(store.url, moment, lambda: _compact_all(store))
    read = read_telemetry(meddled, HOST, H20 - HOUR, H20 + 4 * HOUR)
    assert_same_looks([read], [before])


def _compact_all(store: Store) -> None:
    compact(Backend(store.url))


def test_the_end_of_a_host_is_found_while_it_is_merged() -> None:
    for moment in range(1, 9):
        store = Store(f"memory://{secrets.token_hex(6)}")
        for one in minutes(5):
            store.put_segment(one)
        extent = store.extent(HOST)
        store.backend = Meddled(store.url, moment, lambda store=store: _compact_all(store))  # type: ignore[misc]
        assert store.extent(HOST) == extent


def test_what_cannot_be_read_goes_to_quarantine_and_the_rest_is_merged(local_store: Store) -> None:
    for one in minutes(6):
        local_store.put_segment(one)
    bad = segment_key(HOST, H20 + 2 * MINUTE, "b-1", 2)
    local_store.backend.write(bad, b"PAR1")
    first = compact(local_store.backend)
    assert first.segments == 0
    assert bad in first.notes[0]
    assert local_store.backend.read(f"quarantine/{bad}") == b"PAR1"
    assert compact(local_store.backend).segments == 5
    read = local_store.read_telemetry(HOST, H20, H20 + HOUR)
    assert read.telemetry.frame.height == 15


def stored(
    start: int, number: int, size: int = 1000, boot: str = "b", last: int | None = None
) -> StoredSegment:
    ends = None if last is None else (H20 + (start + last - number) * MINUTE, last)
    name = parse_segment_key(segment_key(HOST, H20 + start * MINUTE, boot, number, last=ends))
    assert name is not None
    return StoredSegment(name, size, H20)


def groups(
    *given: StoredSegment, judged: int | None = None, waiting: int = 99
) -> list[tuple[list[int], list[int]]]:
    """Return the numbers of members and leftovers of each group; judged are those below ``judged``."""

    def state(name: SegmentName) -> bool | None:
        return None if name.sequence >= waiting else judged is None or name.sequence < judged

    planned = plan_groups(given, state)
    return [
        ([one.name.sequence for one in group.members], [one.name.sequence for one in group.leftovers])
        for group in planned
    ]


def test_what_follows_each_other_is_merged() -> None:
    assert groups(*(stored(n, n) for n in range(20))) == [
        (list(range(15)), []),
        (list(range(15, 20)), []),
    ]
    assert groups(stored(0, 0), stored(1, 1), stored(3, 3), stored(4, 4)) == [([0, 1], []), ([3, 4], [])]
    # A new start of the agent begins with 0 again, also within a boot.
    assert groups(stored(0, 7), stored(1, 8), stored(2, 0), stored(3, 1)) == [([7, 8], []), ([0, 1], [])]
    assert groups(stored(0, 0), stored(1, 1, boot="c")) == []
    assert groups(stored(0, 0)) == []


def test_large_files_stay_as_they_are() -> None:
    assert groups(stored(0, 0), stored(1, 1, SMALL_BYTES), stored(2, 2)) == []
    most = MERGED_BYTES // 3
    assert groups(*(stored(n, n, most) for n in range(5))) == [([0, 1, 2], []), ([3, 4], [])]


def test_what_was_judged_is_not_merged_with_what_is_new() -> None:
    assert groups(*(stored(n, n) for n in range(6)), judged=4) == [([0, 1, 2, 3], []), ([4, 5], [])]
    # What may yet be judged keeps its own name.
    assert groups(*(stored(n, n) for n in range(6)), judged=4, waiting=4) == [([0, 1, 2, 3], [])]


def test_leftovers_of_a_killed_run_belong_to_what_was_merged() -> None:
    merged = stored(0, 0, last=9)
    assert groups(merged, stored(3, 3), stored(9, 9)) == [([0], [3, 9])]
    assert groups(merged, stored(3, 3), stored(10, 10)) == [([0, 10], [3])]
    # The same number of another start of the agent is another segment.
    assert groups(merged, stored(12, 3)) == []
    assert groups(merged) == []


def test_a_segment_that_only_looks_like_a_leftover_stays(local_store: Store) -> None:
    for one in minutes(4):
        local_store.put_segment(one)
    compact(local_store.backend)
    # Half a minute off, so none of those that were merged, though number and time lie among theirs.
    local_store.put_segment(made(H20 + 1.5 * MINUTE, 2))
    before = looks(local_store)
    assert compact(local_store.backend) == Rewritten()
    assert_same_looks(looks(local_store), before)
    assert len(files(local_store)) == 2


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({PARTS_KEY: b"x"}, "the parts of a merged segment are malformed"),
        ({PARTS_KEY: encode_parts([SegmentPart((0, 0), 2, {}, ())])}, "its parts have 2 rows and the file 3"),
        (
            {PARTS_KEY: encode_parts([SegmentPart((0, n), rows, {}, ()) for n, rows in enumerate((-1, 4))])},
            "one has a negative number of rows",
        ),
        ({REPLACES_KEY: b"[[1]]"}, "what a down-sampled segment stands for is malformed"),
    ],
)
def test_a_file_whose_parts_are_wrong_is_put_aside(
    local_store: Store, extra: dict[bytes, bytes], said: str
) -> None:
    values, channels = columns_of("plain", 3, 0)
    metadata = encode_metadata(host=HOST, boot="b-1", sequence=0, facts={}, channels=channels) | extra
    columns = {"ts": times(H20, 3), "mono": pa.array(range(3)), **values}
    key = segment_key(HOST, H20, "b-1", 0)
    local_store.backend.write(key, parquet(columns, channels, metadata))
    with pytest.raises(UsageError, match=said):
        local_store.read_telemetry(HOST, H20, H20 + HOUR)
    assert local_store.backend.read(key) is None
