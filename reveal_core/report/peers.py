"""What other hosts of a report showed of the same quantities at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from reveal_core.incidents import STRAGGLER, Incident, MetricEvidence
from reveal_core.report.quantities import (
    COMPARABLE,
    STEP_S,
    channels_of,
    matrix,
    mean_of,
    milliseconds,
    quantity_of,
    rows_between,
)
from reveal_core.telemetry import Series

MAX_PEERS = 50
"""Hosts that an incident is compared with; of more, so many spread evenly over their names."""


def with_peers(incident: Incident, others: Sequence[Series]) -> Incident:
    """Return an incident whose metrics say what its peers showed meanwhile.

    Parameters
    ----------
    incident
        The incident; what it says of peers so far is replaced where there are others, but for one that was
        found by comparing the hosts of a job: those were its peers, and no others are.
    others
        Series of the other hosts, in order of their names; those without a metric are none of its peers.
    """
    if incident.cause == STRAGGLER:
        return incident
    wanted = {metric.metric for metric in incident.metrics}
    others = [series for series in others if not wanted.isdisjoint(series.metrics)]
    if not others:
        return incident
    chosen = [others[n] for n in np.linspace(0, len(others) - 1, min(len(others), MAX_PEERS)).astype(int)]
    found: list[list[float]] = [[] for _ in incident.metrics]
    for series in chosen:
        for known, level in zip(found, _levels(incident, series), strict=True):
            if level is not None:
                known.append(level)
    metrics = tuple(_told(metric, known) for metric, known in zip(incident.metrics, found, strict=True))
    return replace(incident, metrics=metrics)


def _told(metric: MetricEvidence, known: Sequence[float]) -> MetricEvidence:
    return replace(
        metric,
        peers=len(known),
        peers_low=min(known, default=None),
        peers_high=max(known, default=None),
    )


def _levels(incident: Incident, series: Series) -> list[float | None]:
    rows = rows_between(series, incident.start, incident.end)
    if rows.is_empty():
        return [None] * len(incident.metrics)
    parts = [
        channels_of(series, metric) if metric.statistic in COMPARABLE else [] for metric in incident.metrics
    ]
    # Taken from the frame once: of ten thousand pairs of an incident and a host, each access counts.
    names = list(dict.fromkeys(name for part in parts for name in part))
    place = {name: n for n, name in enumerate(names)}
    values, times = matrix(rows, names), milliseconds(rows)
    levels: list[float | None] = []
    for metric, part in zip(incident.metrics, parts, strict=True):
        if not part:
            levels.append(None)
            continue
        periods = (series.channels[name].period_ms for name in part if name in series.channels)
        step_ms = round(max(STEP_S * 1e3, *periods))
        chosen = values[:, [place[name] for name in part]]
        levels.append(mean_of(quantity_of(chosen, times, step_ms, metric.part, metric.statistic)))
    return levels
