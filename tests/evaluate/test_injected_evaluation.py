"""A model judged by perturbations: what is counted, told and left out."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest
from injected_samples import at, sample_telemetry

from reveal_core.catalog import load_catalog
from reveal_core.channels import SUBSYSTEMS
from reveal_core.errors import UsageError
from reveal_core.evaluate.injected import (
    DEFAULT_PLAN,
    InjectionPlan,
    Judged,
    evaluate_injected,
    inject,
    injected_copies,
    judge_injected,
    moved_metrics,
)
from reveal_core.evaluate.injected_plan import KINDS, LOST_TARGETS, SIZED
from reveal_core.evaluate.injected_result import JudgedFault, figures
from reveal_core.method import build_series, build_windows, fit_model
from reveal_core.profiles import load_profile
from reveal_core.telemetry import SPARSE_GRID

PLAN = InjectionPlan(kinds=SIZED, sizes=(0.1, 40.0), count=24, seed=3)


@pytest.fixture(scope="module")
def model():
    return fit_model([sample_telemetry(150.0)], load_profile("default"))


@pytest.fixture(scope="module")
def result(model):
    return evaluate_injected(model, sample_telemetry(200.0, seed=1), PLAN)


def test_large_perturbations_are_found_and_explained_and_tiny_ones_are_not(result) -> None:
    summary = result.summary
    assert summary["injected"] == 24
    assert summary["recall_by_size"]["40"] >= 0.8
    assert summary["recall_by_size"]["0.1"] <= 0.2
    assert 0.0 <= summary["median_delay_s"] <= 6.0
    assert summary["metric_top3"] >= 0.8
    assert summary["subsystem_top1"] >= 0.8


def test_what_is_too_small_to_be_found_is_explained_when_asked(result) -> None:
    missed = [fault for fault in result.faults if not fault.detected]
    assert missed
    assert all(fault.asked is not None and fault.named is None for fault in missed)
    large = result.by("size")["40"]
    assert large["asked_metric_top3"] >= 0.8
    assert large["asked_subsystem_top1"] >= 0.8


def test_only_those_who_ask_pay_for_it(model) -> None:
    telemetry = sample_telemetry(150.0, seed=1)
    series = build_series(telemetry)
    profile = load_profile("default")
    clean = Judged(series, build_windows(series, profile))
    ((copy, told),) = injected_copies(telemetry, series, replace(PLAN, count=1))
    changed = build_series(copy)
    found = judge_injected(model, clean, [Judged(changed, build_windows(changed, profile), tuple(told))])
    assert [fault.asked for fault in found.faults] == [None]
    assert found.summary["asked_metric_top3"] is None


def test_figures_have_stable_names_and_are_plain(result) -> None:
    document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert set(document) == {
        "summary",
        "by_kind",
        "by_target",
        "by_size",
        "by_subsystem",
        "faults",
    }
    assert set(document["summary"]) >= {
        "injected",
        "recall",
        "median_delay_s",
        "metric_top1",
        "metric_top3",
        "subsystem_top1",
        "asked_metric_top3",
        "asked_subsystem_top1",
        "false_incidents",
        "healthy_hours",
        "recall_by_kind",
        "recall_by_size",
    }
    assert set(document["faults"][0]) >= {
        "kind",
        "target",
        "metrics",
        "instance",
        "subsystem",
        "size",
        "onset",
        "end",
        "detected",
        "delay_s",
        "metric_rank",
        "subsystem_rank",
        "asked_metric_rank",
        "asked_subsystem_rank",
    }
    assert sum(row["injected"] for row in document["by_subsystem"].values()) == 24
    assert set(document["by_kind"]) == set(SIZED)


def test_the_same_plan_gives_the_same_figures(model, result) -> None:
    assert evaluate_injected(model, sample_telemetry(200.0, seed=1), PLAN).to_dict() == result.to_dict()


def test_incidents_of_the_recording_itself_are_false_once_and_find_nothing(model) -> None:
    telemetry = sample_telemetry(200.0, seed=1)
    rows = pl.int_range(len(telemetry.frame))
    burst = pl.when(rows >= 900).then(60 * (rows.clip(900, 1000) - 900)).otherwise(0)
    own = telemetry.frame.with_columns((pl.col("cgroup.nr_throttled/job") + burst).cast(pl.Int64))
    telemetry = replace(telemetry, frame=own)
    found = evaluate_injected(model, telemetry, InjectionPlan(kinds=("level",), sizes=(0.01,), count=12))
    assert found.own_incidents == 1
    assert found.summary["false_incidents"] == 1
    assert found.summary["detected"] == 0
    assert found.summary["healthy_hours"] == pytest.approx(200 / 3600, rel=0.02)


def test_kinds_sizes_targets_and_subsystems_take_turns() -> None:
    telemetry = sample_telemetry(400.0)
    plan = InjectionPlan(count=40, passes=20)
    copies = injected_copies(telemetry, build_series(telemetry), plan)
    told = [one for _, perturbations in copies for one in perturbations]
    assert len(told) == 40
    assert {kind: sum(one.kind == kind for one in told) for kind in KINDS} == dict.fromkeys(KINDS, 8)
    sized = [one for one in told if one.kind in SIZED]
    assert {size: sum(one.size == size for one in sized) for size in plan.sizes} == dict.fromkeys(
        plan.sizes, 6
    )
    assert all((one.size is None) == (one.kind not in SIZED) for one in told)
    assert {one.target for one in told if one.kind == "lost"} == set(LOST_TARGETS)
    there = {channel.subsystem for channel in telemetry.channels.values()}
    assert {s for one in sized if one.target == "metric" for s in one.subsystems} == there < set(SUBSYSTEMS)
    # On one instance, only what has several; together, several metrics of one subsystem.
    assert all(one.instance.startswith("cpu") for one in told if one.target == "instance")
    assert all(len(one.subsystems) == 1 for one in told if one.target == "subsystem")
    assert max(len(one.metrics) for one in told if one.target == "subsystem") == plan.together


def test_perturbations_keep_their_distance() -> None:
    telemetry = sample_telemetry(400.0)
    for _, perturbations in injected_copies(telemetry, build_series(telemetry), DEFAULT_PLAN, end=at(300.0)):
        ends = [at(0.0), *(one.end for one in perturbations)]
        onsets = [*(one.onset for one in perturbations), at(300.0)]
        gaps = [(b - a).total_seconds() for a, b in zip(ends, onsets, strict=True)]
        assert min(gaps[:-1]) >= 29.99
        assert gaps[-1] >= 0.0


def test_what_does_not_fit_is_left_out_and_too_little_is_refused() -> None:
    telemetry = sample_telemetry(150.0)
    assert len(inject(telemetry, DEFAULT_PLAN)[1]) == 2
    copies = injected_copies(telemetry, build_series(telemetry), replace(DEFAULT_PLAN, passes=3))
    assert [len(perturbations) for _, perturbations in copies] == [2, 2, 2]
    assert {one.kind for _, perturbations in copies for one in perturbations} == set(KINDS)
    with pytest.raises(UsageError, match="60 s of telemetry are too short"):
        inject(telemetry, DEFAULT_PLAN, end=at(60.0))


def test_states_and_signals_that_stand_still_are_left_alone() -> None:
    telemetry = sample_telemetry(200.0)
    still = telemetry.frame.with_columns((pl.col("stat.ctxt") * 0).alias("stat.ctxt"))
    plan = InjectionPlan(kinds=("level",), targets=("metric",), count=60, passes=60)
    copies = injected_copies(
        replace(telemetry, frame=still), build_series(replace(telemetry, frame=still)), plan
    )
    struck = {metric for _, perturbations in copies for one in perturbations for metric in one.metrics}
    assert "stat.ctxt" not in struck
    assert "tcp.RetransSegs" in struck  # an event stands still while all is well
    only = {"meminfo.MemFree": telemetry.channels["meminfo.MemFree"]}
    flat = telemetry.frame.select("ts", "mono", (pl.col("meminfo.MemFree") * 0).alias("meminfo.MemFree"))
    with pytest.raises(UsageError, match="no channel of this telemetry can be perturbed"):
        inject(replace(telemetry, frame=flat, channels=only), plan)


def test_telemetry_whose_interval_followed_the_host_is_perturbed_too() -> None:
    telemetry = sample_telemetry(150.0)
    grid = load_catalog()[SPARSE_GRID].channel("", "reveal", 100)
    frame = telemetry.frame.with_columns(
        (pl.int_range(len(telemetry.frame)) % 6 == 0).cast(pl.Int8).alias(grid.name)
    )
    adaptive = replace(
        telemetry, frame=frame, channels={**telemetry.channels, grid.name: grid}, facts={"calm_ms": 600}
    )
    changed, told = inject(adaptive, InjectionPlan(kinds=("level",), sizes=(40.0,), count=2))
    assert len(told) == 2
    name, amount = told[0].channels[0]
    levels = [
        build_series(one).frame.filter(pl.col("ts").is_between(told[0].onset, told[0].end))[name].mean()
        for one in (adaptive, changed)
    ]
    assert abs(levels[1] - levels[0]) > 0.3 * abs(amount)


def test_derived_metrics_and_changes_are_right_too() -> None:
    assert {"cpu.busy", "cpu.iowait.change"} <= moved_metrics(["cpu.iowait"])
    assert "irq.busiest_core_share" in moved_metrics(["irq.device"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kinds": ("jump",)}, "injection kinds \\['jump'\\]: choose from level"),
        ({"targets": ("rack",)}, "choose from metric"),
        ({"sizes": (0.0,)}, "must be above 0"),
        ({"gap_s": 5.0}, "cannot be judged"),
        ({"count": 0}, "1 or more"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(settings: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        InjectionPlan(**settings)


def test_what_is_lost_of_a_whole_host_has_no_right_subsystem() -> None:
    plan = InjectionPlan(kinds=("lost",), targets=("host",), count=1)
    _, (one,) = inject(sample_telemetry(150.0), plan)
    row = figures([JudgedFault(one, True, 1.0)])
    assert (row["recall"], row["subsystem_top1"], row["metric_top1"]) == (1.0, None, None)
