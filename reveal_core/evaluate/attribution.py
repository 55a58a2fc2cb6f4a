"""How well a ranking of metrics explains labelled anomalies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from reveal_core.evaluate.labelled import Segment


@dataclass(frozen=True)
class AttributionScores:
    """Shares over segments, 0 to 1; NaN where no segment can be judged.

    Attributes
    ----------
    segments
        How many were judged: those with labelled metrics.
    top1, top3
        The first metric is a labelled one; any of the first three is.
    hit100, hit150
        HitRate@100 % and @150 %, see `hit_rate`, mean over segments.
    subsystem
        The first metric's subsystem is that of a labelled metric. Only over the `subsystem_segments` with a
        labelled metric of known subsystem.
    subsystem_no_storage
        The same over the `no_storage_segments`: without those whose labelled metrics are all storage. Such
        are many in some data sets, and easy.
    """

    segments: int
    top1: float
    top3: float
    hit100: float
    hit150: float
    subsystem_segments: int
    subsystem: float
    no_storage_segments: int
    subsystem_no_storage: float


def hit_rate(ranking: Sequence[str], labelled: Sequence[str], percent: int) -> float:
    """Return HitRate@P%: the share of labelled metrics that a ranking names at its top.

    With n labelled metrics, its top is the first floor(P % of n) of the ranking. From Su et al., "Robust
    anomaly detection for multivariate time series through stochastic recurrent neural network"
    (OmniAnomaly), KDD 2019.

    Parameters
    ----------
    ranking
        Names of metrics, the likeliest first. It may end early; what is not in it is not named.
    labelled
        Names of the metrics that made the segment anomalous, at least one.
    percent
        P, such as 100 or 150.
    """
    right = set(labelled)
    named = right.intersection(ranking[: len(right) * percent // 100])
    return len(named) / len(right)


def attribution_scores(
    rankings: Sequence[Sequence[str]],
    segments: Sequence[Segment],
    subsystems: Mapping[str, str | None] | None = None,
) -> AttributionScores:
    """Judge one ranking of metrics per segment.

    Parameters
    ----------
    rankings
        Of each segment, names of metrics, the likeliest first, none twice. An empty one names nothing and is
        wrong.
    segments
        As many. Those without labelled metrics are left out.
    subsystems
        Subsystem by metric; what is None or not there is not known.

    Returns
    -------
    AttributionScores
        Shares over segments; each segment weighs the same.
    """
    known = {} if subsystems is None else subsystems
    top1: list[float] = []
    top3: list[float] = []
    hit100: list[float] = []
    hit150: list[float] = []
    by_subsystem: list[float] = []
    no_storage: list[float] = []
    for ranking, segment in zip(rankings, segments, strict=True):
        if len(set(ranking)) < len(ranking):
            raise ValueError(f"the ranking for rows {segment.start} to {segment.end} names a metric twice")
        if not segment.metrics:
            continue
        right = set(segment.metrics)
        top1.append(not right.isdisjoint(ranking[:1]))
        top3.append(not right.isdisjoint(ranking[:3]))
        hit100.append(hit_rate(ranking, segment.metrics, 100))
        hit150.append(hit_rate(ranking, segment.metrics, 150))
        struck = {known.get(name) for name in right}
        if struck == {None}:
            continue
        found = bool(ranking) and known.get(ranking[0]) in struck - {None}
        by_subsystem.append(found)
        if struck != {"storage"}:
            no_storage.append(found)
    return AttributionScores(
        segments=len(top1),
        top1=_mean(top1),
        top3=_mean(top3),
        hit100=_mean(hit100),
        hit150=_mean(hit150),
        subsystem_segments=len(by_subsystem),
        subsystem=_mean(by_subsystem),
        no_storage_segments=len(no_storage),
        subsystem_no_storage=_mean(no_storage),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan
