"""Statistics of every channel over windows on a fixed grid, and their roll-up across instances.

Partial sums are computed once per stride and combined, so the cost does not grow with window over stride.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from reveal_core.channels import Channel
from reveal_core.errors import UsageError
from reveal_core.telemetry import Series
from reveal_core.windows import Feature, Windows

STATISTICS = ("level", "spread", "minimum", "maximum", "trend", "roughness")
"""Mean, standard deviation, minimum, maximum, slope per second, mean absolute step."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ChannelWindows:
    """Statistics per channel: ``values[statistic]`` is (n_windows, n_channels), NaN without samples."""

    host: str
    start_ns: NDArray[np.int64]
    window_ns: int
    coverage: Array
    channels: tuple[Channel, ...]
    values: dict[str, Array]


def _grid(window_s: float, stride_s: float) -> tuple[int, int, int]:
    stride_ns = round(stride_s * 1e9)
    window_ns = round(window_s * 1e9)
    if stride_ns <= 0 or window_ns < stride_ns or window_ns % stride_ns:
        raise UsageError(f"a window of {window_s} s is not a whole number of strides of {stride_s} s")
    return stride_ns, window_ns, window_ns // stride_ns


def _partials(
    series: Series, names: Sequence[str], stride_ns: int, statistics: Sequence[str], centre: Array
) -> pl.DataFrame:
    """Sums per stride of centred values; one row per stride that has a row at all."""
    ns = pl.col("ts").dt.epoch("ns")
    frame = series.frame.with_columns((ns // stride_ns).alias("__bucket"))
    if "trend" in statistics:
        # Time within the stride in seconds, for the slope.
        frame = frame.with_columns(((ns % stride_ns) / 1e9).alias("__t"))
    aggregates: list[pl.Expr] = [pl.len().cast(pl.Float64).alias("__rows")]
    for index, name in enumerate(names):
        value = pl.col(name) - float(centre[index])
        aggregates.append(value.count().cast(pl.Float64).alias(f"n{index}"))
        aggregates.append(value.sum().alias(f"s{index}"))
        if "spread" in statistics:
            aggregates.append((value * value).sum().alias(f"q{index}"))
        if "minimum" in statistics:
            aggregates.append(value.min().alias(f"l{index}"))
        if "maximum" in statistics:
            aggregates.append(value.max().alias(f"h{index}"))
        if "roughness" in statistics:
            aggregates.append(pl.col(f"__step{index}").sum().alias(f"r{index}"))
            aggregates.append(pl.col(f"__step{index}").count().cast(pl.Float64).alias(f"m{index}"))
        if "trend" in statistics:
            present = pl.when(pl.col(name).is_not_null()).then(pl.col("__t"))
            aggregates.append(present.sum().alias(f"t{index}"))
            aggregates.append((present * present).sum().alias(f"u{index}"))
            aggregates.append((present * value).sum().alias(f"x{index}"))
    if "roughness" in statistics:
        frame = frame.with_columns(
            pl.col(name).diff().abs().alias(f"__step{index}") for index, name in enumerate(names)
        )
    return frame.group_by("__bucket", maintain_order=True).agg(aggregates).sort("__bucket")


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
    stride_ns, window_ns, width = _grid(window_s, stride_s)
    channels = tuple(series.channels[c] for c in series.frame.columns if c != "ts")
    names = [c.name for c in channels]
    means = series.frame.select(pl.col(n).mean() for n in names) if names else pl.DataFrame()
    centre = np.array(
        [v if v is not None else 0.0 for v in (means.row(0) if names else ())], dtype=np.float64
    )
    times = series.frame["ts"].dt.epoch("ns")
    first_ns = _ns(start) if start is not None else (times[0] if len(times) else 0)
    last_ns = _ns(end) if end is not None else (times[-1] + round(period_s * 1e9) if len(times) else 0)
    first = -(-first_ns // stride_ns)
    count = last_ns // stride_ns - first
    n_windows = max(0, count - width + 1)
    empty = {s: np.full((n_windows, len(names)), np.nan) for s in statistics}
    starts = (first + np.arange(n_windows, dtype=np.int64)) * stride_ns
    if n_windows == 0 or not len(times):
        return ChannelWindows(series.host, starts, window_ns, np.zeros(n_windows), channels, empty)

    partial = _partials(series, names, stride_ns, statistics, centre)
    grid = pl.DataFrame({"__bucket": np.arange(first, first + count, dtype=np.int64)})
    partial = grid.join(partial, on="__bucket", how="left", maintain_order="left")

    def column(prefix: str, missing: float) -> Array:
        picked = partial.select(pl.col(f"{prefix}{i}").fill_null(missing) for i in range(len(names)))
        return np.ascontiguousarray(picked.to_numpy().astype(np.float64))

    def total(values: Array) -> Array:
        return np.asarray(sliding_window_view(values, width, axis=0).sum(axis=-1))

    n = total(column("n", 0.0))
    sums = total(column("s", 0.0))
    some = n > 0
    safe = np.where(some, n, 1.0)
    mean = sums / safe
    values: dict[str, Array] = {}
    for statistic in statistics:
        if statistic == "level":
            result = mean + centre
        elif statistic == "spread":
            squares = total(column("q", 0.0))
            result = np.sqrt(np.maximum(squares / safe - mean * mean, 0.0))
        elif statistic == "minimum":
            lows = column("l", np.inf)
            result = sliding_window_view(lows, width, axis=0).min(axis=-1) + centre
        elif statistic == "maximum":
            highs = column("h", -np.inf)
            result = sliding_window_view(highs, width, axis=0).max(axis=-1) + centre
        elif statistic == "roughness":
            steps = total(column("m", 0.0))
            result = total(column("r", 0.0)) / np.where(steps > 0, steps, 1.0)
        else:
            result = _trend(column, total, n, sums, width, stride_ns / 1e9)
        values[statistic] = np.where(some, result, np.nan)
    rows = total(partial.select(pl.col("__rows").fill_null(0.0)).to_numpy().astype(np.float64))[:, 0]
    coverage = np.minimum(rows / max(1.0, round(window_s / period_s)), 1.0)
    return ChannelWindows(series.host, starts, window_ns, coverage, channels, values)


def _trend(
    column: Callable[[str, float], Array],
    total: Callable[[Array], Array],
    n: Array,
    sums: Array,
    width: int,
    stride_s: float,
) -> Array:
    """Least-squares slope per second: (n·Σtx - Σt·Σx) / (n·Σt² - (Σt)²), with t from the window's start."""
    bucket_n, bucket_s = column("n", 0.0), column("s", 0.0)
    bucket_t, bucket_u, bucket_x = column("t", 0.0), column("u", 0.0), column("x", 0.0)
    shape = (total(bucket_n)).shape
    t, u, x = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for k in range(width):
        rows = slice(k, k + shape[0])
        offset = k * stride_s
        t += bucket_t[rows] + offset * bucket_n[rows]
        u += bucket_u[rows] + 2 * offset * bucket_t[rows] + offset**2 * bucket_n[rows]
        x += bucket_x[rows] + offset * bucket_s[rows]
    below = n * u - t * t
    return np.where(below > 1e-9, (n * x - t * sums) / np.where(below > 1e-9, below, 1.0), 0.0)


def _ns(time: datetime) -> int:
    return round(time.timestamp() * 1e6) * 1000


def _frame(windows: ChannelWindows, columns: dict[str, Array]) -> pl.DataFrame:
    start = pl.Series("start", windows.start_ns).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    end = pl.Series("end", windows.start_ns + windows.window_ns).cast(pl.Datetime("ns"))
    head = [start, end.dt.replace_time_zone("UTC"), pl.Series("coverage", windows.coverage)]
    body = [pl.Series(name, values).fill_nan(None) for name, values in columns.items()]
    return pl.DataFrame([*head, *body])


def instance_space(windows: ChannelWindows) -> Windows:
    """Return every channel by itself (profile ``paper``, and drill-down)."""
    columns: dict[str, Array] = {}
    features: list[Feature] = []
    for statistic, values in windows.values.items():
        for index, channel in enumerate(windows.channels):
            name = f"{channel.name}:{statistic}"
            columns[name] = values[:, index]
            features.append(
                Feature(name, channel.metric, channel.instance, statistic, channel.subsystem, channel.unit)
            )
    return Windows(windows.host, _frame(windows, columns), tuple(features))


def roll_up_space(windows: ChannelWindows) -> Windows:
    """Return per metric the mean, maximum and imbalance (maximum - mean) across its instances.

    Independent of how many cores, disks or network cards a host has, so one model serves a hardware class.
    The imbalance is taken of levels only: of a spread it says nothing that the maximum does not.
    """
    by_metric: dict[str, list[int]] = {}
    for index, channel in enumerate(windows.channels):
        by_metric.setdefault(channel.metric, []).append(index)
    columns: dict[str, Array] = {}
    features: list[Feature] = []
    for metric, indexes in by_metric.items():
        channel = windows.channels[indexes[0]]
        for statistic, values in windows.values.items():
            block = values[:, indexes]
            if not channel.instance:
                parts = {"value": block[:, 0]}
            else:
                parts = _parts(block, imbalance=statistic == "level")
            for part, column in parts.items():
                name = f"{metric}:{part}:{statistic}"
                columns[name] = column
                features.append(Feature(name, metric, part, statistic, channel.subsystem, channel.unit))
    return Windows(windows.host, _frame(windows, columns), tuple(features))


def _parts(block: Array, *, imbalance: bool) -> dict[str, Array]:
    present = ~np.isnan(block)
    count = present.sum(axis=1)
    nothing = count == 0
    mean = np.where(present, block, 0.0).sum(axis=1) / np.maximum(count, 1)
    highest = np.where(present, block, -np.inf).max(axis=1)
    mean = np.where(nothing, np.nan, mean)
    highest = np.where(nothing, np.nan, highest)
    parts = {"mean": mean, "max": highest}
    if imbalance:
        parts["imbalance"] = highest - mean
    return parts
