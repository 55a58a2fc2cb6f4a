"""What a person is shown for a metric: its value beside its normal band, where, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
import polars as pl

from reveal_core.attribute.causes import Cause
from reveal_core.attribute.explain import Movement
from reveal_core.attribute.matching import speaks_for
from reveal_core.detect.contributions import Excursions
from reveal_core.incidents import MetricEvidence
from reveal_core.telemetry import Series
from reveal_core.timespec import from_ns

_MOVED = 1.0
"""Excess, in standard units, at which a signal counts as out of its band."""

_LOOK_BACK = 5
"""Windows before an incident in which a signal that moved first is looked for."""

_BEFORE = timedelta(seconds=20)


def instance_of(series: Series, metric: str, start: datetime, end: datetime, direction: str) -> str:
    """Return the instance of a metric that moved furthest, by its mean against that just before.

    ``""`` where the metric has no instances, or none with samples.
    """
    names = [c.name for c in series.channels.values() if c.metric == metric and c.name in series.held]
    if not names:
        return ""
    during = series.frame.filter(pl.col("ts").is_between(start, end)).select(pl.col(names).mean())
    before = series.frame.filter(pl.col("ts").is_between(start - _BEFORE, start)).select(pl.col(names).mean())
    sign = 1.0 if direction == "up" else -1.0
    best, furthest = "", -np.inf
    for name in names:
        now = during[name][0]
        then = before[name][0]
        if now is None:
            continue
        moved = sign * (now - (then if then is not None else 0.0))
        if moved > furthest:
            best, furthest = series.channels[name].instance, moved
    return best


def first_moved(excursions: Excursions, column: int, first: int, last: int, stride_s: float) -> float | None:
    """Return seconds from an incident's first window until a feature left its band; negative if before."""
    begin = max(0, first - _LOOK_BACK)
    out = np.flatnonzero(np.abs(excursions.excess[begin : last + 1, column]) >= _MOVED)
    return float((begin + int(out[0]) - first) * stride_s) if len(out) else None


def metric_evidence(
    excursions: Excursions,
    series: Series,
    moved: Sequence[Movement],
    windows: Sequence[int],
    *,
    window_s: float,
    stride_s: float,
    cause: Cause | None = None,
    most: int = 12,
) -> tuple[MetricEvidence, ...]:
    """Return the metrics that moved furthest, as people are shown them; their shares sum to at most 1.

    Parameters
    ----------
    excursions, series
        Of the host.
    moved
        From `movements`, furthest first.
    windows
        The incident's.
    window_s, stride_s
        The window grid.
    cause
        The likeliest cause: metrics of its signature are told from what merely moved with them.
    most
        How many metrics to return at most.
    """
    total = float(sum(np.log1p(abs(m.excess)) for m in moved))
    start, end = incident_span(excursions, windows, window_s)
    result = []
    for m in moved[:most]:
        feature = excursions.features[m.column]
        direction = "up" if m.excess > 0 else "down"
        low, high = excursions.band(m.peak, m.column)
        has_instances = feature.part != "value"
        instance = instance_of(series, m.metric, start, end, direction) if has_instances else ""
        result.append(
            MetricEvidence(
                metric=m.metric,
                instance=instance,
                subsystem=m.subsystem,
                unit=feature.unit,
                value=float(excursions.values[m.peak, m.column]),
                normal_low=low,
                normal_high=high,
                direction=direction,
                share=float(np.log1p(abs(m.excess))) / total if total > 0 else 0.0,
                first_moved_s=first_moved(excursions, m.column, windows[0], windows[-1], stride_s),
                part=feature.part,
                statistic=feature.statistic,
                stands_for=excursions.stands_for.get(feature.name, ()),
                role=_role(cause, m.metric, direction),
            )
        )
    return tuple(result)


def _role(cause: Cause | None, metric: str, direction: str) -> str:
    if cause is None:
        return ""
    return "cause" if speaks_for(cause, metric, direction) else "symptom"


def incident_span(
    excursions: Excursions, windows: Sequence[int], window_s: float
) -> tuple[datetime, datetime]:
    """Return when the first window of an incident begins and the last one ends."""
    first_ns = int(excursions.start_ns[windows[0]])
    last_ns = int(excursions.start_ns[windows[-1]]) + round(window_s * 1e9)
    return from_ns(first_ns), from_ns(last_ns)
