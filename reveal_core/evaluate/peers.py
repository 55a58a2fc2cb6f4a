"""Peer comparison on jobs of which it is known who was slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from reveal_core.detect.peers import PeerDetector
from reveal_core.evaluate.detection import EventScores, RankingScores, event_scores
from reveal_core.evaluate.labelled import PeerJob

SPAN_S = 3600.0
"""Time over which nodes are compared."""
_NAMED = 0.5
"""Between not named and named."""


@dataclass(frozen=True)
class PeerFigures:
    """How well a job's slow nodes were told from the others, hour by hour, a new one each row.

    Attributes
    ----------
    job, metrics
        The job's name, and the metrics in which nodes were compared.
    hours
        Full hours that were compared.
    slow_on_top
        Share of them in which the slow nodes have the highest scores; NaN where no node is known to be slow.
    named_after_min
        For each slow node, minutes from the beginning of the job until it is first named; None for never.
    others_named
        Other nodes that were ever named.
    healthy_minutes, healthy_named
        Minutes of other nodes with a score, over all nodes, and those of them in which the node is named.
    ranking
        Of scores over all nodes and minutes. VUS-PR is NaN: who is slow is slow throughout, so there is no
        beginning or end to be early or late at.
    events
        One per node; the whole job is the event of a slow one.
    """

    job: str
    metrics: tuple[str, ...]
    hours: int
    slow_on_top: float
    named_after_min: dict[str, float | None]
    others_named: tuple[str, ...]
    healthy_minutes: int
    healthy_named: int
    ranking: RankingScores
    events: tuple[EventScores, ...]


def peer_figures(job: PeerJob, metrics: Sequence[str], span_s: float = SPAN_S) -> PeerFigures:
    """Compare the nodes of a job in every full hour and judge what was found.

    Parameters
    ----------
    job
        The job; who is slow is used for judging alone.
    metrics
        Those to compare nodes in.
    span_s
        Length of an hour, s.

    Raises
    ------
    UsageError
        If the job is shorter than an hour or has too few nodes.
    """
    span = max(1, round(span_s / job.period_s))
    columns = [job.metrics.index(name) for name in metrics]
    found = PeerDetector(span=span).compare(job.values[:, :, columns])
    slow = np.array([node in job.slow for node in job.nodes])
    judged = ~np.isnan(found.score)
    score = np.where(judged, found.score, -1.0)
    top = np.argsort(-score, axis=1, kind="stable")[:, : int(slow.sum())]
    minutes = found.ends * job.period_s / 60.0
    after = {
        job.nodes[n]: float(minutes[found.named[:, n].argmax()]) if found.named[:, n].any() else None
        for n in np.flatnonzero(slow)
    }
    labels = np.broadcast_to(slow, score.shape)
    # Rows by the minutes that have passed; nothing can be named before the first hour is full.
    flags = np.concatenate([np.zeros((span, len(slow)), dtype=bool), found.named])
    return PeerFigures(
        job=job.job,
        metrics=tuple(metrics),
        hours=len(found.ends),
        slow_on_top=float(slow[top].all(axis=1).mean()) if slow.any() else np.nan,
        named_after_min=after,
        others_named=tuple(job.nodes[n] for n in np.flatnonzero(found.named.any(axis=0) & ~slow)),
        healthy_minutes=int(judged[:, ~slow].sum()),
        healthy_named=int(found.named[:, ~slow].sum()),
        ranking=_ranking(found.score[judged], labels[judged]),
        events=tuple(
            event_scores(flags[:, n].astype(np.float64), _NAMED, np.full(len(flags), odd), job.period_s)
            for n, odd in enumerate(slow)
        ),
    )


def _ranking(scores: np.ndarray, labels: np.ndarray) -> RankingScores:
    if labels.all() or not labels.any():
        return RankingScores(np.nan, np.nan, np.nan)
    return RankingScores(
        average_precision=float(average_precision_score(labels, scores)),
        auc=float(roc_auc_score(labels, scores)),
        vus_pr=np.nan,
    )
