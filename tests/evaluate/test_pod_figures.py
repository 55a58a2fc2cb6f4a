"""What is named for faults in pods, by what each pod did in the minutes before."""

from __future__ import annotations

import numpy as np
import pytest

from reveal_core.errors import UsageError
from reveal_core.evaluate.labelled import FaultDay, PodFault, TimedSeries
from reveal_core.evaluate.pods import (
    CPU_METRIC,
    LocalRule,
    day_figures,
    excursions,
    judge_pods,
    named,
    pod_signals,
    service_of,
)

WEB, DB = "web-5c9-x1", "db-77f-y2"
MINUTES = 200
BURN_S, DELAY_S, BUG_S = 3000.0, 6000.0, 9000.0
FAULTS = (
    PodFault(BURN_S, DB, "cpu_consumed", "cpu"),
    PodFault(DELAY_S, DB, "network_delay", "network"),
    PodFault(BUG_S, WEB, "return", None),
)
RULE = LocalRule()


def day(*, edges: bool = True, faults: tuple[PodFault, ...] = FAULTS) -> FaultDay:
    """Return two pods whose clocks are apart: the database burns CPU, later its answers are held up."""
    draw = np.random.default_rng(0)
    web_s, db_s = np.arange(MINUTES) * 60.0 + 7.0, np.arange(MINUTES) * 60.0 + 21.0
    busy = draw.normal(20.0, 1.0, size=(2, MINUTES))
    own = draw.normal(0.005, 0.0005, MINUTES)
    seen = own * draw.normal(1.3, 0.05, MINUTES)
    burning, held_up = ((db_s > start) & (db_s <= start + 200) for start in (BURN_S, DELAY_S))
    busy[1, burning] += 60.0
    own[burning] *= 50.0
    seen[burning] *= 50.0
    seen[held_up] += 0.3
    pods = tuple(
        TimedSeries(name, times, np.column_stack([used, used * 5.0]))
        for name, times, used in ((WEB, web_s, busy[0]), (DB, db_s, busy[1]))
    )
    sides = (("destination", own, db_s), ("source", seen, web_s))
    latency = tuple(TimedSeries(f"web_db/{side}", times, values[:, None]) for side, values, times in sides)
    return FaultDay("2030-01-02", (CPU_METRIC, "bytes"), pods, latency if edges else (), faults)


def test_cpu_and_network_are_told_apart() -> None:
    today = day()
    figures = day_figures(today, judge_pods(today, RULE), RULE)
    assert figures.named == {
        "cpu_consumed": {"cpu": 1, "network": 0, "none": 0},
        "network_delay": {"cpu": 0, "network": 1, "none": 0},
        "return": {"cpu": 0, "network": 0, "none": 1},
    }
    assert figures.faults == figures.right == {"cpu": 1, "network": 1, "none": 1}
    assert (figures.latency, figures.free_named) == (True, 0)
    assert 250 < figures.free < 2 * MINUTES


def test_without_latency_a_delay_is_not_seen_and_not_called_cpu() -> None:
    today = day(edges=False)
    figures = day_figures(today, judge_pods(today, RULE), RULE)
    assert figures.named["network_delay"] == {"cpu": 0, "network": 0, "none": 1}
    assert (figures.latency, figures.right) == (False, {"cpu": 1, "network": 0, "none": 1})


def test_only_the_callee_is_blamed_for_the_way_to_it() -> None:
    signals = pod_signals(day())
    assert signals[WEB]["network"] == []
    (ratio,) = signals[DB]["network"]
    assert len(ratio.times_s) == MINUTES
    assert np.median(ratio.values) == pytest.approx(np.log(1.3), abs=0.03)


def test_a_sample_is_judged_by_itself_and_those_before_it() -> None:
    today = day()
    database = next(pod for pod in judge_pods(today, RULE) if pod.pod == DB)
    times = today.pods[1].times_s
    beyond = database.scores["cpu"] >= RULE.threshold
    assert not beyond[(times < BURN_S) | (times > BURN_S + 600)].any()
    assert beyond[(times > BURN_S + 100) & (times < BURN_S + 200)].any()
    assert times[database.labels].min() == pytest.approx(BURN_S, abs=60)
    assert database.labels.sum() == 12
    assert not (database.free & database.labels).any()
    # A fault in the code is nothing that the hardware has to show.
    assert not judge_pods(today, RULE)[0].labels.any()
    cut = FaultDay(
        today.day,
        today.metrics,
        tuple(TimedSeries(p.name, p.times_s[:60], p.values[:60]) for p in today.pods),
        tuple(TimedSeries(e.name, e.times_s[:60], e.values[:60]) for e in today.edges),
        today.faults[:1],
    )
    for whole, part in zip(judge_pods(today, RULE), judge_pods(cut, RULE), strict=True):
        np.testing.assert_array_equal(whole.scores["network"][:60], part.scores["network"])


def test_a_small_rise_is_named_by_no_measure() -> None:
    quiet = TimedSeries("p", np.arange(40) * 60.0, np.where(np.arange(40) < 30, 1.0, 15.0)[:, None])
    moment = np.array([29 * 60.0])
    (rise,) = excursions({"cpu": [quiet]}, moment, RULE)["cpu"]
    assert rise == pytest.approx(14.0 / 5.0)
    assert named({"cpu": np.array([rise]), "network": np.zeros(1)}, RULE) == ["none"]
    assert named({"cpu": np.array([rise]), "network": np.array([3.0])}, RULE) == ["network"]


def test_too_few_samples_are_as_usual() -> None:
    values = np.full((40, 1), 1.0)
    values[28:31] = 99.0
    sparse = values.copy()
    sparse[29:31] = np.nan
    times = np.arange(40) * 60.0
    moment = np.array([27 * 60.0 + 30.0])
    for series, expected in ((values, 98.0 / 5.0), (sparse, 0.0), (np.full_like(values, np.nan), 0.0)):
        found = excursions({"cpu": [TimedSeries("p", times, series)]}, moment, RULE)["cpu"]
        assert found == pytest.approx([expected])
    early = excursions({"cpu": [TimedSeries("p", times, values)]}, np.array([70.0]), RULE)["cpu"]
    assert early.tolist() == [0.0]


def test_a_day_without_cpu_is_refused() -> None:
    whole = day()
    other = FaultDay(whole.day, ("x", "bytes"), whole.pods, whole.edges, whole.faults)
    with pytest.raises(UsageError, match="2030-01-02: no column cpu_rate_pct"):
        judge_pods(other, RULE)


def test_services_of_pods() -> None:
    assert service_of("frontend-579b9bff58-t2dbm") == "frontend"
