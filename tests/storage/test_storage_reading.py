from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from storage_parts import SECOND, T0, channel, segment

from reveal_core.errors import UsageError
from storage.store import Store
from storage.telemetry import TelemetryRead

HOUR = timedelta(hours=1)


def read(
    store: Store, start: datetime = T0, end: datetime = T0 + HOUR, host: str = "node-1"
) -> TelemetryRead:
    return store.read_telemetry(host, start, end)


def test_what_was_put_comes_back(store: Store) -> None:
    values = {
        "stat.ctxt": pa.array([2**62, None, 2**62 + 7], pa.int64()),
        "cpu.frequency/cpu0": pa.array([1.5, 2.5, None], pa.float32()),
    }
    channels = [channel("stat.ctxt"), channel("cpu.frequency/cpu0", "gauge", "Hz")]
    facts = {"cpu_model": "x", "numa_nodes": 1}
    key = store.put_segment(segment(rows=3, values=values, channels=channels, facts=facts))
    found = read(store)
    frame = found.telemetry.frame
    assert frame.schema == {
        "ts": pl.Datetime("ns", "UTC"),
        "mono": pl.Int64,
        "stat.ctxt": pl.Int64,
        "cpu.frequency/cpu0": pl.Float32,
    }
    assert frame["stat.ctxt"].to_list() == [2**62, None, 2**62 + 7]
    assert frame["cpu.frequency/cpu0"].to_list() == [1.5, 2.5, None]
    assert found.telemetry.channels == {c.name: c for c in channels}
    assert (found.telemetry.host, found.telemetry.facts) == ("node-1", facts)
    assert (found.segments, found.quarantined, found.notes) == ([key], [], [])


def test_segments_of_different_columns_become_one_table(store: Store) -> None:
    store.put_segment(segment(T0 + 10 * SECOND, sequence=1, values={"b": np.arange(10), "c": np.arange(10)}))
    store.put_segment(segment(T0, values={"a": np.arange(10), "b": np.arange(10)}))
    found = read(store)
    frame = found.telemetry.frame
    assert frame.columns == ["ts", "mono", "a", "b", "c"]
    assert frame["ts"].is_sorted()
    assert frame["a"].to_list() == [*range(10), *[None] * 10]
    assert frame["b"].to_list() == [*range(10)] * 2
    assert frame["c"].to_list() == [*[None] * 10, *range(10)]
    assert set(found.telemetry.channels) == {"a", "b", "c"}
    assert found.telemetry.facts == {"seq": 1}, "facts are those of the newest segment"


def test_only_the_channels_asked_for(local_store: Store) -> None:
    local_store.put_segment(segment(values={"a": np.arange(10), "b": np.arange(10)}))
    found = local_store.read_telemetry("node-1", T0, T0 + HOUR, columns=["b", "absent"])
    assert found.telemetry.frame.columns == ["ts", "mono", "b"]
    assert set(found.telemetry.channels) == {"b"}
    assert local_store.read_telemetry("node-1", T0, T0 + HOUR, columns=[]).telemetry.frame.columns == [
        "ts",
        "mono",
    ]


def test_integers_and_fractions_widen_and_are_noted(local_store: Store) -> None:
    local_store.put_segment(segment(rows=2, values={"g": np.array([1, 2**40])}))
    values = {"g": np.array([0.5, 0.25], np.float32)}
    local_store.put_segment(segment(T0 + HOUR / 2, rows=2, sequence=1, values=values))
    found = read(local_store)
    assert found.telemetry.frame["g"].dtype == pl.Float64
    assert found.telemetry.frame["g"].to_list() == [1.0, 2.0**40, 0.5, 0.25]
    assert found.notes == ["g: integers in some segments, fractions in others; read as Float64"]


