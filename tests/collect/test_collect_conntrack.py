"""The table of tracked connections: synthetic tables of many cores, torn ones, and this machine's."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import open_source, read, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.sources.conntrack import LEVELS, STATISTICS, ConntrackSource

# As Linux 6.x and 4.x write it; the blanks are doubled in places.
HEAD = (
    "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop "
    "icmp_error  expect_new expect_create expect_delete search_restart\n"
)
OLD_HEAD = (
    "entries  searched found new invalid ignore delete delete_list insert insert_failed drop early_drop "
    "icmp_error  expect_new expect_create expect_delete search_restart\n"
)
NAMES = HEAD.split()


def row(**counts: int) -> str:
    return " ".join(f"{counts.get(name, 0):08x}" for name in NAMES) + "\n"


def tree(root: Path, rows: list[str], head: str = HEAD, count: int = 120) -> Path:
    write(root, "proc/sys/net/netfilter/nf_conntrack_count", f"{count}\n")
    write(root, "proc/sys/net/netfilter/nf_conntrack_max", "262144\n")
    write(root, STATISTICS, head + "".join(rows))
    return root


def test_cores_are_added_up_and_the_size_is_not(tmp_path: Path) -> None:
    rows = [
        row(entries=120, insert_failed=3, drop=16, early_drop=1),
        row(entries=120, drop=255, search_restart=2),
    ]
    source = open_source(ConntrackSource, tree(tmp_path, rows))
    found = values(source)
    assert found == {
        "conntrack.count/host": 120,
        "conntrack.max/host": 262144,
        "conntrack.clashres/host": 0,
        "conntrack.found/host": 0,
        "conntrack.invalid/host": 0,
        "conntrack.chainlength/host": 0,
        "conntrack.insert/host": 0,
        "conntrack.insert_failed/host": 3,
        "conntrack.drop/host": 271,
        "conntrack.early_drop/host": 1,
        "conntrack.icmp_error/host": 0,
        "conntrack.search_restart/host": 2,
    }
    assert not source.columns.unknown
    source.close()


def test_an_older_kernel_names_its_columns_otherwise(tmp_path: Path) -> None:
    source = open_source(ConntrackSource, tree(tmp_path, [row(drop=7)], OLD_HEAD))
    assert values(source)["conntrack.drop/host"] == 7
    assert "conntrack.clashres/host" not in values(source)
    assert not source.columns.unknown
    source.close()


def test_a_counter_of_one_core_that_wraps_is_no_loss(tmp_path: Path) -> None:
    source = open_source(ConntrackSource, tree(tmp_path, [row(drop=2**32 - 1), row(drop=10)]))
    before = values(source)["conntrack.drop/host"]
    tree(tmp_path, [row(drop=1), row(drop=10)])
    after = read(source)["conntrack.drop/host"]
    assert before is not None
    assert after is not None
    assert (after - before) % 2**32 == 2
    assert load_catalog()["conntrack.drop"].bits == 32
    source.close()


@pytest.mark.parametrize(
    "torn", ["", HEAD, "garbage\n", HEAD + row() + "0000", HEAD + row()[:-1], HEAD + row() + "x\n"]
)
def test_a_torn_table_is_missing(tmp_path: Path, torn: str) -> None:
    rows = [row(drop=1), row(drop=2)]
    source = open_source(ConntrackSource, tree(tmp_path, rows))
    write(tmp_path, STATISTICS, torn)
    found = read(source)
    assert (found["conntrack.count/host"], found.get("conntrack.drop/host")) == (120, None)
    assert source.columns.errors
    tree(tmp_path, rows)
    assert read(source)["conntrack.drop/host"] == 3
    source.close()


def test_fewer_rows_than_before_are_a_torn_table(tmp_path: Path) -> None:
    source = open_source(ConntrackSource, tree(tmp_path, [row(drop=1), row(drop=2)]))
    tree(tmp_path, [row(drop=1)])
    assert read(source)["conntrack.drop/host"] is None
    source.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=8), st.integers(0, 2000))
def test_any_table_cut_anywhere_is_right_or_missing(
    tmp_path_factory: pytest.TempPathFactory, drops: list[int], cut: int
) -> None:
    root = tmp_path_factory.mktemp("cut")
    rows = [row(drop=drop) for drop in drops]
    source = open_source(ConntrackSource, tree(root, rows))
    right = sum(drops) % 2**32
    assert values(source)["conntrack.drop/host"] == right
    whole = HEAD + "".join(rows)
    write(root, STATISTICS, whole[:cut])
    assert read(source).get("conntrack.drop/host") in ({right} if cut >= len(whole) else {None})
    source.close()


def test_a_kernel_without_the_table_still_tells_its_size(tmp_path: Path) -> None:
    tree(tmp_path, [row()])
    (tmp_path / STATISTICS).unlink()
    source = open_source(ConntrackSource, tmp_path)
    assert values(source) == {"conntrack.count/host": 120, "conntrack.max/host": 262144}
    source.close()


def test_without_the_module_it_says_what_would_help(tmp_path: Path) -> None:
    reason = ConntrackSource(tmp_path, Columns("conntrack", 1000, load_catalog(), load_left_out())).probe()
    assert reason is not None
    assert "modprobe nf_conntrack" in reason
    assert str(tmp_path) in reason


def test_this_machine() -> None:
    absent = [file for file in LEVELS if not Path("/", file).exists()]
    if absent:
        pytest.skip(f"{absent[0]} is not there: no connections are tracked here")
    source = open_source(ConntrackSource, Path("/"))
    found = values(source)
    assert found["conntrack.max/host"] == int(Path("/proc/sys/net/netfilter/nf_conntrack_max").read_text())
    assert not source.columns.errors
    assert not source.columns.unknown
    source.close()
