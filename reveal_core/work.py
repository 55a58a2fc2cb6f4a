"""What a host does, minute by minute, in the metrics in which the hosts of a job must be alike.

An hour of it is a few kilobytes, kept in the store: peers are compared over an hour every few minutes, and
only the minutes that are new are read from segments for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.channels import Channel, split_name
from reveal_core.features.derived import DERIVED, add_derived
from reveal_core.features.pace import even_pace
from reveal_core.features.rates import physical_series
from reveal_core.odd_hosts import WorkMetric
from reveal_core.telemetry import SPARSE_GRID, Telemetry
from reveal_core.timespec import to_ns

Array = NDArray[np.float64]
Range = tuple[datetime, datetime]

MINUTE = timedelta(minutes=1)
_MINUTE_NS = 60 * 10**9
_DIGITS = 6
"""Significant digits of a mean that are kept."""


@dataclass(frozen=True)
class Work:
    """A host's means of each minute.

    Attributes
    ----------
    host
        Which.
    patterns
        The patterns of metrics that were looked for.
    first
        Start of the first minute, UTC.
    minutes
        How many were looked at, all in a row.
    period_s
        The longest period of the channels behind it, s; 0 where there are none.
    metrics
        What was found, by name.
    values
        For each metric the mean of each minute, None where it has no sample.
    """

    host: str
    patterns: tuple[str, ...]
    first: datetime
    minutes: int
    period_s: float = 0.0
    metrics: tuple[WorkMetric, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()

    @property
    def last(self) -> datetime:
        """End of the last minute."""
        return self.first + self.minutes * MINUTE

    def latest(self, minutes: int) -> Work:
        """Return the latest minutes of it."""
        drop = max(0, self.minutes - minutes)
        return Work(
            self.host,
            self.patterns,
            self.first + drop * MINUTE,
            self.minutes - drop,
            self.period_s,
            self.metrics,
            tuple(row[drop:] for row in self.values),
        )


def floor_minute(time: datetime) -> datetime:
    """Return the start of a time's minute, UTC."""
    return time.astimezone(UTC).replace(second=0, microsecond=0)


