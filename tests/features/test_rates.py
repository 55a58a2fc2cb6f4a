"""Rates from counters: nothing lost, nothing negative, nothing invented."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import Metric
from reveal_core.channels import Channel
from reveal_core.features.rates import LOST, counter_rate, counter_rates, physical_series
from reveal_core.telemetry import Telemetry

EVENTS = Metric(name="x", subsystem="cpu", kind="counter", unit="events", description="x")


def rates(values, seconds=None, metric=EVENTS):
    seconds = [0.1 * i for i in range(len(values))] if seconds is None else seconds
    counts = np.array([LOST if v is None else v for v in values], dtype=np.int64)
    return [None if np.isnan(r) else r for r in counter_rate(counts, np.array(seconds), metric)]


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=50), st.data())
def test_no_count_is_lost_however_many_samples_are(increases, data):
    """Rate times elapsed time adds up to the whole increase between the first and the last sample present."""
    counts = list(np.cumsum(increases))
    missing = data.draw(st.sets(st.integers(1, len(counts) - 1), max_size=len(counts) - 2))
    values = [None if i in missing else int(c) for i, c in enumerate(counts)]
    result = rates(values)
    last, total = 0.0, 0.0
    for i, rate in enumerate(result):
        if values[i] is None:
            assert rate is None
            continue
        if rate is not None:
            total += rate * (0.1 * i - last)
        last = 0.1 * i
    present = [v for v in values if v is not None]
    assert total == pytest.approx(present[-1] - present[0], rel=1e-9, abs=1e-6)


COUNTS = st.lists(
    st.lists(st.one_of(st.just(LOST), st.integers(0, 2**33)), min_size=12, max_size=12),
    min_size=1,
    max_size=6,
)


@given(COUNTS, st.data())
def test_counters_together_have_the_rates_that_each_has_alone(counts, data):
    widths, flags = st.sampled_from([32, 64]), st.booleans()
    metrics = [
        Metric(
            name="x",
            subsystem="cpu",
            kind="counter",
            unit="events",
            description="x",
            rate_scale=scale,
            bits=data.draw(widths),
            dips=data.draw(flags),
        )
        for scale, _ in enumerate(counts, 1)
    ]
    block, seconds = np.array(counts, dtype=np.int64), np.arange(12) * 0.1
    together = counter_rates(block, seconds, metrics)
    for row, metric in enumerate(metrics):
        np.testing.assert_array_equal(together[row], counter_rate(block[row], seconds, metric))


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=50))
def test_no_rate_is_negative(values):
    assert all(r is None or r >= 0 for r in rates(values))


@given(
    st.lists(st.one_of(st.integers(0, 100), st.integers(2**31, 2**33)), min_size=1, max_size=50),
    st.booleans(),
    st.sampled_from([32, 64]),
    st.data(),
)
def test_a_lost_sample_changes_only_the_rate_of_the_next_one(values, dips, bits, data):
    metric = Metric(
        name="x", subsystem="cpu", kind="counter", unit="events", description="x", dips=dips, bits=bits
    )
    lost = data.draw(st.integers(0, len(values) - 1))
    whole = rates(values, metric=metric)
    gap = rates([None if i == lost else v for i, v in enumerate(values)], metric=metric)
    assert gap[lost] is None
    assert [r for i, r in enumerate(gap) if i not in (lost, lost + 1)] == [
        r for i, r in enumerate(whole) if i not in (lost, lost + 1)
    ]


def test_large_counts_keep_their_last_digit_beside_a_gap():
    assert rates([2**60, None, 2**60 + 1, 2**60 + 4]) == [
        None,
        None,
        pytest.approx(1 / 0.2),
        pytest.approx(3 / 0.1),
    ]


def test_a_reset_gives_a_gap_and_starts_anew():
    assert rates([1000, 1010, 3, 13]) == [None, pytest.approx(100.0), None, pytest.approx(100.0)]


def test_a_32_bit_wrap_is_unrolled_and_a_32_bit_reset_is_not():
    narrow = Metric(name="x", subsystem="cpu", kind="counter", unit="events", description="x", bits=32)
    assert rates([2**32 - 5, 5], metric=narrow)[1] == pytest.approx(100.0)
    assert rates([1_000_000, 5], metric=narrow)[1] is None


def test_a_dip_counts_as_no_increase_where_the_kernel_may_dip():
    dips = Metric(name="x", subsystem="cpu", kind="counter", unit="events", description="x", dips=True)
    assert rates([100, 99, 104], metric=dips)[1] == 0.0
    assert rates([100, 99, 104])[1] is None


def test_a_clock_that_stands_still_gives_no_rate():
    assert rates([1, 2], seconds=[1.0, 1.0]) == [None, None]


def channel(name, kind, unit):
    metric, _, instance = name.partition("/")
    return Channel(name, metric, instance, "memory", kind, unit, "test", 100)


def telemetry(columns, channels):
    n = len(next(iter(columns.values())))
    start = datetime(2026, 11, 29, tzinfo=UTC)
    ts = pl.Series(
        "ts", [start + timedelta(seconds=0.1 * i) for i in range(n)], dtype=pl.Datetime("ns", "UTC")
    )
    mono = pl.Series("mono", [100_000_000 * i for i in range(n)], dtype=pl.Int64)
    return Telemetry("h", pl.DataFrame([ts, mono, *(pl.Series(k, v) for k, v in columns.items())]), channels)


def test_jiffies_become_percent_and_sectors_become_bytes():
    names = {"cpu.user/cpu0": "counter", "disk.read_sectors/vda": "counter"}
    t = telemetry(
        {"cpu.user/cpu0": [0, 5, 10], "disk.read_sectors/vda": [0, 2, 2]},
        {n: channel(n, k, "x") for n, k in names.items()},
    )
    series = physical_series(t)
    assert series.frame["cpu.user/cpu0"].to_list()[1] == pytest.approx(50.0)
    assert series.channels["cpu.user/cpu0"].unit == "%"
    assert series.frame["disk.read_sectors/vda"].to_list()[1] == pytest.approx(2 * 512 / 0.1)
    assert series.channels["disk.read_sectors/vda"].unit == "B/s"


def test_a_stock_is_judged_by_its_change_and_keeps_its_level():
    name = "meminfo.Cached"
    t = telemetry({name: [1e6, None, 3e6, 3e6]}, {name: channel(name, "gauge", "B")})
    series = physical_series(t)
    assert series.frame[name].to_list() == [1e6, None, 3e6, 3e6]
    change = series.frame["meminfo.Cached.change"].to_list()
    assert change[0] is None
    assert change[1] is None
    assert change[2] == pytest.approx(1e7)
    assert change[3] == 0.0
    assert series.channels["meminfo.Cached.change"].unit == "B/s"


def test_a_step_of_the_wall_clock_changes_no_rate():
    name = "stat.ctxt"
    t = telemetry({name: [0, 10, 20, 30]}, {name: channel(name, "counter", "switches")})
    ts = t.frame["ts"].to_list()
    ts[2:] = [x + timedelta(hours=1) for x in ts[2:]]
    stepped = Telemetry(
        "h", t.frame.with_columns(pl.Series("ts", ts, dtype=pl.Datetime("ns", "UTC"))), t.channels
    )
    assert physical_series(stepped).frame[name].to_list() == physical_series(t).frame[name].to_list()
