"""A campaign's figures, on pieces made by hand whose sums can be told."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from reveal_core.evaluate.campaign import CampaignFault, JudgedPiece, judge_pieces
from reveal_core.evaluate.campaign_summary import figures, summarise
from reveal_core.evaluate.matching import InjectedFault
from reveal_core.incidents import CauseFinding, Incident, SubsystemShare

START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
CONTRACT = {
    "fault",
    "slowdown",
    "detected",
    "delay_s",
    "subsystem_rank",
    "cause_rank",
    "false_incidents",
}


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def fault(
    second: float,
    name: str = "cpu-quota",
    subsystem: str = "cpu",
    causes: tuple[str, ...] = (),
    length: float = 20.0,
    paces: tuple[float | None, float | None] = (10.0, 5.0),
    lenient: tuple[str, ...] = (),
    variant: str = "training",
) -> CampaignFault:
    truth = InjectedFault(name, subsystem, at(second), at(second + length), causes, "a")
    return CampaignFault(truth, 0, variant, 1.0, length, "as told", *paces, lenient)


def incident(second: float, subsystem: str = "cpu", causes: tuple[str, ...] = ("cpu-quota",)) -> Incident:
    ranking = [subsystem, *(s for s in ("cpu", "memory", "network", "storage") if s != subsystem)]
    return Incident(
        id=f"{subsystem}-{second}",
        fingerprint="f",
        host="a",
        start=at(second),
        end=at(second + 5),
        severity=1,
        probability=0.001,
        score=2.0,
        subsystem=subsystem,
        subsystems=tuple(SubsystemShare(name, 0.25) for name in ranking),
        metrics=(),
        causes=tuple(CauseFinding(c, c, subsystem, 0.5, (), (), "", "") for c in causes),
    )


def piece(
    faults, incidents, seconds: float = 600.0, number: int = 0, variant: str = "training"
) -> JudgedPiece:
    return JudgedPiece(number, variant, 7, at(0), at(seconds), tuple(faults), tuple(incidents))


def test_a_run_says_what_became_of_its_fault() -> None:
    pieces = [piece([fault(100), fault(200)], [incident(101.5), incident(150), incident(300)])]
    (first, second), (line,) = judge_pieces(pieces)
    assert first.to_dict().keys() >= CONTRACT
    assert (first.detected, first.delay_s, first.slowdown, first.harmful) == (True, 1.5, 0.5, True)
    assert (first.subsystem_rank, first.cause_rank, first.cause_strict) == (1, 1, True)
    assert (first.false_incidents, first.incident) == (1, "cpu-101.5")
    assert (second.detected, second.delay_s, second.subsystem_rank, second.cause_rank) == (
        False,
        None,
        None,
        None,
    )
    assert (second.subsystem_found, second.cause_found, second.subsystem_right) == ("", "", None)
    assert second.false_incidents == 1
    assert [one["id"] for one in line["false_incidents"]] == ["cpu-150", "cpu-300"]


@pytest.mark.parametrize(
    ("paces", "slowdown", "harmful"),
    [
        ((10.0, 8.0), 0.2, True),
        ((10.0, 8.01), 0.199, False),
        ((10.0, 0.0), 1.0, True),
        ((10.0, 12.0), -0.2, False),
        ((0.0, 5.0), None, False),
        ((None, 5.0), None, False),
        ((10.0, None), None, False),
    ],
)
def test_harm_is_by_the_pace(paces, slowdown, harmful) -> None:
    (run,), _ = judge_pieces([piece([fault(100, paces=paces)], [])])
    assert run.slowdown == slowdown
    assert run.harmful is harmful


def test_lenience_counts_beside_the_strict_figures() -> None:
    loader = fault(
        100, "data-loader-stall", "storage", ("data-loader-stall", "straggler-process"), lenient=("cpu",)
    )
    (run,), _ = judge_pieces([piece([loader], [incident(100, "cpu", ("job-phase", "straggler-process"))])])
    assert (run.subsystem_right, run.subsystem_lenient, run.subsystem_rank) == (False, True, 4)
    assert (run.cause_rank, run.cause_strict, run.cause_found) == (2, False, "job-phase")
    (run,), _ = judge_pieces([piece([loader], [incident(100, "network", ("packet-loss",))])])
    assert (run.subsystem_lenient, run.cause_rank) == (False, None)


def test_healthy_time_leaves_out_faults_as_far_as_they_are_matched() -> None:
    assert piece([], []).healthy_hours() == pytest.approx(600 / 3600)
    # from 1 s before the onset to the end
    assert piece([fault(100)], []).healthy_hours() == pytest.approx((600 - 21) / 3600)
    # from where its preparation began
    prepared = fault(100)
    prepared = replace(prepared, truth=replace(prepared.truth, begun=at(95)))
    assert piece([prepared], []).healthy_hours() == pytest.approx((600 - 25) / 3600)
    # a short one as far as an incident may begin late
    assert piece([fault(100, length=2)], []).healthy_hours() == pytest.approx((600 - 11) / 3600)
    # two that touch are counted once, and one at the end only as far as the range goes
    both = piece([fault(100), fault(110), fault(595)], [])
    assert both.healthy_hours() == pytest.approx((600 - 31 - 6) / 3600)


def test_the_summary_adds_up() -> None:
    pieces = [
        piece(
            [
                fault(100),
                fault(200, "packet-loss", "network", ("packet-loss",), paces=(10.0, 9.0)),
                fault(300, "slow-reads", "storage", ("disk-slow",)),
            ],
            [incident(102), incident(201, "network", ("a", "b", "packet-loss")), incident(400)],
            seconds=1800.0,
        ),
        piece(
            [fault(100, variant="inference"), fault(200, variant="inference")],
            [incident(104), incident(209, "memory", ("a", "b", "c", "cpu-quota"))],
            seconds=1800.0,
            number=1,
            variant="inference",
        ),
    ]
    runs, lines = judge_pieces(pieces)
    summary = summarise(runs, lines)
    every = summary["all"]
    assert (every["injected"], every["detected"], every["recall"]) == (5, 4, 0.8)
    assert every["median_delay_s"] == 3.0
    assert every["subsystem_first"] == 0.75
    assert (every["cause_first"], every["cause_in_three"]) == (0.5, 0.75)
    assert (summary["harmful"]["injected"], summary["harmful"]["recall"]) == (4, 0.75)
    assert summary["harmful"]["median_delay_s"] == 4.0
    assert summary["false_incidents"] == 1
    assert summary["healthy_hours"] == pytest.approx((3600 - 5 * 21) / 3600, abs=1e-4)
    assert summary["false_per_3h"] == pytest.approx(3 / summary["healthy_hours"], abs=1e-3)
    assert summary["by_subsystem"]["storage"]["recall"] == 0.0
    assert summary["by_subsystem"]["storage"]["cause_first"] is None
    assert summary["by_variant"]["inference"]["injected"] == 2
    assert summary["by_fault"]["packet-loss"]["cause_in_three"] == 1.0
    assert summary["seeds"] == [7, 7]
    met = {target["figure"]: target["met"] for target in summary["targets"]}
    assert met == {
        "all.injected": False,
        "harmful.recall": False,
        "harmful.median_delay_s": False,
        "all.recall": False,
        "all.subsystem_first_lenient": False,
        "all.cause_first": False,
        "all.cause_in_three": False,
        "healthy.false_per_3h": False,
    }


def test_targets_are_met_at_their_bounds() -> None:
    faults = [fault(100 * number) for number in range(1, 151)]
    incidents = [incident(100 * number + 3.0) for number in range(1, 151)]
    runs, lines = judge_pieces([piece(faults, incidents, seconds=16_000.0)])
    assert all(target["met"] for target in summarise(runs, lines)["targets"])


def test_of_nothing_nothing_is_told() -> None:
    assert figures([])["recall"] is None
    summary = summarise([], [])
    assert summary["false_per_3h"] is None
    assert [target["met"] for target in summary["targets"]].count(None) == 7
