"""Down-sampling: what is kept of samples, and that readers see them before or after, and never both."""

from __future__ import annotations

import contextlib
import secrets
from datetime import timedelta

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from maintenance_parts import (
    H20,
    HOST,
    HOUR,
    MINUTE,
    Dying,
    Killed,
    Meddled,
    assert_same_looks,
    histories,
    looks,
    made,
)
from storage_parts import channel, segment

from reveal_core.catalog import load_catalog
from reveal_core.features.rates import counter_rate
from reveal_core.segment import Segment
from reveal_core.telemetry import SPARSE_GRID
from storage.backend import Backend
from storage.compaction import compact_hour
from storage.downsampling import downsample_hour
from storage.layout import host_folder
from storage.rewriting import Rewritten
from storage.store import Store
from storage.telemetry import read_telemetry

SECOND = timedelta(seconds=1)
TENTH = timedelta(milliseconds=100)


def sample(backend: Backend, *, dry_run: bool = False) -> Rewritten:
    done = Rewritten()
    for n in range(4):
        done += downsample_hour(backend, HOST, H20 + n * HOUR, dry_run=dry_run)
    return done


def dense(start: int = 0, number: int = 0, seconds: int = 60) -> Segment:
    """Return a segment of 10 Hz: counter, gauge, state, what tells the pace, and a source of one in 3 s."""
    rows = seconds * 10
    first = number * rows
    seldom = [first + n if n % 30 == 0 else None for n in range(rows)]
    values = {
        "c": np.arange(first, first + rows, dtype=np.int64),
        "g": (np.arange(rows) % 100 / 4).astype(np.float32),
        "s": (np.arange(rows) // 100 % 2).astype(np.float32),
        SPARSE_GRID: (np.arange(rows) % 6 == 0).astype(np.float32),
        "slow": pa.array(seldom, pa.int64()),
        "never": pa.array([None] * rows, pa.float32()),
    }
    kinds = {"g": "gauge", "s": "state", "never": "gauge"}
    channels = [channel(name, kinds.get(name, "counter"), "1") for name in values]
    return segment(
        H20 + start * SECOND, rows=rows, sequence=number, step=TENTH, values=values, channels=channels
    )


def close(count: int) -> list[Segment]:
    """Return segments of a minute, whose samples lie so close that each becomes a single row."""
    return [made(H20 + n * MINUTE, n, step_s=3) for n in range(count)]


def test_ten_seconds_become_a_row(store: Store) -> None:
    for number in range(3):
        store.put_segment(dense(60 * number, number))
    rehearsed = sample(store.backend, dry_run=True)
    assert len(store.backend.names(host_folder(H20, HOST))) == 3
    done = sample(store.backend)
    assert done == rehearsed
    assert (done.segments, done.into, done.notes) == (3, 1, ())
    assert store.backend.names(host_folder(H20, HOST)) == [
        "20261129T200000.000Z-b00t-1d-000000=20261129T200200.000Z-000002.10s.parquet"
    ]
    telemetry = store.read_telemetry(HOST, H20, H20 + HOUR).telemetry
    frame = telemetry.frame
    assert frame.columns == ["ts", "mono", "c", "g", "s", "slow", "never"]
    assert frame.schema["c"] == pl.Int64
    assert frame.schema["g"] == pl.Float32
    assert frame["ts"].to_list() == [H20 + (10 * n + 9.9) * SECOND for n in range(18)]
    assert frame["c"].to_list() == [100 * n + 99 for n in range(18)]
    assert frame["g"].to_list() == pytest.approx([np.mean(np.arange(100) / 4)] * 18)
    assert frame["s"].to_list() == [n % 6 % 2 for n in range(18)]
    assert frame["slow"].to_list() == [100 * n + (90, 80, 70)[n % 3] for n in range(18)]
    assert frame["never"].null_count() == 18
    assert {c.period_ms for c in telemetry.channels.values()} == {10_000}
    assert telemetry.facts == {"seq": 2}
    assert sample(store.backend) == Rewritten()
    assert store.extent(HOST) == (H20 + 9.9 * SECOND, H20 + 179.9 * SECOND + timedelta(microseconds=1))


def test_the_rate_of_a_counter_is_what_it_was(local_store: Store) -> None:
    for number in range(3):
        local_store.put_segment(dense(60 * number, number))
    sample(local_store.backend)
    frame = local_store.read_telemetry(HOST, H20, H20 + HOUR).telemetry.frame
    seconds = frame["ts"].to_physical().to_numpy() / 1e9
    rate = counter_rate(frame["c"].to_numpy(), seconds, load_catalog()["stat.ctxt"])
    assert rate[1:] == pytest.approx([10.0] * 17)


def test_a_gap_and_a_type_that_changes_begin_a_file(local_store: Store) -> None:
    ones = close(6)
    ones[3] = made(H20 + 3 * MINUTE, 3, layout="other type")
    for one in (*ones[:1], *ones[2:]):
        local_store.put_segment(one)
    assert sample(local_store.backend).into == 4
    assert local_store.backend.names(host_folder(H20, HOST)) == [
        "20261129T200000.000Z-b-1-000000.10s.parquet",
        "20261129T200200.000Z-b-1-000002.10s.parquet",
        "20261129T200300.000Z-b-1-000003.10s.parquet",
        "20261129T200400.000Z-b-1-000004=20261129T200500.000Z-000005.10s.parquet",
    ]
    read = local_store.read_telemetry(HOST, H20, H20 + HOUR)
    assert (read.notes, read.telemetry.frame.schema["g"]) == ([], pl.Float64)


@settings(max_examples=10, deadline=None)
@given(histories(), st.lists(st.integers(0, 14), max_size=2), st.booleans())
def test_killed_runs_and_merged_files_give_the_same(
    segments: list[Segment], kills: list[int], merged: bool
) -> None:
    store, other = (Store(f"memory://{secrets.token_hex(6)}") for _ in range(2))
    for one in segments:
        store.put_segment(one)
        other.put_segment(one)
    assert sample(other.backend).notes == ()
    after = looks(other)
    if merged:
        for n in range(4):
            compact_hour(store.backend, HOST, H20 + n * HOUR, lambda _name: True)
    for lives in kills:
        try:
            sample(Dying(store.backend.url, lives))
        except Killed:
            looks(store)
    sample(store.backend)
    assert_same_looks(looks(store), after)
    assert sample(store.backend) == Rewritten()
    names = [n for h in range(4) for n in store.backend.names(host_folder(H20 + h * HOUR, HOST))]
    assert all(".10s." in name for name in names)


@pytest.mark.parametrize("lives", range(8))
def test_a_reader_sees_all_before_or_all_after(lives: int) -> None:
    store = Store(f"memory://{secrets.token_hex(6)}")
    for one in close(5):
        store.put_segment(one)
    before = looks(store)
    with pytest.raises(Killed) if lives < 6 else contextlib.nullcontext():
        sample(Dying(store.backend.url, lives))
    now = looks(store)
    assert_same_looks(now, before if lives == 0 else looks_after())
    sample(store.backend)
    assert_same_looks(looks(store), looks_after())


def looks_after() -> list:
    store = Store(f"memory://{secrets.token_hex(6)}")
    for one in close(5):
        store.put_segment(one)
    sample(store.backend)
    return looks(store)


@pytest.mark.parametrize("moment", range(1, 13))
def test_a_reader_is_not_disturbed_while_it_reads(moment: int) -> None:
    store = Store(f"memory://{secrets.token_hex(6)}")
    for one in close(5):
        store.put_segment(one)
    start, end = H20 - HOUR, H20 + 4 * HOUR
    before = store.read_telemetry(HOST, start, end)
    meddled = Meddled(store.url, moment, lambda: _sample_all(store))
    read = read_telemetry(meddled, HOST, start, end)
    after = looks_after()[0]
    assert read.telemetry.frame.height in (before.telemetry.frame.height, after.telemetry.frame.height)
    whole = before if read.telemetry.frame.height == before.telemetry.frame.height else after
    assert_same_looks([read], [whole])


def _sample_all(store: Store) -> None:
    sample(Backend(store.url))


@pytest.mark.parametrize("moment", range(1, 16))
def test_two_at_once_and_a_late_segment(moment: int) -> None:
    store, full = (Store(f"memory://{secrets.token_hex(6)}") for _ in range(2))
    ones = close(5)
    for one in ones[:4]:
        store.put_segment(one)
    for one in ones:
        full.put_segment(one)

    def meddle() -> None:
        store.put_segment(ones[4])
        sample(Backend(store.url))

    meddled = Meddled(store.url, moment, meddle)
    sample(meddled)
    if meddled.moment > 0:
        meddle()
    sample(store.backend)
    sample(full.backend)
    counts = [
        s.read_telemetry(HOST, H20, H20 + HOUR).telemetry.frame.select("ts", "c/x") for s in (store, full)
    ]
    assert counts[0].equals(counts[1])