def test_a_change_of_unit_is_noted(local_store: Store) -> None:
    values = {"g": np.arange(2)}
    local_store.put_segment(segment(rows=2, values=values, channels=[channel("g", "gauge", "kB")]))
    newer = segment(
        T0 + 10 * SECOND, rows=2, sequence=1, values=values, channels=[channel("g", "gauge", "B")]
    )
    local_store.put_segment(newer)
    found = read(local_store)
    assert found.telemetry.channels["g"].unit == "B"
    assert found.notes == [
        "g: gauge in kB in older segments, gauge in B in newer ones; described as in the newest"
    ]


def test_small_integers_and_empty_columns_take_the_types_of_the_store(local_store: Store) -> None:
    values = {
        "small": pa.array([1, 2], pa.uint8()),
        "never": pa.array([None, None], pa.null()),
        "silent": pa.array([None, None], pa.null()),
    }
    channels = [channel("small", "state"), channel("never"), channel("silent", "gauge")]
    local_store.put_segment(segment(rows=2, values=values, channels=channels))
    schema = read(local_store).telemetry.frame.schema
    assert [schema[name] for name in values] == [pl.Int64, pl.Int64, pl.Float32]


def test_the_same_time_twice_is_one_row(local_store: Store) -> None:
    local_store.put_segment(segment(values={"a": np.arange(10)}))
    local_store.put_segment(
        segment(T0 + 5 * SECOND, sequence=7, values={"a": np.arange(10), "b": np.arange(10)})
    )
    frame = read(local_store).telemetry.frame
    assert frame["ts"].to_list() == [T0 + SECOND * i for i in range(15)]
    assert frame["a"].to_list() == [*range(10), *range(5, 10)]
    assert frame["b"].to_list() == [*[None] * 5, *range(10)]


@settings(max_examples=30, deadline=None)
@given(st.integers(-7000, 7000), st.integers(1, 7200), st.sampled_from([0, 1, 999_999]))
def test_a_range_gives_exactly_its_samples(begin: int, length: int, microseconds: int) -> None:
    """An hour and a half of 5-minute segments across midnight, cut anywhere."""
    store = ranges_store()
    start = MIDNIGHT + timedelta(seconds=begin, microseconds=microseconds)
    end = start + timedelta(seconds=length)
    expected = [t for t in ALL_TIMES if start <= t < end]
    if not expected:
        with pytest.raises(UsageError, match="has no telemetry of host 'node-1' from"):
            read(store, start, end)
        return
    found = read(store, start, end)
    assert found.telemetry.frame["ts"].to_list() == expected
    assert len(found.segments) <= length // 300 + 2
    assert store.hosts(start, end) == ["node-1"]


MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)
FIRST = MIDNIGHT - timedelta(minutes=47, seconds=3)
ALL_TIMES = [FIRST + timedelta(seconds=10 * i) for i in range(540)]


def ranges_store() -> Store:
    store = Store("memory://ranges")
    if not store.hosts():
        for n in range(18):
            start = FIRST + timedelta(seconds=300 * n)
            store.put_segment(segment(start, rows=30, step=10 * SECOND, sequence=n))
    return store


def test_a_segment_that_reaches_over_the_hour(store: Store) -> None:
    start = T0.replace(hour=20, minute=59, second=55)
    store.put_segment(segment(start))
    nine = T0.replace(hour=21, minute=0)
    frame = read(store, nine, nine + HOUR).telemetry.frame
    assert frame["ts"].to_list() == [nine + SECOND * i for i in range(5)]
    assert store.hosts(nine, nine + HOUR) == ["node-1"]
    assert store.hosts(nine + 5 * SECOND, nine + HOUR) == []


def test_an_agent_that_started_anew_counts_from_zero_again(local_store: Store) -> None:
    for n in range(3):
        local_store.put_segment(segment(T0 + n * 10 * SECOND, sequence=n))
    for n in range(3):
        local_store.put_segment(segment(T0 + (60 + n * 10) * SECOND, sequence=n))
    assert read(local_store, T0 + 50 * SECOND).telemetry.frame.height == 30
    assert read(local_store, T0 + 25 * SECOND).telemetry.frame.height == 35


