"""Segments as they arrive, on each kind of store."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from storage_parts import SECOND, T0, segment

from reveal_core.arrivals import Watermark, new_stretches
from storage.store import Store

MINUTE = 60 * SECOND
HOUR = timedelta(hours=1)


def put(store: Store, *numbers: int, host: str = "node-1", boot: str = "b") -> None:
    for number in numbers:
        store.put_segment(segment(T0 + number * MINUTE, host=host, sequence=number, boot=boot, rows=60))


def find(store: Store, pattern: str = "*"):
    return store.arrivals(pattern, T0 - HOUR, T0 + HOUR, store.watermarks())


def test_what_a_watermark_does_not_hold_is_new(store: Store) -> None:
    put(store, 0, 1, 2)
    put(store, 0, host="node-2")
    found = find(store)
    assert {host: [(a.number, a.new) for a in segments] for host, segments in found.items()} == {
        "node-1": [(0, True), (1, True), (2, True)],
        "node-2": [(0, True)],
    }
    (stretch,) = new_stretches(found["node-1"], HOUR)
    assert stretch.start == T0
    # The last one's end is in the file alone.
    assert T0 + 2 * MINUTE + 59 * SECOND < stretch.end <= T0 + 2 * MINUTE + 60 * SECOND
    store.put_watermarks({"node-1": Watermark(T0).after(stretch.segments)})
    put(store, 3)
    assert [a.number for a in find(store)["node-1"] if a.new] == [3]
    assert [a.new for a in find(store)["node-2"]] == [True]
    assert list(find(store, "node-2")) == ["node-2"]


def test_an_agent_that_was_started_anew_counts_from_zero_again(store: Store) -> None:
    put(store, 0, 1)
    (stretch,) = new_stretches(find(store)["node-1"], HOUR)
    store.put_watermarks({"node-1": Watermark(T0).after(stretch.segments)})
    store.put_segment(segment(T0 + 5 * MINUTE, sequence=0, boot="b", rows=60))
    assert [(a.start, a.new) for a in find(store)["node-1"]] == [
        (T0, False),
        (T0 + MINUTE, False),
        (T0 + 5 * MINUTE, True),
    ]


def test_a_file_that_cannot_be_read_is_planned_too(store: Store) -> None:
    put(store, 0)
    (name,) = (a for a in find(store)["node-1"])
    key = store.put_segment(segment(T0 + MINUTE, sequence=1, boot="b"))
    store.backend.write(key, b"no Parquet")
    (stretch,) = new_stretches(find(store)["node-1"], HOUR)
    assert (stretch.start, stretch.end) == (name.start, T0 + MINUTE + SECOND)


def test_what_is_out_of_reach_is_not_looked_at(store: Store) -> None:
    put(store, 0, 1)
    found = store.arrivals("*", T0 + 30 * SECOND, T0 + HOUR, {})
    assert [a.number for a in found["node-1"]] == [1]
    assert store.arrivals("*", T0 - HOUR, T0, {}) == {}
    assert store.arrivals("*", T0 + HOUR, T0 + 2 * HOUR, {}) == {}


@pytest.mark.parametrize("day", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)])
def test_the_days_on_which_clocks_are_changed_are_days_as_others(
    local_store: Store, monkeypatch: pytest.MonkeyPatch, day: datetime
) -> None:
    monkeypatch.setenv("TZ", "Europe/London")
    time.tzset()
    try:
        times = [day + timedelta(minutes=20 * number) for number in range(10)]
        for number, start in enumerate(times):
            local_store.put_segment(segment(start, sequence=number, boot="b", rows=60))
        found = local_store.arrivals("*", day - HOUR, day + 5 * HOUR, {})["node-1"]
        (stretch,) = new_stretches(found, timedelta(days=1))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert [arrival.start for arrival in found] == times
    assert (stretch.start, len(stretch.segments)) == (day, 10)
