"""Which core, GPU, port or disk an incident struck: all instances of a metric, before and during."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from reveal_core.incidents import Incident, MetricEvidence
from reveal_core.report.plot_types import InstanceLevel, InstancePicture
from reveal_core.report.plots import MARGIN_S
from reveal_core.report.quantities import (
    SPREAD_STEPS,
    STEP_S,
    Array,
    matrix,
    mean_of,
    milliseconds,
    per_bin,
    rounded,
    rows_between,
)
from reveal_core.report.words import instance_noun, metric_title, natural
from reveal_core.telemetry import Series

MOVED_SHARE = 0.5
"""An instance that changed at least this share as far as the one that is named has moved, too."""
MAX_INSTANCES = 512
"""Instances of a picture: every core of the widest host, and a bound for lists of control groups."""


def instance_picture(incident: Incident, series: Series) -> InstancePicture | None:
    """Return a picture of the foremost metric that has several instances; None where none has.

    Metrics of the incident's own subsystem go first. Levels are means over the incident and over the
    `plots.MARGIN_S` seconds before it, of the spread where it is the spread that moved.
    """
    own = [metric for metric in incident.metrics if metric.subsystem == incident.subsystem]
    others = [metric for metric in incident.metrics if metric.subsystem != incident.subsystem]
    for metric in (*own, *others):
        names = [
            channel.name
            for channel in series.channels.values()
            if channel.metric == metric.metric and channel.instance and channel.name in series.held
        ]
        if metric.instance and len(names) > 1:
            picture = _picture(incident, metric, names, series)
            if picture is not None:
                return picture
    return None


def _picture(
    incident: Incident, metric: MetricEvidence, names: list[str], series: Series
) -> InstancePicture | None:
    before = _levels(series, names, incident, metric.statistic, earlier=True)
    during = _levels(series, names, incident, metric.statistic, earlier=False)
    if all(level is None for level in during):
        return None
    sign = -1.0 if metric.direction == "down" else 1.0
    changes = [
        sign * (now - then) if now is not None and then is not None else math.nan
        for then, now in zip(before, during, strict=True)
    ]
    labels = [series.channels[name].instance for name in names]
    # Measured by the instance that is named: of one that has no level before, nothing says how far is far.
    furthest = max(
        (change for label, change in zip(labels, changes, strict=True) if label == metric.instance),
        default=math.nan,
    )
    levels = [
        InstanceLevel(
            label,
            rounded(then),
            rounded(now),
            bool(label == metric.instance or (furthest > 0 and change >= MOVED_SHARE * furthest)),
        )
        for label, then, now, change in zip(labels, before, during, changes, strict=True)
    ]
    order = sorted(range(len(levels)), key=lambda n: (not levels[n].moved, -np.nan_to_num(changes[n])))
    kept = sorted(order[:MAX_INSTANCES], key=lambda n: natural(labels[n]))
    return InstancePicture(
        metric=metric.metric,
        title=metric_title(metric.metric),
        quantity="spread" if metric.statistic == "spread" else "",
        unit=metric.unit,
        noun=instance_noun(metric.metric),
        instances=tuple(levels[n] for n in kept),
        left_out=len(levels) - len(kept),
    )


def _levels(
    series: Series, names: list[str], incident: Incident, statistic: str, *, earlier: bool
) -> list[float | None]:
    margin = timedelta(seconds=MARGIN_S)
    start, end = (incident.start - margin, incident.start) if earlier else (incident.start, incident.end)
    rows = rows_between(series, start, end)
    if rows.is_empty():
        return [None] * len(names)
    values = matrix(rows, names)
    if statistic == "spread":
        values = _spreads(values, milliseconds(rows))
    return [mean_of(column) for column in values.T]


def _spreads(values: Array, times_ms: NDArray[np.int64]) -> Array:
    bins = times_ms // round(STEP_S * 1e3)
    return per_bin(values, bins - bins[0], int(bins[-1] - bins[0]) + 1, SPREAD_STEPS, "spread")
