"""Features in standard units, against the band they keep while a host is healthy."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from reveal_core.detect.base import Array

_MAD_TO_SIGMA = 1.4826


class BandScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Centre on the median, scale by spread, remember the healthy band; a missing value becomes 0.

    Parameters
    ----------
    floors
        Smallest scale of each feature in its own unit, shape (n_features,): what is worth noticing. None for
        0.
    relative_floor
        Smallest scale as a share of the feature's largest absolute value.
    """

    def __init__(self, floors: ArrayLike | None = None, relative_floor: float = 0.02) -> None:
        self.floors = floors
        self.relative_floor = relative_floor

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit on healthy windows, shape (n_windows, n_features); NaN is a missing value."""
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 2 or not len(values):
            raise ValueError("the scaler needs windows by features")
        known = ~np.isnan(values).all(axis=0)
        filled = np.where(known, values, 0.0)
        self.n_features_in_ = values.shape[1]
        self.centre_ = np.nanmedian(filled, axis=0)
        self.low_ = np.nanmin(filled, axis=0)
        self.high_ = np.nanmax(filled, axis=0)
        mad = _MAD_TO_SIGMA * np.nanmedian(np.abs(filled - self.centre_), axis=0)
        least = self.relative_floor * np.maximum(np.abs(self.low_), np.abs(self.high_))
        if self.floors is not None:
            least = np.maximum(least, np.asarray(self.floors, dtype=np.float64))
        self.scale_ = np.maximum(np.maximum(mad, np.nanstd(filled, axis=0)), np.maximum(least, 1e-12))
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Return z-scores, shape (n_windows, n_features); 0 where a value is missing."""
        check_is_fitted(self)
        z = (np.asarray(X, dtype=np.float64) - self.centre_) / self.scale_
        return np.asarray(np.nan_to_num(z, nan=0.0, posinf=0.0, neginf=0.0))

    def excess(self, X: ArrayLike) -> Array:
        """Return how far values lie beyond the healthy band, signed, in units of the scale; 0 inside it."""
        check_is_fitted(self)
        values = np.asarray(X, dtype=np.float64)
        beyond = np.maximum(values - self.high_, 0.0) - np.maximum(self.low_ - values, 0.0)
        return np.asarray(np.nan_to_num(beyond / self.scale_, nan=0.0, posinf=0.0, neginf=0.0))
