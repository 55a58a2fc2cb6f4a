"""What is counted when slow nodes of a job are looked for."""

from __future__ import annotations

import numpy as np
import pytest

from reveal_core.errors import UsageError
from reveal_core.evaluate.labelled import PeerJob
from reveal_core.evaluate.peers import peer_figures

METRICS = ("ipc", "flops_any", "clock")
SPAN_S = 1200.0


def job(slow: frozenset[str] = frozenset({"2"}), minutes: int = 90, nodes: int = 8) -> PeerJob:
    values = np.random.default_rng(0).normal(1.0, 0.02, size=(minutes, nodes, 3)) * [1.5, 200.0, 2600.0]
    values[:, 2, :2] *= 0.85
    names = tuple(str(number) for number in range(nodes))
    return PeerJob("job_x", names, METRICS, 60.0, values, slow, ("ipc", "flops_any"))


def test_a_slow_node_is_found_and_no_other() -> None:
    figures = peer_figures(job(), ("ipc", "flops_any"), SPAN_S)
    assert (figures.job, figures.metrics, figures.hours) == ("job_x", ("ipc", "flops_any"), 71)
    assert figures.slow_on_top == 1.0
    assert figures.named_after_min == {"2": 20.0}
    assert (figures.others_named, figures.healthy_named) == ((), 0)
    assert figures.healthy_minutes == 71 * 7
    assert figures.ranking.average_precision == pytest.approx(1.0)
    assert np.isnan(figures.ranking.vus_pr)
    assert [(one.events, one.found) for one in figures.events].count((1, 1)) == 1
    assert figures.events[2].delays_min == (20.0,)
    assert sum(one.false_alarms for one in figures.events) == 0


def test_a_node_that_is_named_without_being_slow_is_counted() -> None:
    figures = peer_figures(job(slow=frozenset({"5"})), ("ipc", "flops_any"), SPAN_S)
    assert figures.named_after_min == {"5": None}
    assert figures.others_named == ("2",)
    assert figures.healthy_named > 60
    assert figures.slow_on_top == 0.0
    assert (figures.events[5].found, figures.events[2].false_alarms) == (0, 1)


def test_a_job_without_slow_nodes_has_nothing_to_rank() -> None:
    figures = peer_figures(job(slow=frozenset()), ("clock",), SPAN_S)
    assert np.isnan(figures.slow_on_top)
    assert np.isnan(figures.ranking.average_precision)
    assert (figures.named_after_min, figures.others_named) == ({}, ())


def test_a_job_that_is_too_short_or_too_small_is_refused() -> None:
    with pytest.raises(UsageError, match="90 windows are too few to compare peers over 120"):
        peer_figures(job(), ("ipc",), 7200.0)
    with pytest.raises(UsageError, match="3 hosts are too few"):
        peer_figures(job(nodes=3), ("ipc",), SPAN_S)
