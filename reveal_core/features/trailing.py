"""Statistics over the time before each sample, for telemetry that is sampled by the minute.

At a minute a sample, a window of a few seconds holds nothing: what matters is where a signal stands, how much
it has moved in the last minutes and how far it is from the day before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

Values = npt.NDArray[np.float64]
"""Samples, shape (n_samples, n_metrics), in order of time; NaN where missing."""


def _frame(values: Values) -> pl.DataFrame:
    return pl.DataFrame(np.asarray(values, dtype=np.float64)).fill_nan(None)


def _filled(frame: pl.DataFrame) -> Values:
    return frame.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def trailing_mean(values: Values, samples: int) -> Values:
    """Return the mean of each sample and those before it, ``samples`` in all, as many as there are.

    >>> trailing_mean(np.array([[1.0], [3.0], [5.0]]), 2).ravel().tolist()
    [1.0, 2.0, 4.0]
    """
    if samples <= 1:
        return np.array(values, dtype=np.float64)
    return _filled(_frame(values).select(pl.all().rolling_mean(samples, min_samples=1)))


def trailing_spread(values: Values, samples: int) -> Values:
    """Return the standard deviation of each sample and those before it; 0 for the first.

    >>> trailing_spread(np.array([[1.0], [3.0], [3.0]]), 2).ravel().tolist()
    [0.0, 1.0, 0.0]
    """
    return _filled(_frame(values).select(pl.all().rolling_std(samples, min_samples=1, ddof=0)))


def change_against(values: Values, samples: int) -> Values:
    """Return how far each sample is from the median of those before it: drift apart from a fault.

    Parameters
    ----------
    values
        Shape (n_samples, n_metrics).
    samples
        How many before it; with fewer than an eighth of them there is no change to tell, and it is 0.
    """
    frame = _frame(values)
    before = frame.select(pl.all().shift(1).rolling_median(samples, min_samples=max(1, samples // 8)))
    return np.where(np.isnan(known := _filled(before)), 0.0, values - known)
