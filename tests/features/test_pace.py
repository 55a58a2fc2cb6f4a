"""Telemetry whose interval followed the host, brought to one interval."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.channels import Channel
from reveal_core.features.pace import coarse_notes, even_pace, is_adaptive
from reveal_core.features.rates import physical_series
from reveal_core.method import build_windows
from reveal_core.profiles import load_profile
from reveal_core.telemetry import SPARSE_GRID, Telemetry

START = int(datetime(2026, 11, 30, tzinfo=UTC).timestamp()) * 10**9
CHANNELS = {
    name: Channel(name, name, "", "cpu", kind, unit, "test", period)
    for name, kind, unit, period in [
        ("stat.ctxt", "counter", "switches", 100),
        ("meminfo.Cached", "gauge", "B", 1000),
        ("reveal.interval", "state", "ms", 100),
        (SPARSE_GRID, "state", "flag", 100),
    ]
}


def recorded(ticks: list[int], seed: int = 0) -> Telemetry:
    """Return what a host of a given history said at some ticks of a 100 ms grid; the gauge once a second."""
    rng = np.random.default_rng(seed)
    history = np.cumsum(rng.poisson(500, 4000))
    numbers = np.array(ticks)
    slow = [float(tick // 10) if tick % 10 == 7 else None for tick in ticks]
    frame = pl.DataFrame(
        {
            "ts": pl.Series(START + numbers * 10**8, dtype=pl.Int64).cast(pl.Datetime("ns", "UTC")),
            "mono": numbers * 10**8,
            "stat.ctxt": history[numbers],
            "meminfo.Cached": pl.Series(slow, dtype=pl.Float32),
            "reveal.interval": pl.Series(np.full(len(ticks), 100.0), dtype=pl.Float32),
            SPARSE_GRID: pl.Series((numbers % 6 == 0).astype(float), dtype=pl.Float32),
        }
    )
    return Telemetry("h", frame, CHANNELS, {"calm_ms": 600})


def test_telemetry_of_one_interval_stays_as_it_is() -> None:
    telemetry = recorded(list(range(100)))
    one = Telemetry("h", telemetry.frame.drop(SPARSE_GRID), telemetry.channels)
    assert not is_adaptive(one)
    assert even_pace(one) is one


@given(st.lists(st.booleans(), min_size=20, max_size=60))
def test_dense_and_sparse_stretches_give_the_same_rates(dense: list[bool]) -> None:
    always_sparse = recorded([tick for tick in range(6 * len(dense)) if tick % 6 == 0])
    mixed = recorded([tick for tick in range(6 * len(dense)) if tick % 6 == 0 or dense[tick // 6]])
    thinned, sparse = even_pace(mixed), even_pace(always_sparse)
    assert thinned.frame["mono"].to_list() == sparse.frame["mono"].to_list()
    ours, theirs = (physical_series(t).frame["stat.ctxt"] for t in (thinned, sparse))
    assert ours.to_list() == theirs.to_list()
    assert set(thinned.channels) == {"stat.ctxt", "meminfo.Cached"}
    assert {channel.period_ms for channel in thinned.channels.values()} == {600, 1000}


def test_what_was_read_between_two_sparse_ticks_is_kept_at_the_later_one() -> None:
    thinned = even_pace(recorded(list(range(0, 61))))
    told = dict(
        zip(
            (thinned.frame["mono"] // 10**8).to_list(), thinned.frame["meminfo.Cached"].to_list(), strict=True
        )
    )
    assert told == {0: None, 6: None, 12: 0, 18: 1, 24: None, 30: 2, 36: None, 42: 3, 48: 4, 54: None, 60: 5}


def test_windows_of_an_evened_pace_are_fully_covered() -> None:
    series = physical_series(even_pace(recorded(list(range(0, 360)))))
    windows = build_windows(series, load_profile("default"))
    assert windows.frame["coverage"].min() > 0.8
    assert windows.frame["coverage"].max() <= 1.0


def test_reboots_and_clock_steps_make_no_rates() -> None:
    before, after = recorded(list(range(100))), recorded(list(range(200, 260)))
    frame = pl.concat(
        [
            before.frame.with_columns(pl.lit(0, pl.Int32).alias("boot")),
            after.frame.with_columns(pl.lit(1, pl.Int32).alias("boot")),
        ]
    ).select("ts", "mono", "boot", "stat.ctxt")
    rates = physical_series(Telemetry("h", frame, CHANNELS)).frame["stat.ctxt"]
    assert rates.null_count() == 2  # the first sample of each boot
    assert rates.drop_nulls().max() < 7000

    # The wall clock is set back by five seconds in the middle: rows interleave in ts, not in mono.
    stepped = before.frame.with_columns(
        (
            pl.col("ts")
            - pl.when(pl.col("mono") >= 50 * 10**8)
            .then(pl.duration(milliseconds=5050))
            .otherwise(pl.duration(milliseconds=0))
        ).alias("ts")
    ).sort("ts")
    assert not stepped["mono"].is_sorted()
    rates = physical_series(Telemetry("h", stepped, CHANNELS)).frame
    assert rates["stat.ctxt"].null_count() == 1
    assert rates["stat.ctxt"].drop_nulls().max() < 7000
    assert rates["ts"].is_sorted()


@pytest.mark.parametrize(
    ("period_ms", "window_s", "said"),
    [
        (100, 3.0, []),
        (1000, 3.0, []),
        (15_000, 45.0, ["Samples come every 15 s"]),
        (15_000, 3.0, ["Samples come every 15 s", "Windows of 3 s hold fewer than 3 of them"]),
    ],
)
def test_what_coarse_samples_hide_is_told(period_ms: int, window_s: float, said: list[str]) -> None:
    channels = [replace(channel, period_ms=period_ms) for channel in CHANNELS.values()]
    notes = coarse_notes([*channels, replace(channels[0], period_ms=0)], window_s)
    assert [note[: len(start)] for note, start in zip(notes, said, strict=True)] == said
    assert coarse_notes([], window_s) == []
