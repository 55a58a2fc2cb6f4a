"""Numbers behind the plots: scores over a host's time, channels around an incident, gaps and coverage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.channels import channel_name
from reveal_core.formatting import scale_for
from reveal_core.incidents import OPEN, Incident, MetricEvidence
from reveal_core.report.plot_types import Levels, MetricPlot, Timeline
from reveal_core.report.quantities import (
    COMPARABLE,
    STEP_S,
    Array,
    channels_of,
    matrix,
    mean_of,
    milliseconds,
    quantity_of,
    rounded,
    rows_between,
)
from reveal_core.report.types import SourceNote, SourceReport
from reveal_core.report.words import metric_title, quantity
from reveal_core.scores import Scores
from reveal_core.telemetry import Series
from reveal_core.timespec import from_ns, to_ns

MAX_POINTS = 600
"""Points of a plot: more than a screen can show apart only makes the page heavy."""
MARGIN_S = 30.0
"""Seconds shown before and after an incident."""
GAP_COVERAGE = 0.5
"""A window with less of its samples than this counts as a gap."""
MAX_PLOTS = 6
RATIO_RANGE = (0.02, 1e4)
"""Score over threshold is drawn on a logarithmic axis within these bounds."""
_TIME = pl.Datetime("ns", "UTC")


def scored_windows(scores: Scores, start: datetime, end: datetime) -> pl.DataFrame:
    """Return the rows of ``scores`` whose windows lie within ``start`` to ``end``, in order of time."""
    return scores.frame.filter(
        (pl.col("start") >= pl.lit(start, dtype=_TIME)) & (pl.col("end") <= pl.lit(end, dtype=_TIME))
    ).sort("start")


def timeline(windows: pl.DataFrame, most: int = MAX_POINTS) -> Timeline:
    """Return score over threshold in time, ``most`` points at most; of a group of windows the highest.

    Parameters
    ----------
    windows
        Rows of a `Scores` frame.
    most
        Points to draw.
    """
    if windows.is_empty():
        return Timeline((), ())
    middle = (pl.col("start").dt.epoch("ms") + pl.col("end").dt.epoch("ms")) // 2
    threshold = pl.when(pl.col("threshold") > 0).then(pl.col("threshold"))
    points = windows.select(
        middle.alias("t"), (pl.col("fused").fill_nan(None) / threshold).clip(*RATIO_RANGE).alias("ratio")
    )
    first = points.item(0, "t")
    span = points.item(-1, "t") - first
    if len(points) > most:
        points = (
            points.group_by(((pl.col("t") - first) * (most - 1) // max(span, 1)).alias("group"))
            .agg(
                pl.col("t").sort_by("ratio", descending=True, nulls_last=True).first(), pl.col("ratio").max()
            )
            .sort("t")
        )
    return Timeline(
        tuple(points["t"].to_list()),
        tuple(None if r is None else float(f"{r:.4g}") for r in points["ratio"].to_list()),
    )


def gaps(windows: pl.DataFrame, start: datetime, end: datetime) -> tuple[tuple[datetime, datetime], ...]:
    """Return the spans between ``start`` and ``end`` where telemetry is missing.

    A span is missing where no window covers it, or where all that do have a coverage below `GAP_COVERAGE`.
    """
    good = windows.filter(pl.col("coverage").fill_nan(0.0).fill_null(0.0) >= GAP_COVERAGE)
    first, last = (good[name].dt.epoch("us").to_numpy() for name in ("start", "end"))
    # How far windows have reached before each of them, and how far they reach in the end.
    reached = np.maximum.accumulate(np.concatenate(([to_ns(start) // 1000], last)))
    begins = np.concatenate((first, [to_ns(end) // 1000]))
    missing = np.flatnonzero(begins - reached > STEP_S * 1e6)
    return tuple((from_ns(int(reached[n]) * 1000), from_ns(int(begins[n]) * 1000)) for n in missing)


def metric_plots(incident: Incident, series: Series) -> tuple[tuple[MetricPlot, ...], tuple[str, ...]]:
    """Return plots of an incident's top metrics, and the names of those that have no samples around it.

    A plot shows the very quantity that moved: a channel, or the mean, maximum or imbalance (highest less
    mean) over all instances of its metric; its level, or its spread.
    """
    margin = timedelta(seconds=MARGIN_S)
    first, last = incident.start - margin, incident.end + margin
    around = rows_between(series, first, last)
    plots = []
    missing = []
    for evidence in incident.metrics[:MAX_PLOTS]:
        names = channels_of(series, evidence)
        values = matrix(around, names) if names else np.empty((len(around), 0))
        if not np.isfinite(values).any():
            missing.append(channel_name(evidence.metric, evidence.instance))
            continue
        periods = (series.channels[n].period_ms / 1000 for n in names if n in series.channels)
        step_s = max(STEP_S, *periods, (last - first).total_seconds() / MAX_POINTS)
        plots.append(_metric_plot(evidence, incident, values, around, round(step_s * 1e3)))
    return tuple(plots), tuple(dict.fromkeys(missing))


def _metric_plot(
    evidence: MetricEvidence, incident: Incident, values: Array, around: pl.DataFrame, step_ms: int
) -> MetricPlot:
    times = milliseconds(around)
    comparable = evidence.statistic in COMPARABLE
    drawn = quantity_of(values, times, step_ms, evidence.part, evidence.statistic)
    middles = (times[0] // step_ms + np.arange(len(drawn))) * step_ms + step_ms // 2
    bounds = [
        end if comparable and math.isfinite(end) else None
        for end in (evidence.normal_low, evidence.normal_high)
    ]
    sizes = [abs(v) for v in (*drawn.tolist(), *bounds) if v is not None and math.isfinite(v)]
    factor, unit = scale_for(max(sizes, default=0.0), evidence.unit)
    return MetricPlot(
        metric=evidence.metric,
        instance=evidence.instance,
        subsystem=evidence.subsystem,
        title=metric_title(evidence.metric),
        quantity=quantity(evidence if comparable else replace(evidence, statistic="level")),
        unit=unit,
        times_ms=tuple(middles.tolist()),
        values=tuple(rounded(v * factor) for v in drawn.tolist()),
        low=None if bounds[0] is None else bounds[0] * factor,
        high=None if bounds[1] is None else bounds[1] * factor,
        step_ms=step_ms,
        levels=_levels(incident, drawn * factor, middles, step_ms),
    )


def _levels(incident: Incident, drawn: Array, middles: NDArray[np.int64], step_ms: int) -> Levels:
    start, end = incident.start.timestamp() * 1e3, incident.end.timestamp() * 1e3
    # A step across the beginning or the end is neither before nor after.
    before, after = middles + step_ms / 2 <= start, middles - step_ms / 2 >= end
    # While an incident is on there is no "after", whatever samples lie behind its last window so far.
    later = None if incident.state == OPEN else mean_of(drawn[after])
    return Levels(rounded(mean_of(drawn[before])), rounded(mean_of(drawn[~before & ~after])), rounded(later))


def source_reports(
    series: Series, sources: Sequence[SourceNote], start: datetime, end: datetime
) -> tuple[SourceReport, ...]:
    """Return every source with the share of its expected samples that ``series`` holds from start to end.

    What is expected follows from each channel's period, so a stretch without any row counts as missing too.
    Of a series without channels nothing is expected: the shares are None.
    """
    frame = rows_between(series, start, end)
    seconds = (end - start).total_seconds()
    present: dict[str, float] = {}
    expected: dict[str, float] = {}
    count: dict[str, int] = {}
    nulls = frame.null_count().row(0, named=True) if len(frame) else {}
    for name, channel in series.channels.items():
        if channel.source == "derived" or name not in series.held:
            continue
        samples = seconds * 1000 / max(channel.period_ms, 1)
        count[channel.source] = count.get(channel.source, 0) + 1
        expected[channel.source] = expected.get(channel.source, 0.0) + samples
        here = len(frame) - nulls.get(name, len(frame))
        present[channel.source] = present.get(channel.source, 0.0) + min(here, samples)
    told = list(sources) or [SourceNote(name, True, "", number) for name, number in sorted(count.items())]
    return tuple(
        SourceReport(
            note.source,
            note.available,
            note.reason,
            note.channels,
            present[note.source] / expected[note.source] if expected.get(note.source) else None,
        )
        for note in told
    )