def chosen_by(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what tells the columns of telemetry that metrics of work are made of from all others."""
    inputs = {name for derived in DERIVED if _matches(derived.name, patterns) for name in derived.inputs} | {
        SPARSE_GRID
    }

    def choose(column: str) -> bool:
        metric, _ = split_name(column)
        return metric in inputs or _matches(metric, patterns)

    return choose


def _matches(metric: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(metric, pattern) for pattern in patterns)


def work_of(telemetry: Telemetry, patterns: Sequence[str], first: datetime, last: datetime) -> Work:
    """Return what a host did in each minute of a range.

    Parameters
    ----------
    telemetry
        Holds at least the columns that `chosen_by` the patterns; a counter's rate needs the sample before.
    patterns
        Of metrics, as they are called in the physical series.
    first, last
        The range, whole minutes, UTC.

    Notes
    -----
    Of a metric with instances it is the mean over those that have a sample, sample by sample.
    """
    nothing = Work(telemetry.host, tuple(patterns), first, (last - first) // MINUTE)
    if not set(telemetry.channels) - {SPARSE_GRID}:
        return nothing
    series = add_derived(physical_series(even_pace(telemetry)))
    by_metric: dict[str, list[Channel]] = {}
    for channel in series.channels.values():
        if channel.name in series.held and _matches(channel.metric, patterns):
            by_metric.setdefault(channel.metric, []).append(channel)
    names = sorted(by_metric)
    if not names:
        return nothing
    minute = ((pl.col("ts").dt.epoch("ns") - to_ns(first)) // _MINUTE_NS).alias("minute")
    means = (
        series.frame.filter(pl.col("ts") >= first, pl.col("ts") < last)
        .select(
            minute, *(pl.mean_horizontal([c.name for c in by_metric[name]]).alias(name) for name in names)
        )
        .group_by("minute")
        .agg(pl.col(name).mean() for name in names)
    )
    rows = dict(zip(means["minute"].to_list(), means.select(names).rows(), strict=True))
    empty = (None,) * len(names)
    table = [rows.get(number, empty) for number in range(nothing.minutes)]
    return replace(
        nothing,
        period_s=max((c.period_ms for found in by_metric.values() for c in found), default=0) / 1000.0,
        metrics=tuple(_metric(by_metric[name]) for name in names),
        values=tuple(tuple(_rounded(row[column]) for row in table) for column in range(len(names))),
    )


def _metric(channels: Sequence[Channel]) -> WorkMetric:
    first = channels[0]
    part = "mean" if any(channel.instance for channel in channels) else "value"
    return WorkMetric(first.metric, first.unit, first.subsystem, part)


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")


def joined(old: Work, new: Work) -> Work:
    """Return what is known after more minutes were looked at; of a minute in both the new holds.

    Between two stretches that do not touch nothing is known.
    """
    first, last = min(old.first, new.first), max(old.last, new.last)
    minutes = (last - first) // MINUTE
    metrics = {metric.name: metric for metric in (*old.metrics, *new.metrics)}
    rows: dict[str, list[float | None]] = {name: [None] * minutes for name in metrics}
    for part in (old, new):
        begin = (part.first - first) // MINUTE
        mine = dict(zip((metric.name for metric in part.metrics), part.values, strict=True))
        for name, row in rows.items():
            row[begin : begin + part.minutes] = mine.get(name, (None,) * part.minutes)
    names = sorted(metrics)
    return Work(
        host=new.host,
        patterns=new.patterns,
        first=first,
        minutes=minutes,
        period_s=max(old.period_s, new.period_s),
        metrics=tuple(metrics[name] for name in names),
        values=tuple(tuple(rows[name]) for name in names),
    )


def to_look_at(known: Work | None, patterns: Sequence[str], need: Range, fresh: Range) -> Range | None:
    """Return the time whose telemetry must be read so that a range is known; None if all of it is.

    Parameters
    ----------
    known
        What is known already, None if nothing is.
    patterns
        What is looked for: what was found by other patterns does not count.
    need
        The range, whole minutes.
    fresh
        The time whose telemetry has changed since then.
    """
    if known is None or known.patterns != tuple(patterns) or known.last < need[0] or known.first > need[1]:
        return need
    changed = max(fresh[0], need[0]), min(fresh[1], need[1])
    parts = [changed, (need[0], min(known.first, need[1])), (max(known.last, need[0]), need[1])]
    wanted = [part for part in parts if part[0] < part[1]]
    if not wanted:
        return None
    return min(part[0] for part in wanted), max(part[1] for part in wanted)


def side_by_side(
    works: Sequence[Work], first: datetime, last: datetime, width: int
) -> tuple[tuple[WorkMetric, ...], Array]:
    """Return the work of hosts as peer comparison takes it.

    Parameters
    ----------
    works
        Of each host.
    first, last
        The range, whole minutes.
    width
        Minutes of a window; windows are counted from the end, and what is left at the beginning is dropped.

    Returns
    -------
    metrics
        By name, those that any host has.
    values
        Shape (n_windows, n_hosts, n_metrics); NaN where a host has no sample.
    """
    metrics = {metric.name: metric for work in works for metric in work.metrics}
    names = sorted(metrics)
    minutes = (last - first) // MINUTE
    table = np.full((minutes, len(works), len(names)), np.nan)
    for number, work in enumerate(works):
        begin = (work.first - first) // MINUTE
        low, high = max(0, begin), min(minutes, begin + work.minutes)
        if low >= high:
            continue
        for metric, row in zip(work.metrics, work.values, strict=True):
            part = np.array(row[low - begin : high - begin], dtype=np.float64)
            table[low:high, number, names.index(metric.name)] = part
    windows = minutes // width
    blocks = table[minutes - windows * width :].reshape(windows, width, len(works), len(names))
    count = np.isfinite(blocks).sum(axis=1)
    values = np.where(count > 0, np.nansum(blocks, axis=1) / np.maximum(count, 1), np.nan)
    return tuple(metrics[name] for name in names), values
