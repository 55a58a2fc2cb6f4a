"""From scores to tail probabilities: how rarely a healthy window is as strange as this one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from reveal_core.detect.base import Array


class TailCalibration(BaseEstimator):  # type: ignore[misc]
    """Tail probability of a score: empirical, with a generalised Pareto tail beyond a quantile.

    Parameters
    ----------
    quantile
        Where the Pareto tail begins.
    max_shape
        Largest shape of the tail.
    min_exceedances
        With fewer scores beyond the quantile the shape cannot be told: the tail is then exponential (shape
        0).
    resolution
        Difference of scores that means something: the tail falls no faster than by 1/e over it.

    Notes
    -----
    Shape and scale by probability-weighted moments (Hosking and Wallis 1987, eq. 7): with ``a0`` the mean
    excess and ``a1`` the mean of excess times (1 - F), ``shape = a0 / (a0 - 2 a1) - 2`` in Hosking's sign,
    here turned so that heavy tails are positive. Fit it on scores of windows that the detector was not fitted
    on.
    """

    def __init__(
        self,
        *,
        quantile: float = 0.95,
        max_shape: float = 0.9,
        min_exceedances: int = 50,
        resolution: float = 0.0,
    ) -> None:
        self.quantile = quantile
        self.max_shape = max_shape
        self.min_exceedances = min_exceedances
        self.resolution = resolution

    def fit(self, scores: ArrayLike, y: Any = None) -> Self:
        """Fit on held-out healthy scores, shape (n_windows,)."""
        values = np.sort(np.asarray(scores, dtype=np.float64))
        if values.ndim != 1 or len(values) < 2 or not np.isfinite(values).all():
            raise ValueError("calibration needs at least two finite scores")
        self.sorted_ = values
        self.start_ = float(np.quantile(values, self.quantile))
        excess = values[values > self.start_] - self.start_
        n = len(excess)
        # A score that hardly varied must not make every later digit a sensation, the less the shorter the
        # history: n windows tell of probabilities down to 1/n, so a score twice as high counts at most ln n
        # more.
        least = max(abs(self.start_) / np.log(len(values) + 1.0), self.resolution, 1e-9)
        self.shape_, self.scale_ = 0.0, max(float(excess.mean()) if n else 0.0, least)
        if n >= self.min_exceedances:
            rank = (np.arange(1, n + 1) - 0.35) / n
            a0, a1 = float(excess.mean()), float((excess * (1.0 - rank)).mean())
            if a0 > 2.0 * a1 > 0.0:
                shape = 2.0 - a0 / (a0 - 2.0 * a1)
                self.shape_ = float(np.clip(shape, 0.0, self.max_shape))
                self.scale_ = max(a0 * (1.0 - self.shape_), least)
        return self

    def log_tail(self, scores: ArrayLike) -> Array:
        """Return -ln of the tail probability of each score, at least 0; higher is stranger."""
        check_is_fitted(self)
        s = np.asarray(scores, dtype=np.float64)
        n = len(self.sorted_)
        above = n - np.searchsorted(self.sorted_, s, side="left")
        body = -np.log((above + 1.0) / (n + 1.0))
        excess = np.maximum(s - self.start_, 0.0) / self.scale_
        heavy = self.shape_ > 1e-6
        tail = np.log1p(self.shape_ * excess) / self.shape_ if heavy else excess
        begin = -np.log(1.0 - self.quantile)
        inside = np.minimum(body, begin)
        return np.asarray(np.where(s > self.start_, begin + tail, inside))
