"""Numbers behind the plots: scores over a host's time, channels around an incident, gaps and coverage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import polars as pl

from reveal_core.channels import channel_name
from reveal_core.incidents import Incident, MetricEvidence
from reveal_core.report.formatting import scale_for
from reveal_core.report.types import MetricPlot, SourceNote, SourceReport, Timeline
from reveal_core.report.words import metric_title
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
MAX_PLOTS = 6
RATIO_RANGE = (0.02, 1e4)
"""Score over threshold is drawn on a logarithmic axis within these bounds."""
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
    """Return plots of an incident's top metrics, and the names of those that have no samples around it."""
    names = {m: channel_name(m.metric, m.instance) for m in incident.metrics[:MAX_PLOTS]}
    known = [name for name in dict.fromkeys(names.values()) if name in series.frame.columns]
    missing = [name for name in dict.fromkeys(names.values()) if name not in known]
    margin = timedelta(seconds=MARGIN_S)
    first, last = incident.start - margin, incident.end + margin
    around = series.frame.filter(
        pl.col("ts").is_between(pl.lit(first, dtype=_TIME), pl.lit(last, dtype=_TIME))
    ).select("ts", *known)
    plots = []
    for evidence, name in names.items():
        if name in missing:
            continue
        if name not in around.columns or around[name].fill_nan(None).null_count() == len(around):
            missing.append(name)
            continue
        period_s = series.channels[name].period_ms / 1000 if name in series.channels else 0.0
        step_s = max(STEP_S, period_s, (last - first).total_seconds() / MAX_POINTS)
        plots.append(
            _metric_plot(evidence, around.select("ts", pl.col(name).alias("value")), round(step_s * 1e3))
        )
    return tuple(plots), tuple(missing)


def _metric_plot(evidence: MetricEvidence, samples: pl.DataFrame, step_ms: int) -> MetricPlot:
    binned = (
        samples.select((pl.col("ts").dt.epoch("ms") // step_ms).alias("bin"), pl.col("value").fill_nan(None))
        .group_by("bin")
        .agg(pl.col("value").mean())
        .sort("bin")
    )
    grid = pl.DataFrame({"bin": range(binned.item(0, "bin"), binned.item(-1, "bin") + 1)})
    binned = grid.join(binned, on="bin", how="left", maintain_order="left")
    values = binned["value"].to_list()
    bounds = [end if _finite(end) else None for end in (evidence.normal_low, evidence.normal_high)]
    largest = max(abs(v) for v in (*values, *bounds) if v is not None and _finite(v))
    factor, unit = scale_for(largest, evidence.unit)
    scaled = [None if v is None or not _finite(v) else float(f"{v * factor:.5g}") for v in values]
    low, high = (None if end is None else end * factor for end in bounds)
    return MetricPlot(
        metric=evidence.metric,
        instance=evidence.instance,
        subsystem=evidence.subsystem,
        title=metric_title(evidence.metric),
        unit=unit,
        times_ms=tuple(number * step_ms + step_ms // 2 for number in binned["bin"].to_list()),
        values=tuple(scaled),
        low=low,
        high=high,
        step_ms=step_ms,
    )


def _finite(value: float) -> bool:
    return abs(value) < float("inf")


def source_reports(
    series: Series, sources: Sequence[SourceNote], start: datetime, end: datetime
) -> tuple[SourceReport, ...]:
    """Return every source with the share of its expected samples that ``series`` holds from ``start`` to ``end``.

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
