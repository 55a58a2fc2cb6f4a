"""Perturbations in raw telemetry: what changes, what must not, and counters that stay counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from injected_samples import at, sample_telemetry, single_channel

from reveal_core.catalog import load_catalog
from reveal_core.evaluate.injected import InjectionPlan, inject
from reveal_core.evaluate.injected_plan import KINDS, TARGETS, InjectedPerturbation
from reveal_core.evaluate.injected_scale import habits
from reveal_core.evaluate.injected_writing import write
from reveal_core.features.rates import physical_series
from reveal_core.method import build_series
from reveal_core.telemetry import BOOT_COLUMN

HOST = sample_telemetry(90.0)
SERIES = physical_series(HOST).frame
TIMES = HOST.frame["ts"].dt.epoch("ns").to_numpy()
PLANS = st.builds(
    InjectionPlan,
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, unique=True).map(tuple),
    sizes=st.lists(st.floats(0.1, 200.0), min_size=1, max_size=3).map(tuple),
    fault_s=st.floats(2.0, 12.0),
    gap_s=st.just(10.0),
    count=st.integers(1, 6),
    seed=st.integers(0, 2**20),
)


def rows_of(one: InjectedPerturbation) -> slice:
    ends = [round(time.timestamp() * 1e6) * 1000 for time in (one.onset, one.end)]
    return slice(*np.searchsorted(TIMES, ends))


@settings(max_examples=25, deadline=None)
@given(plan=PLANS)
def test_only_what_is_told_changes_and_counters_never_go_back(plan: InjectionPlan) -> None:
    changed, perturbations = inject(HOST, plan)
    assert perturbations
    touched: dict[str, list[slice]] = {}
    gone = np.zeros(len(TIMES), dtype=bool)
    for one in perturbations:
        for name, _ in one.channels:
            touched.setdefault(name, []).append(rows_of(one))
        if (one.kind, one.target) == ("lost", "host"):
            gone[rows_of(one)] = True
    left = HOST.frame.filter(pl.Series(~gone))
    assert changed.frame.columns == HOST.frame.columns
    assert changed.frame.schema == HOST.frame.schema
    assert changed.frame["ts"].equals(left["ts"])
    for name, channel in HOST.channels.items():
        before, after = left[name].to_numpy(), changed.frame[name]
        if name not in touched:
            assert after.equals(left[name])
            continue
        inside = np.zeros(len(TIMES), dtype=bool)
        for rows in touched[name]:
            inside[rows] = True
        inside = inside[~gone]
        if channel.kind == "counter":
            known = after.drop_nulls().to_numpy()
            assert (np.diff(known) >= 0).all()
            assert (known >= 0).all()
            outside = ~inside[1:] & ~inside[:-1]
            steps = np.diff(after.fill_null(0).to_numpy())
            assert np.array_equal(steps[outside], np.diff(before)[outside])
        else:
            assert np.array_equal(after.to_numpy()[~inside], before[~inside])


@settings(max_examples=10, deadline=None)
@given(plan=PLANS)
def test_the_same_seed_gives_the_same_bytes_and_the_original_stays(plan: InjectionPlan) -> None:
    original = HOST.frame.clone()
    one, told = inject(HOST, plan)
    two, again = inject(HOST, plan)
    assert one.frame.equals(two.frame, null_equal=True)
    assert told == again
    assert HOST.frame.equals(original)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**20), size=st.floats(1.0, 500.0), kind=st.sampled_from(KINDS[:3]))
def test_values_stay_valid_and_what_was_cut_is_told(seed: int, size: float, kind: str) -> None:
    changed, told = inject(HOST, InjectionPlan(kinds=(kind,), sizes=(size,), gap_s=10.0, seed=seed))
    catalog = load_catalog()
    series = physical_series(changed)
    for name, channel in HOST.channels.items():
        values = series.frame[name].drop_nulls()
        assert values.min() >= 0.0
        if catalog[channel.metric].physical_unit == "%":
            # A count more or less in 100 ms is 10 %.
            assert values.max() <= max(100.0, SERIES[name].max()) + 10.0 + 1e-6
    assert all(0.0 <= one.clipped <= 1.0 for one in told)
    if size == 500.0 and kind == "level":
        assert any(one.clipped > 0.5 for one in told)


def put(telemetry, kind: str, amount: float, begin: float, end: float):
    (name,) = telemetry.channels
    one = InjectedPerturbation(
        kind,
        "metric",
        (telemetry.channels[name].metric,),
        "",
        (),
        None,
        ((name, amount),),
        at(begin),
        at(end),
    )
    usual = habits(telemetry, build_series(telemetry))
    changed, (told,) = write(telemetry, [one], usual, 0)
    return changed.frame[name], told


def test_a_shift_of_a_rate_is_that_shift_and_the_counts_keep_it() -> None:
    telemetry = single_channel("stat.ctxt", np.arange(300, dtype=np.int64) * 400)
    telemetry = replace(
        telemetry, frame=telemetry.frame.with_columns(pl.col("stat.ctxt") + (pl.int_range(300) % 2))
    )
    values, told = put(telemetry, "level", 1000.0, 10.0, 20.0)
    extra = (values - telemetry.frame["stat.ctxt"]).to_numpy()
    assert extra[99] == 0
    assert np.array_equal(extra[100:200], 100 * np.arange(100))
    assert (extra[200:] == extra[199]).all()
    assert told.clipped == 0.0


def test_a_slow_rate_is_added_up_before_it_is_rounded() -> None:
    telemetry = single_channel("vmstat.pgmajfault", np.repeat(np.arange(30, dtype=np.int64), 10))
    values, _ = put(telemetry, "level", 2.0, 10.0, 20.0)
    assert (values - telemetry.frame["vmstat.pgmajfault"])[199] == 20


@pytest.mark.parametrize("kind", ["level", "stuck"])
def test_a_reset_and_a_boot_end_the_offset(kind: str) -> None:
    counts = np.concatenate([np.arange(150) * 50 + 9000, np.arange(150) * 50]).astype(np.int64)
    telemetry = single_channel("stat.ctxt", counts)
    values, _ = put(telemetry, kind, 700.0, 10.0, 20.0)
    assert not np.array_equal(values[100:150].to_numpy(), counts[100:150])
    assert np.array_equal(values[150:].to_numpy(), counts[150:])
    steady = single_channel("stat.ctxt", np.arange(300, dtype=np.int64) * 50 + np.arange(300) % 3)
    booted = steady.frame.with_columns((pl.int_range(300) >= 150).cast(pl.Int32).alias(BOOT_COLUMN))
    values, _ = put(replace(steady, frame=booted), kind, 700.0, 10.0, 20.0)
    assert values[149] != steady.frame["stat.ctxt"][149]
    assert values[150:].equals(steady.frame["stat.ctxt"][150:])


def test_a_counter_of_32_bits_wraps_as_before() -> None:
    counts = (2**32 - 60_000 + np.arange(300) * 400 + np.arange(300) % 2) % 2**32
    telemetry = single_channel("scsi.iorequest_cnt", counts.astype(np.int64), "sda")
    values, _ = put(telemetry, "level", 3000.0, 10.0, 20.0)
    assert values.max() < 2**32
    frame = telemetry.frame.with_columns(values)
    rates = physical_series(replace(telemetry, frame=frame)).frame[values.name].to_numpy()[1:]
    assert rates[110:190].mean() == pytest.approx(7000.0, rel=0.01)
    assert rates[210:].mean() == pytest.approx(4000.0, rel=0.01)


def test_a_gauge_keeps_what_it_froze_at_and_whole_numbers_stay_whole() -> None:
    values = np.random.default_rng(0).integers(1, 5, 300).astype(np.float32)
    telemetry = single_channel("stat.procs_running", values)
    stuck, _ = put(telemetry, "stuck", 0.0, 10.0, 20.0)
    assert (stuck[100:200] == values[99]).all()
    raised, told = put(telemetry, "trend", 5.3, 10.0, 20.0)
    assert np.array_equal(raised.to_numpy(), np.round(raised.to_numpy()))
    assert raised[199] - values[199] == 5.0
    lowered, told = put(telemetry, "level", -3.0, 10.0, 20.0)
    assert lowered.min() == 0.0
    assert told.clipped == pytest.approx(float((values[100:200] < 3).mean()))


def test_only_the_time_since_the_onset_is_shifted_after_a_gap() -> None:
    telemetry = single_channel("stat.ctxt", np.arange(300, dtype=np.int64) * 400 + np.arange(300) % 2)
    holed = telemetry.frame.with_columns(
        pl.when(pl.int_range(300).is_between(50, 104))
        .then(None)
        .otherwise(pl.col("stat.ctxt"))
        .alias("stat.ctxt")
    )
    values, _ = put(replace(telemetry, frame=holed), "level", 1000.0, 10.0, 20.0)
    assert values.null_count() == 55
    assert values[105] - telemetry.frame["stat.ctxt"][105] == 500


def test_what_gets_lost_is_missing_and_nothing_else() -> None:
    for target in ("metric", "source", "host"):
        plan = InjectionPlan(kinds=("lost",), targets=(target,), gap_s=10.0, count=1)
        changed, (one,) = inject(HOST, plan)
        rows = rows_of(one)
        if target == "host":
            assert len(changed.frame) == len(HOST.frame) - (rows.stop - rows.start)
            continue
        names = [name for name, _ in one.channels]
        assert all(changed.frame[name][rows].is_null().all() for name in names)
        assert sum(changed.frame.null_count().row(0)) == len(names) * (rows.stop - rows.start)
        if target == "source":
            assert {HOST.channels[name].source for name in names} == {one.source}
            assert len(names) == sum(channel.source == one.source for channel in HOST.channels.values())
    assert set(TARGETS) >= {"metric", "source", "host"}
