"""The very quantity of a metric that moved, from samples: its level or spread, of one instance or of all."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.channels import channel_name
from reveal_core.incidents import MetricEvidence
from reveal_core.telemetry import Series
from reveal_core.timespec import to_ns

STEP_S = 1.0
"""Samples are averaged over this long in plots; raw 100 ms samples hide what the windows saw."""
SPREAD_STEPS = 3
"""Steps that a spread is taken over."""
COMPARABLE = ("level", "spread")
"""Statistics that mean the same over any length of time, so that plots and peers can show them."""
Array = NDArray[np.float64]


def rows_between(series: Series, start: datetime, end: datetime) -> pl.DataFrame:
    """Return the rows of a series from ``start`` to before ``end``; none of a series without samples."""
    frame = series.frame
    if "ts" not in frame.columns:
        return pl.DataFrame({"ts": []}, schema={"ts": pl.Datetime("ns", "UTC")})
    stamps = frame["ts"].to_physical().to_numpy()
    first, last = np.searchsorted(stamps, (to_ns(start), to_ns(end)))
    return frame.slice(int(first), int(last - first))


def channels_of(series: Series, evidence: MetricEvidence) -> list[str]:
    """Return the columns that a quantity is made of: its channel, or all instances of its metric."""
    if evidence.part == "value":
        names = [channel_name(evidence.metric, evidence.instance)]
    else:
        names = [c.name for c in series.channels.values() if c.metric == evidence.metric]
    return [name for name in names if name in series.held]


def matrix(rows: pl.DataFrame, names: list[str]) -> Array:
    """Return columns as floats, shape (n_rows, n_names); what is not finite is NaN."""
    values = rows.select(pl.col(names).cast(pl.Float64)).to_numpy()
    return np.where(np.isfinite(values), values, np.nan)


def milliseconds(rows: pl.DataFrame) -> NDArray[np.int64]:
    """Return the times of rows in ms since 1970."""
    return rows["ts"].dt.epoch("ms").to_numpy()


def quantity_of(values: Array, times_ms: NDArray[np.int64], step_ms: int, part: str, statistic: str) -> Array:
    """Return a quantity in steps of ``step_ms``, NaN where a step has no sample.

    Parameters
    ----------
    values
        Samples of the channels that it is made of, shape (n_samples, n_channels), NaN where missing.
    times_ms
        Their times, ms since 1970, ascending.
    step_ms
        Length of a step; steps lie on its multiples, the first at that of the first sample.
    part
        ``mean``, ``max`` or ``imbalance`` (highest less mean) over channels; of anything else the highest.
    statistic
        ``spread`` for the standard deviation over `SPREAD_STEPS` steps; of anything else the mean.

    Returns
    -------
    array of shape (n_steps,)
    """
    bins = times_ms // step_ms
    first, count = int(bins[0]), int(bins[-1] - bins[0]) + 1
    # Only the spread needs several strides, as a window has; a level is shown as sharply as the step allows.
    width = SPREAD_STEPS if statistic == "spread" else 1
    return _roll_up(per_bin(values, bins - first, count, width, statistic), part)


def per_bin(values: Array, bins: NDArray[np.int64], count: int, width: int, statistic: str) -> Array:
    """Return the mean, or for ``spread`` the standard deviation, of each column per bin, NaN where empty.

    Bins ascend; they are joined with their neighbours to ``width`` in all (odd), centred.
    """
    centre = np.nan_to_num(np.nanmean(values)) if np.isfinite(values).any() else 0.0
    known = np.isfinite(values)
    shifted = np.where(known, values - centre, 0.0)
    totals = np.zeros((3, count + width - 1, values.shape[1]))
    # Bins ascend, so each is a run of rows.
    first = np.flatnonzero(np.diff(bins, prepend=bins[0] - 1))
    for total, part in zip(totals, (known.astype(np.float64), shifted, shifted**2), strict=True):
        total[bins[first] + width // 2] = np.add.reduceat(part, first, axis=0)
    n, sums, squares = np.lib.stride_tricks.sliding_window_view(totals, width, axis=1).sum(axis=-1)
    safe = np.where(n > 0, n, 1.0)
    mean = sums / safe
    result = np.sqrt(np.maximum(squares / safe - mean**2, 0.0)) if statistic == "spread" else mean + centre
    return np.where(n > 0, result, np.nan)


def mean_of(values: Array) -> float | None:
    """Return the mean of what is known; None where nothing is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Return a number to so many significant digits; None where it is None or not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.{digits}g}")


def _roll_up(values: Array, part: str) -> Array:
    known = np.isfinite(values)
    some = known.any(axis=1)
    highest = np.where(known, values, -np.inf).max(axis=1)
    mean = np.where(known, values, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    result = {"mean": mean, "imbalance": highest - mean}.get(part, highest)
    return np.where(some, result, np.nan)
