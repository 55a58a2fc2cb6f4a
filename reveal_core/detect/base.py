"""What every detector shares: the scikit-learn form of an outlier detector, with one sign convention."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

Array = NDArray[np.float64]


class Detector(OutlierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the detectors.

    A subclass has ``contamination`` among its parameters and implements ``_fit(X)``, ``_score(X)`` and
    ``_contributions(X)`` on validated arrays.

    Attributes
    ----------
    offset_
        As scikit-learn defines it, ``decision_function = score_samples - offset_``: minus the
        (1 - contamination) quantile of the training scores.
    """

    contamination: float
    resolution: float = 0.0
    """Difference of scores that means something; a class may set it where healthy scores are mostly 0."""

    @abstractmethod
    def _fit(self, X: Array) -> None: ...

    @abstractmethod
    def _score(self, X: Array) -> Array: ...

    @abstractmethod
    def _contributions(self, X: Array) -> Array: ...

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Fit on healthy windows.

        Parameters
        ----------
        X
            Shape (n_windows, n_features), finite.
        y
            Ignored.
        """
        if not 0.0 < self.contamination < 0.5:
            raise ValueError(f"contamination must lie between 0 and 0.5, not {self.contamination}")
        checked = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self._fit(checked)
        self.offset_ = -float(np.quantile(self._score(checked), 1.0 - self.contamination))
        return self

    def _validate(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, dtype=np.float64, reset=False))

    def anomaly_score(self, X: ArrayLike) -> Array:
        """Return how strange each window is, shape (n_windows,); higher is stranger."""
        return self._score(self._validate(X))

    def contributions(self, X: ArrayLike) -> Array:
        """Return each feature's share of each window's score, shape (n_windows, n_features), at least 0."""
        return self._contributions(self._validate(X))

    def score_samples(self, X: ArrayLike) -> Array:
        """Return the opposite of `anomaly_score`, as scikit-learn has it: lower is stranger."""
        return -self.anomaly_score(X)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return how far inside the training scores each window lies; negative is an outlier."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return 1 for an ordinary window and -1 for an outlier."""
        return np.where(self.decision_function(X) < 0, -1, 1)
