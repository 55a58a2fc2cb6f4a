"""How each channel behaves of itself: the units that perturbations are counted in, and what values may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import Metric, load_catalog
from reveal_core.catalog.floors import floor_of
from reveal_core.features.rates import metric_of
from reveal_core.telemetry import Series, Telemetry

WINDOW_S = 3.0
MAD_TO_SIGMA = 1.4826
"""The standard deviation of a normal distribution over its median absolute deviation."""
_FULL = 101.0
"""A share of a window may pass 100 % by so much, for its time is measured too."""
_PRESENT = 0.5
"""A channel that lacks more of its samples is not perturbed."""


@dataclass(frozen=True)
class Habit:
    """What a channel does while nothing is injected, in its physical unit.

    Attributes
    ----------
    usual
        Median of its window levels.
    level_unit
        Robust standard deviation of its window levels, at least `floor_of` the metric.
    spread_unit
        Median standard deviation within a window, at least that floor; of a rate at least the floor times the
        square root of a window's samples, because one event alone makes a rate spread so much.
    minimum, maximum
        What values may be: the catalogue's range, no rate below 0 and no share above 100 %. A channel that
        was never negative stays so; one that was beyond 100 % has no bound there.
    moves
        Whether its samples change in at least half of the windows.
    """

    usual: float
    level_unit: float
    spread_unit: float
    minimum: float
    maximum: float
    moves: bool


def habits(
    telemetry: Telemetry, series: Series, *, start: datetime | None = None, end: datetime | None = None
) -> dict[str, Habit]:
    """Return the habit of each channel that can move meaningfully.

    Left out are states (small enumerations, identities), what stands still and is no event, and what lacks
    more than half of its samples.

    Parameters
    ----------
    telemetry, series
        The same host's raw samples and physical values.
    start, end
        Range to look at.
    """
    catalog = load_catalog()
    frame = series.frame
    if start is not None:
        frame = frame.filter(pl.col("ts") >= start)
    if end is not None:
        frame = frame.filter(pl.col("ts") < end)
    stored, known = telemetry.frame.schema, set(frame.columns)
    names = [
        name
        for name, channel in telemetry.channels.items()
        if channel.kind != "state" and name in known and channel.period_ms > 0
        if channel.kind != "counter" or stored[name].is_integer()
    ]
    if not frame.height or not names:
        return {}
    seconds = (frame["ts"][-1] - frame["ts"][0]).total_seconds()
    windows = _windows(frame, names)
    extremes = frame.select(
        *(pl.col(name).min().alias(f"low {name}") for name in names),
        *(pl.col(name).max().alias(f"high {name}") for name in names),
        *(pl.col(name).count().alias(f"count {name}") for name in names),
    ).row(0, named=True)
    found: dict[str, Habit] = {}
    for name in names:
        channel = series.channels[name]  # its period is that of the series, which may be thinned
        metric = metric_of(telemetry.channels[name], catalog)
        level, spread = windows["level", name], windows["spread", name]
        expected = 1000.0 * seconds / channel.period_ms
        if not level.size or extremes[f"count {name}"] < _PRESENT * expected:
            continue
        low, high = extremes[f"low {name}"], extremes[f"high {name}"]
        if low == high and not metric.event:
            continue
        samples = WINDOW_S * 1000.0 / channel.period_ms
        found[name] = _habit(metric, level, spread, low, samples)
    return found


def _habit(
    metric: Metric,
    level: NDArray[np.float64],
    spread: NDArray[np.float64],
    low: float,
    samples: float,
) -> Habit:
    usual = float(np.median(level))
    floor = floor_of(metric.name, metric.physical_unit)
    counter = metric.kind == "counter"
    spread_floor = floor * max(1.0, samples) ** 0.5 if counter else floor
    # Counted in whole ticks, a share of 100 ms may pass 100 %; over a window it does not.
    minimum, maximum = valid_range(metric, low, float(np.quantile(level, 0.95)))
    return Habit(
        usual=usual,
        level_unit=max(MAD_TO_SIGMA * float(np.median(np.abs(level - usual))), floor),
        spread_unit=max(float(np.median(spread)) if spread.size else 0.0, spread_floor),
        minimum=minimum,
        maximum=maximum,
        moves=bool(spread.size) and float(np.mean(spread > 0)) >= 0.5,
    )


def valid_range(metric: Metric, low: float, high: float) -> tuple[float, float]:
    """Return the smallest and largest valid physical value.

    Parameters
    ----------
    metric
        Its entry in the catalogue.
    low, high
        The smallest sample that was seen, and a level that windows seldom exceed.

    Notes
    -----
    The catalogue's range is of stored values, so of a counter it says nothing about the rate.
    """
    minimum, maximum = -np.inf, np.inf
    if metric.kind == "counter":
        minimum = 0.0
    else:
        minimum = metric.minimum if metric.minimum is not None else minimum
        maximum = metric.maximum if metric.maximum is not None else maximum
    if low >= 0.0:
        minimum = max(minimum, 0.0)
    if metric.physical_unit == "%" and high <= _FULL:
        maximum = min(maximum, 100.0)
    return float(minimum), float(maximum)


def _windows(frame: pl.DataFrame, names: Iterable[str]) -> dict[tuple[str, str], NDArray[np.float64]]:
    """Return levels and spreads of each channel over windows side by side, without missing ones."""
    number = (pl.col("ts").dt.epoch("ns") // round(WINDOW_S * 1e9)).alias("__window")
    names = list(names)
    table = frame.group_by(number).agg(
        *(pl.col(name).mean().alias(f"level {i}") for i, name in enumerate(names)),
        *(pl.col(name).std(ddof=0).alias(f"spread {i}") for i, name in enumerate(names)),
    )
    return {
        (what, name): table[f"{what} {i}"].drop_nulls().to_numpy().astype(np.float64)
        for what in ("level", "spread")
        for i, name in enumerate(names)
    }