def test_hosts_of_a_range(store: Store) -> None:
    store.put_segment(segment(T0, host="early"))
    store.put_segment(segment(T0 + 3 * HOUR, host="late"))
    assert store.hosts() == ["early", "late"]
    assert store.hosts(end=T0 + HOUR) == ["early"]
    assert store.hosts(start=T0 + HOUR) == ["late"]
    assert store.hosts(T0 + 9 * SECOND, T0 + 10 * SECOND) == ["early"]
    assert store.hosts(T0 + 10 * SECOND, T0 + HOUR) == []
    assert store.hosts(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)) == [
        "early",
        "late",
    ]


def test_the_extent_holds_every_sample(store: Store) -> None:
    assert store.extent("node-1") is None
    odd = T0 + timedelta(microseconds=123_456)
    store.put_segment(segment(odd, rows=3))
    store.put_segment(segment(odd + 5 * HOUR, rows=3, sequence=1))
    extent = store.extent("node-1")
    assert extent == (odd, odd + 5 * HOUR + timedelta(seconds=2, microseconds=1))
    assert store.read_telemetry("node-1", *extent).telemetry.frame.height == 6
    assert store.extent("node") is None


def test_any_range_of_the_calendar_can_be_read(local_store: Store) -> None:
    local_store.put_segment(segment())
    ends = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert local_store.read_telemetry("node-1", *ends).telemetry.frame.height == 10


def test_files_beside_the_layout_do_no_harm(local_store: Store) -> None:
    key = local_store.put_segment(segment())
    for place in ("telemetry/README", "telemetry/date=x/y", f"{key.rpartition('/')[0]}/notes.txt", "other/z"):
        local_store.backend.write(place, b"x")
    assert local_store.hosts() == ["node-1"]
    assert read(local_store).quarantined == []


def test_plain_polars_reads_the_same(local_store: Store) -> None:
    local_store.put_segment(segment())
    plain = pl.read_parquet(f"{local_store.url}/telemetry/**/*.parquet", hive_partitioning=False)
    assert_frame_equal(read(local_store).telemetry.frame, plain)


def test_an_empty_store_says_so(store: Store) -> None:
    with pytest.raises(UsageError, match=r"holds no telemetry$"):
        read(store)


def test_an_unknown_host_names_those_there_are(store: Store) -> None:
    for n in range(12):
        store.put_segment(segment(host=f"node-{n:02d}"))
    with pytest.raises(
        UsageError, match=r"no telemetry of host 'nod'; it has node-00, .*node-09 and 2 more$"
    ):
        read(store, host="nod")


def test_a_range_without_data_names_the_extent(store: Store) -> None:
    store.put_segment(segment())
    has = r"it has from 2026-11-29T20:15:00\.000Z to 2026-11-29T20:15:09\.000Z$"
    with pytest.raises(UsageError, match=rf"from 2026-11-30T20:15:00\.000Z to .*; {has}"):
        read(store, T0 + timedelta(days=1), T0 + timedelta(days=2))


def test_a_range_that_ends_before_it_begins(local_store: Store) -> None:
    with pytest.raises(UsageError, match="is empty"):
        read(local_store, T0, T0)
    with pytest.raises(ValueError, match="no time zone"):
        read(local_store, T0.replace(tzinfo=None))


def test_boots_are_told_apart_where_there_are_several(local_store: Store) -> None:
    local_store.put_segment(segment(T0, boot="first"))
    local_store.put_segment(segment(T0 + 60 * SECOND, boot="second"))
    both = read(local_store, T0).telemetry.frame
    assert both.columns[:3] == ["ts", "mono", "boot"]
    assert both["boot"].to_list() == [0] * 10 + [1] * 10
    one = read(local_store, T0 + 60 * SECOND).telemetry.frame
    assert "boot" not in one.columns
