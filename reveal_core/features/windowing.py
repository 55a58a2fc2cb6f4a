"""Statistics of every channel over windows on a fixed grid, and their roll-up across instances.

Sums are made once per stride and joined, so the cost does not grow with window over stride.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import is_transient
from reveal_core.channels import Channel
from reveal_core.errors import UsageError
from reveal_core.features.coverage import delivered, source_coverage
from reveal_core.features.rates import frame_of
from reveal_core.features.strides import SUMS, Layout, State, lay_out, slide, statistic_of, stride_sums
from reveal_core.telemetry import Series
from reveal_core.timespec import to_ns
from reveal_core.windows import COVERAGE, Feature, Windows

STATISTICS = tuple(SUMS)
"""Mean, standard deviation, minimum, maximum, slope per second, mean absolute step."""

Array = NDArray[np.float64]

_CACHED = 2**18
"""Samples of 8 bytes that stay in a core's cache while they are summed."""
_MOST_AT_ONCE = 64
_NOT_SAMPLED = ("derived", "reveal")
"""Made from other channels, and what the collector says of itself."""


@dataclass(frozen=True)
class ChannelWindows:
    """Statistics per channel.

    Attributes
    ----------
    host
        The host's label.
    start_ns, window_ns
        Start of each window, ns since the epoch, shape (n_windows,), and the length of all.
    coverage
        Share of the expected rows that a window has, shape (n_windows,).
    channels
        In order.
    values
        By statistic, shape (n_channels, n_windows), NaN without samples.
    sources
        By source, the share of its expected samples that a window has, shape (n_windows,).
    """

    host: str
    start_ns: NDArray[np.int64]
    window_ns: int
    coverage: Array
    channels: tuple[Channel, ...]
    values: dict[str, Array]
    sources: dict[str, Array]


@dataclass(frozen=True)
class _Grid:
    """Strides from ``first`` on, ``count`` of them, and windows of ``width`` strides."""

    stride_ns: int
    width: int
    first: int
    count: int

    @property
    def windows(self) -> int:
        return max(0, self.count - self.width + 1)

    @property
    def stride_s(self) -> float:
        return self.stride_ns / 1e9


