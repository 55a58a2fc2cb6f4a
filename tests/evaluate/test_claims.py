"""Figures of the publication's kind, on telemetry of which it is known what they must be."""

from __future__ import annotations

from dataclasses import replace

from reveal_core.evaluate.claims import CLAIMS, Agreement, agreement, alike_pairs, kept_channels
from reveal_core.evaluate.published import LOSS, judge_cases
from reveal_core.evaluate.training_host import of, times, training_host
from reveal_core.method import build_series, build_windows
from reveal_core.profiles import DEFAULT, PAPER

LEVEL = replace(DEFAULT, statistics=("level",))


def windows(seed: int, **more):
    return build_windows(build_series(training_host(40.0, seed=seed, **more)), LEVEL)


def test_claims_have_names_of_their_own() -> None:
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert all(claim.claim and claim.paper and claim.how for claim in CLAIMS)


def test_runs_of_one_workload_are_alike_and_one_that_differs_is_told() -> None:
    same = {"training": [windows(seed) for seed in range(6)]}
    alike, pairs = alike_pairs(same)
    assert pairs > 50
    assert alike / pairs > 0.9
    half = windows(9, fault=of("net.rx_bytes", ["eth0"], times(0.2)), span=(0.0, 40.0))
    fewer, still = alike_pairs({"training": [*same["training"][:5], half]})
    assert still == pairs
    assert 0 < alike - fewer <= 6


def test_of_channels_that_move_together_one_is_kept() -> None:
    kept = kept_channels(training_host(60.0), replace(PAPER, statistics=("level",)))
    names = set(kept.kept)
    assert 0.0 < kept.share < 0.6
    assert len([name for name in names if name.startswith("numa.local_node")]) <= 1


def test_a_setting_agrees_with_itself() -> None:
    faulty = training_host(60.0, seed=1, fault=LOSS, span=(30.0, 45.0))
    runs = {"one": (training_host(60.0), faulty)}
    (same,) = agreement(runs, [PAPER, PAPER])
    assert same == Agreement((1.0,), (1.0,))
    assert same.words() == ("median 1.00", "mean 1.00, median 1.00")
    assert Agreement((), ()).words() == ("nothing was flagged", "nothing was flagged")


def test_each_case_is_judged() -> None:
    judged = judge_cases(DEFAULT)
    assert [case.case.number for case in judged] == [1, 2, 3, 4, 5]
    assert [case.cause_rank for case in judged] == [1] * 5
