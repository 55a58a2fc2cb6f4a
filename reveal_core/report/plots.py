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
from reveal_core.incidents import Incident, MetricEvidence
from reveal_core.report.types import MetricPlot, SourceNote, SourceReport, Timeline
from reveal_core.report.words import metric_title, quantity
from reveal_core.scores import Scores
from reveal_core.telemetry import Series

MAX_POINTS = 600
"""Points of a plot: more than a screen can show apart only makes the page heavy."""
MARGIN_S = 30.0
"""Seconds shown before and after an incident."""
STEP_S = 1.0
"""Samples are averaged over this long in plots; raw 100 ms samples hide what the windows saw."""
GAP_COVERAGE = 0.5
"""A window with less of its samples than this counts as a gap."""
SPREAD_STEPS = 3
"""Steps that a spread is taken over."""
MAX_PLOTS = 6
RATIO_RANGE = (0.02, 1e4)
"""Score over threshold is drawn on a logarithmic axis within these bounds."""
Array = NDArray[np.float64]
_TIME = pl.Datetime("ns", "UTC")


def scored_windows(scores: Scores, start: datetime, end: datetime) -> pl.DataFrame:
    """Return the rows of ``scores`` whose windows lie within ``start`` to ``end``, in order of time."""
    return scores.frame.filter(
        (pl.col("start") >= pl.lit(start, dtype=_TIME)) & (pl.col("end") <= pl.lit(end, dtype=_TIME))
    ).sort("start")


def timeline(windows: pl.DataFrame) -> Timeline:
    """Return score over threshold in time, `MAX_POINTS` at most; of a group of windows the highest.

    Parameters
    ----------
    windows
        Rows of a `Scores` frame.
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
    if len(points) > MAX_POINTS:
        points = (
            points.group_by(((pl.col("t") - first) * (MAX_POINTS - 1) // max(span, 1)).alias("group"))
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
    found: list[tuple[datetime, datetime]] = []
    at = start
    shortest = timedelta(seconds=STEP_S)
    for first, last in good.select(pl.col("start", "end").cast(pl.Datetime("us", "UTC"))).iter_rows():
        if first - at > shortest:
            found.append((at, first))
        at = max(at, last)
    if end - at > shortest:
        found.append((at, end))
    return tuple(found)


def metric_plots(incident: Incident, series: Series) -> tuple[tuple[MetricPlot, ...], tuple[str, ...]]:
    """Return plots of an incident's top metrics, and the names of those that have no samples around it.

    A plot shows the very quantity that moved: a channel, or the mean, maximum or imbalance (highest less
    mean) over all instances of its metric; its level, or its spread.
    """
    margin = timedelta(seconds=MARGIN_S)
    first, last = incident.start - margin, incident.end + margin
    around = series.frame.filter(
        pl.col("ts").is_between(pl.lit(first, dtype=_TIME), pl.lit(last, dtype=_TIME))
    )
    plots = []
    missing = []
    for evidence in incident.metrics[:MAX_PLOTS]:
        name = channel_name(evidence.metric, evidence.instance)
        names = [name]
        if evidence.part != "value":
            names = [c.name for c in series.channels.values() if c.metric == evidence.metric]
        names = [n for n in names if n in around.columns]
        samples = around.select(pl.col("ts").dt.epoch("ms"), pl.col(names).cast(pl.Float64).fill_nan(None))
        if not names or all(samples[n].null_count() == len(samples) for n in names):
            missing.append(name)
            continue
        periods = (series.channels[n].period_ms / 1000 for n in names if n in series.channels)
        step_s = max(STEP_S, *periods, (last - first).total_seconds() / MAX_POINTS)
        plots.append(_metric_plot(evidence, samples, round(step_s * 1e3)))
    return tuple(plots), tuple(dict.fromkeys(missing))


def _metric_plot(evidence: MetricEvidence, samples: pl.DataFrame, step_ms: int) -> MetricPlot:
    bins = samples["ts"].to_numpy() // step_ms
    first, count = int(bins[0]), int(bins[-1] - bins[0]) + 1
    values = samples.drop("ts").to_numpy()
    values = np.where(np.isfinite(values), values, np.nan)
    # Only the spread needs several strides, as a window has; a level is shown as sharply as the step allows.
    width = SPREAD_STEPS if evidence.statistic == "spread" else 1
    drawn = _roll_up(_per_bin(values, bins - first, count, width, evidence.statistic), evidence.part)
    comparable = evidence.statistic in ("level", "spread")
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
        times_ms=tuple((first + n) * step_ms + step_ms // 2 for n in range(count)),
        values=tuple(float(f"{v * factor:.5g}") if math.isfinite(v) else None for v in drawn.tolist()),
        low=None if bounds[0] is None else bounds[0] * factor,
        high=None if bounds[1] is None else bounds[1] * factor,
        step_ms=step_ms,
    )


def _per_bin(values: Array, bins: NDArray[np.int64], count: int, width: int, statistic: str) -> Array:
    """Return the mean, or for ``spread`` the standard deviation, of each column per bin, NaN where empty.

    Bins are joined with their neighbours to ``width`` in all (odd), centred.
    """
    centre = np.nan_to_num(np.nanmean(values)) if np.isfinite(values).any() else 0.0
    known = np.isfinite(values)
    shifted = np.where(known, values - centre, 0.0)
    totals = np.zeros((3, count + width - 1, values.shape[1]))
    for total, part in zip(totals, (known.astype(np.float64), shifted, shifted**2), strict=True):
        np.add.at(total, bins + width // 2, part)
    n, sums, squares = np.lib.stride_tricks.sliding_window_view(totals, width, axis=1).sum(axis=-1)
    safe = np.where(n > 0, n, 1.0)
    mean = sums / safe
    result = np.sqrt(np.maximum(squares / safe - mean**2, 0.0)) if statistic == "spread" else mean + centre
    return np.where(n > 0, result, np.nan)


def _roll_up(values: Array, part: str) -> Array:
    known = np.isfinite(values)
    some = known.any(axis=1)
    highest = np.where(known, values, -np.inf).max(axis=1)
    mean = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    result = {"mean": mean, "imbalance": highest - mean}.get(part, highest)
    return np.where(some, result, np.nan)


def source_reports(
    series: Series, sources: Sequence[SourceNote], start: datetime, end: datetime
) -> tuple[SourceReport, ...]:
    """Return every source with the share of its expected samples that ``series`` holds from start to end.

    What is expected follows from each channel's period, so a stretch without any row counts as missing too.
    """
    frame = series.frame.filter(
        (pl.col("ts") >= pl.lit(start, dtype=_TIME)) & (pl.col("ts") < pl.lit(end, dtype=_TIME))
    )
    seconds = (end - start).total_seconds()
    present: dict[str, float] = {}
    expected: dict[str, float] = {}
    count: dict[str, int] = {}
    nulls = frame.null_count().row(0, named=True) if len(frame) else {}
    for name, channel in series.channels.items():
        if channel.source == "derived" or name not in frame.columns:
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
