"""Slow nodes of a real job and faults in real pods: the bars that must be reached."""

from dataclasses import replace
from pathlib import Path

import pytest

from reveal_core.evaluate.datasets import emmy, nezha
from reveal_core.evaluate.peers import peer_figures
from reveal_core.evaluate.pods import LocalRule, day_figures, judge_pods

SHARED = Path(__file__).parents[3] / "shared/data"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there"),
]


def test_the_slow_nodes_are_named_within_90_minutes_and_no_other() -> None:
    (job,) = emmy.read(SHARED / "emmy_jobs")
    # Five hours of the day; `reveal evaluate` has all of it.
    figures = peer_figures(replace(job, values=job.values[:300]), job.work)
    assert figures.slow_on_top >= 0.99
    assert all(minutes is not None and minutes <= 90 for minutes in figures.named_after_min.values())
    assert (figures.others_named, figures.healthy_named) == ((), 0)
    assert figures.healthy_minutes == 241 * 30


def test_faults_in_pods_are_told_apart() -> None:
    rule = LocalRule()
    boutique, tickets = (
        day_figures(day, judge_pods(day, rule), rule) for day in nezha.read(SHARED / "nezha")
    )
    assert (boutique.right["cpu"] >= 9, boutique.right["network"] >= 5, boutique.right["none"] >= 5) == (
        True,
    ) * 3
    assert tickets.right["cpu"] == 3
    assert tickets.named["network_delay"]["cpu"] == 0
    for figures in (boutique, tickets):
        assert figures.free_named <= 0.02 * figures.free