def _grid(window_s: float, stride_s: float, first_ns: int, last_ns: int) -> _Grid:
    stride_ns = round(stride_s * 1e9)
    window_ns = round(window_s * 1e9)
    if stride_ns <= 0 or window_ns < stride_ns or window_ns % stride_ns:
        raise UsageError(f"a window of {window_s} s is not a whole number of strides of {stride_s} s")
    first = -(-first_ns // stride_ns)
    return _Grid(stride_ns, window_ns // stride_ns, first, max(0, last_ns // stride_ns - first))


class _Channels:
    """The channels of a series, some at a time; those with the same gaps share layout and sums of times."""

    def __init__(self, grid: _Grid, times_ns: NDArray[np.int64], statistics: Sequence[str]) -> None:
        self.grid = grid
        self.statistics = statistics
        self.strides = times_ns // grid.stride_ns - grid.first
        begin, end = np.searchsorted(self.strides, [0, grid.count])
        self.within = slice(int(begin), int(end))
        self.inside = np.zeros(len(times_ns), dtype=bool)
        self.inside[self.within] = True
        self.seconds = (times_ns % grid.stride_ns) / 1e9
        self._known: dict[bytes, tuple[Layout, State]] = {}
        self.every = self.layout(self.inside)

    def layout(self, present: NDArray[np.bool_]) -> tuple[Layout, State]:
        """Return the layout of the rows that are present, all of them within the grid."""
        key = present.tobytes()
        if key not in self._known:
            trend = "trend" in self.statistics
            layout = lay_out(self.strides[present], self.seconds[present], self.grid.count, trend=trend)
            times = slide(layout.times, self.grid.width, self.grid.stride_s)
            self._known[key] = layout, times
        return self._known[key]

    def compute(self, block: Array, into: Sequence[Array]) -> list[Layout]:
        """Put the statistics of channels into rows of the results; return the layout of each.

        Parameters
        ----------
        block
            Values of all rows, NaN where a sample is missing, shape (n_channels, n_rows).
        into
            Of each statistic, shape (n_channels, n_windows).
        """
        samples = block[:, self.within]
        centre = samples.mean(axis=1) if samples.shape[1] else np.zeros(len(block))
        lacking = np.isnan(centre)  # told by the mean, for which every sample is looked at anyway
        whole = np.flatnonzero(~lacking)
        layouts = [self.every[0]] * len(block)
        if len(whole):
            chosen = samples if len(whole) == len(block) else samples[whole]
            self._put(chosen, centre[whole], self.every, into, whole)
        for present, channels in _by_presence(block, np.flatnonzero(lacking), self.inside):
            layout = self.layout(present)
            chosen = block[np.ix_(channels, present)]
            middle = chosen.mean(axis=1) if chosen.shape[1] else np.zeros(len(channels))
            self._put(chosen, middle, layout, into, channels)
            for channel in channels:
                layouts[channel] = layout[0]
        return layouts

    def _put(
        self,
        samples: Array,
        centre: Array,
        layout: tuple[Layout, State],
        into: Sequence[Array],
        channels: NDArray[np.int64],
    ) -> None:
        sums = stride_sums(samples, centre, layout[0], self.statistics)
        sums = slide(sums, self.grid.width, self.grid.stride_s, gaps=layout[0].gaps)
        for statistic, rows in zip(self.statistics, into, strict=True):
            rows[channels] = statistic_of(statistic, layout[1], sums, centre)


def _by_presence(
    block: Array, channels: NDArray[np.int64], inside: NDArray[np.bool_]
) -> list[tuple[NDArray[np.bool_], NDArray[np.int64]]]:
    """Return channels that have samples at the same times together, with these times."""
    groups: dict[bytes, tuple[NDArray[np.bool_], list[int]]] = {}
    for channel in channels.tolist():
        present = inside & ~np.isnan(block[channel])
        groups.setdefault(present.tobytes(), (present, []))[1].append(channel)
    return [(present, np.array(members)) for present, members in groups.values()]


def channel_windows(
    series: Series,
    *,
    window_s: float = 3.0,
    stride_s: float = 1.0,
    statistics: Sequence[str] = ("level", "spread"),
    start: datetime | None = None,
    end: datetime | None = None,
    period_s: float = 0.1,
) -> ChannelWindows:
    """Return statistics of each channel over each window that lies wholly within the range.

    Parameters
    ----------
    series
        Physical values; `ts` sorted.
    window_s, stride_s
        Length and distance of windows in seconds; the length is a whole number of strides. Windows begin at
        multiples of the stride since the epoch, on every host alike.
    statistics
        Some of `STATISTICS`.
    start, end
        Range; the extent of the samples if not given. A window in it without samples exists, with coverage 0.
    period_s
        Expected time between samples, for the coverage.

    Raises
    ------
    UsageError
        If window and stride do not fit, or a statistic is not known.
    """
    unknown = [s for s in statistics if s not in STATISTICS]
    if unknown:
        raise UsageError(f"unknown statistics {unknown}: choose from {', '.join(STATISTICS)}")
    times = series.frame["ts"].dt.epoch("ns").to_numpy()
    first_ns = to_ns(start) if start is not None else (int(times[0]) if len(times) else 0)
    last_ns = to_ns(end) if end is not None else (int(times[-1]) + round(period_s * 1e9) if len(times) else 0)
    grid = _grid(window_s, stride_s, first_ns, last_ns)
    channels = tuple(series.channels[c] for c in series.frame.columns if c != "ts")
    values = {s: np.full((len(channels), grid.windows), np.nan) for s in statistics}
    rows, sources = np.zeros(grid.windows), {}
    if grid.windows and len(times):
        work = _Channels(grid, times, statistics)
        rows = work.every[1]["n"]
        layouts: list[Layout] = []
        # As many channels at once as a core's cache holds: of a short range many, for there the calls cost
        # more than the work; of a long one few.
        size = int(np.clip(_CACHED // len(times), 1, _MOST_AT_ONCE))
        for first in range(0, len(channels), size):
            some = slice(first, first + size)
            block = series.frame.select(channel.name for channel in channels[some]).to_numpy().T
            layouts += work.compute(block, [values[statistic][some] for statistic in statistics])
        sources = _sources(grid, channels, layouts)
    return ChannelWindows(
        host=series.host,
        start_ns=(grid.first + np.arange(grid.windows, dtype=np.int64)) * grid.stride_ns,
        window_ns=grid.stride_ns * grid.width,
        coverage=np.minimum(rows / max(1.0, round(window_s / period_s)), 1.0),
        channels=channels,
        values=values,
        sources=sources,
    )


def _sources(grid: _Grid, channels: Sequence[Channel], layouts: Sequence[Layout]) -> dict[str, Array]:
    """Return the share of the samples due that each source delivered."""
    sampled: list[Channel] = []
    shares: list[Array] = []
    known: dict[tuple[int, int], Array] = {}
    for channel, layout in zip(channels, layouts, strict=True):
        if channel.period_ms <= 0 or channel.source in _NOT_SAMPLED:
            continue
        key = id(layout), channel.period_ms
        if key not in known:
            counts, period_s = layout.times["n"], channel.period_ms / 1000.0
            known[key] = delivered(counts, grid.width, grid.stride_s, period_s)
        sampled.append(channel)
        shares.append(known[key])
    return source_coverage(sampled, shares)


def _windows(windows: ChannelWindows, features: Sequence[Feature], columns: Sequence[Array]) -> Windows:
    """Return features as a frame, with the coverage of each source behind them."""
    start = pl.Series("start", windows.start_ns).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    end = pl.Series("end", windows.start_ns + windows.window_ns).cast(pl.Datetime("ns"))
    head = [start, end.dt.replace_time_zone("UTC"), pl.Series("coverage", windows.coverage)]
    every = [*features, *(_coverage_feature(windows, source) for source in windows.sources)]
    values = [*columns, *windows.sources.values()]
    body = {feature.name: column for feature, column in zip(every, values, strict=True)}
    return Windows(windows.host, pl.DataFrame(head).hstack(frame_of(body)), tuple(every))


def _coverage_feature(windows: ChannelWindows, source: str) -> Feature:
    """Return the feature of a source's coverage; it belongs to the subsystem of most of its channels."""
    of_source = [channel.subsystem for channel in windows.channels if channel.source == source]
    subsystem = max(sorted(set(of_source)), key=of_source.count)
    metric = f"{COVERAGE}{source}"
    return Feature(f"{metric}:value:level", metric, "value", "level", subsystem, "")


def instance_space(windows: ChannelWindows) -> Windows:
    """Return every channel by itself (profile ``paper``, and drill-down)."""
    columns: list[Array] = []
    features: list[Feature] = []
    for statistic, values in windows.values.items():
        for channel, column in zip(windows.channels, values, strict=True):
            name = f"{channel.name}:{statistic}"
            columns.append(column)
            features.append(
                Feature(name, channel.metric, channel.instance, statistic, channel.subsystem, channel.unit)
            )
    return _windows(windows, features, columns)


def roll_up_space(windows: ChannelWindows) -> Windows:
    """Return per metric the mean, maximum and imbalance (maximum - mean) across its instances.

    Of instances that come and go with jobs the maximum alone: a new idle container moves a mean.

    Independent of how many cores, disks or network cards a host has, so one model serves a hardware class.
    The imbalance is taken of levels only: of a spread it says nothing that the maximum does not.
    """
    by_metric: dict[str, list[int]] = {}
    for index, channel in enumerate(windows.channels):
        by_metric.setdefault(channel.metric, []).append(index)
    columns: list[Array] = []
    features: list[Feature] = []
    for metric, indexes in by_metric.items():
        channel = windows.channels[indexes[0]]
        for statistic, values in windows.values.items():
            block = values[indexes]
            if not channel.instance:
                parts = {"value": block[0]}
            else:
                parts = _parts(block, imbalance=statistic == "level")
                if is_transient(metric):
                    parts = {"max": parts["max"]}
            for part, column in parts.items():
                name = f"{metric}:{part}:{statistic}"
                columns.append(column)
                features.append(Feature(name, metric, part, statistic, channel.subsystem, channel.unit))
    return _windows(windows, features, columns)


def _parts(block: Array, *, imbalance: bool) -> dict[str, Array]:
    """Return the parts of a metric from its instances, shape (n_instances, n_windows)."""
    present = ~np.isnan(block)
    count = present.sum(axis=0)
    nothing = count == 0
    mean = np.where(present, block, 0.0).sum(axis=0) / np.maximum(count, 1)
    highest = np.where(present, block, -np.inf).max(axis=0)
    mean = np.where(nothing, np.nan, mean)
    highest = np.where(nothing, np.nan, highest)
    parts = {"mean": mean, "max": highest}
    if imbalance:
        parts["imbalance"] = highest - mean
    return parts
