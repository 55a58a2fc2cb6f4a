from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.parts import integers, picker


@pytest.fixture
def columns() -> Columns:
    return Columns("test", 100, load_catalog(), {"vmstat.known": "left out"})


def test_a_channel_keeps_its_slot(columns: Columns) -> None:
    first = columns.add("cpu.user", "cpu0")
    second = columns.add("cpu.user", "cpu1")
    assert (first, second) == (0, 1)
    assert columns.add("cpu.user", "cpu0") == first
    assert columns.row == [MISSING, MISSING]


def test_names_outside_the_catalogue_are_noted_unless_left_out(columns: Columns) -> None:
    assert columns.add("vmstat.from_the_future") is None
    assert columns.add("vmstat.known") is None
    assert columns.unknown == {"vmstat.from_the_future"}


def test_a_slot_serves_another_channel_only_after_the_segment(columns: Columns) -> None:
    old = columns.add("cpu.user", "cpu0")
    assert old is not None
    columns.row[old] = 7
    columns.retire([old])
    assert columns.row[old] == MISSING
    assert columns.channels == []
    assert columns.add("cpu.user", "cpu1") != old
    columns.end_segment()
    assert columns.add("cpu.user", "cpu2") == old
    assert len(columns.row) == 2


def test_a_crowd_that_has_left_costs_nothing_any_more(columns: Columns) -> None:
    first = columns.add("cpu.user", "cpu0")
    crowd = [columns.add("cpu.user", f"cpu{number}") for number in range(1, 100)]
    last = columns.add("cpu.user", "cpu100")
    columns.retire(slot for slot in crowd if slot is not None)
    columns.end_segment()
    assert len(columns.row) == 101  # the last one keeps its slot
    assert last is not None
    columns.retire([last])
    columns.end_segment()
    assert (len(columns.row), len(columns.slots)) == (1, 1)
    assert [columns.add("cpu.user", "cpu0"), columns.add("cpu.user", "cpu7")] == [first, 1]


def test_a_channel_that_comes_back_within_the_segment_is_the_same(columns: Columns) -> None:
    slot = columns.add("cpu.user", "cpu0")
    assert slot is not None
    columns.retire([slot])
    assert columns.add("cpu.user", "cpu0") == slot
    columns.end_segment()
    assert [channel.name for channel in columns.channels] == ["cpu.user/cpu0"]


@given(st.lists(st.sampled_from([b"0", b"12", b"-3", b"N/A", b"", b"1.5", b"\xff"])))
def test_what_is_no_integer_is_missing(tokens: list[bytes]) -> None:
    expected = [int(t) if t.lstrip(b"-").isdigit() else MISSING for t in tokens]
    assert integers(tokens) == expected


def test_hexadecimal() -> None:
    assert integers([b"000000ff", b"zz"], 16) == [255, MISSING]


@given(st.lists(st.integers(0, 9), max_size=5))
def test_pickers_always_give_tuples(positions: list[int]) -> None:
    tokens = [b"%d" % number for number in range(10)]
    assert picker(positions)(tokens) == tuple(tokens[position] for position in positions)
