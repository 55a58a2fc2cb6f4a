"""Distance from the healthy centre, feature by feature."""

from __future__ import annotations

from typing import Literal

import numpy as np

from reveal_core.detect.base import Above0, Array, Contamination, Detector

_MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution: 1 / Φ⁻¹(3/4)."""


class ZScoreDetector(Detector):
    """Z-scores of all features, combined to one score.

    Parameters
    ----------
    combine
        ``"rms"`` (root mean square; default), ``"mean"`` of absolute values (the publication's) or ``"max"``.
    robust
        Centre on the median and scale by the larger of median absolute deviation and standard deviation, so
        that neither a few odd windows nor a feature that mostly stands still decides; False for mean and
        standard deviation.
    floor
        Smallest scale; keeps a constant feature from dividing by zero.
    clip
        Largest absolute z that counts, so that one feature cannot rule; None for no limit.
    contamination
        Share of the training windows that `predict` calls outliers.

    Examples
    --------
    >>> import numpy as np
    >>> healthy = np.random.default_rng(0).normal(size=(200, 3))
    >>> detector = ZScoreDetector().fit(healthy)
    >>> bool(detector.anomaly_score([[9.0, 0.0, 0.0]])[0] > detector.anomaly_score([[0.1, 0.0, 0.0]])[0])
    True
    """

    def __init__(
        self,
        *,
        combine: Literal["rms", "mean", "max"] = "rms",
        robust: bool = True,
        floor: Above0 = 1e-3,
        clip: Above0 | None = 10.0,
        contamination: Contamination = 0.01,
    ) -> None:
        self.combine = combine
        self.robust = robust
        self.floor = floor
        self.clip = clip
        self.contamination = contamination

    def _fit(self, X: Array) -> None:
        deviation = X.std(axis=0)
        if self.robust:
            self.centre_ = np.median(X, axis=0)
            mad = _MAD_TO_SIGMA * np.median(np.abs(X - self.centre_), axis=0)
            deviation = np.maximum(mad, deviation)
        else:
            self.centre_ = X.mean(axis=0)
        self.scale_ = np.maximum(deviation, self.floor)

    def _z(self, X: Array) -> Array:
        z = np.abs(X - self.centre_) / self.scale_
        return np.asarray(z if self.clip is None else np.minimum(z, self.clip))

    def _score(self, X: Array) -> Array:
        z = self._z(X)
        if self.combine == "rms":
            return np.asarray(np.sqrt((z * z).mean(axis=1)))
        return np.asarray(z.mean(axis=1) if self.combine == "mean" else z.max(axis=1))

    def _contributions(self, X: Array) -> Array:
        z = self._z(X)
        return np.asarray(z * z) if self.combine == "rms" else z
