"""Mahalanobis distance in the space of principal components."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from reveal_core.detect.base import Above0, Array, Contamination, Detector


class PCAMahalanobisDetector(Detector):
    """Mahalanobis distance by principal components, with a ridge.

    Parameters
    ----------
    ridge
        Added to each component's variance: ``sum of t² / (λ + ridge)`` over *all* components, those without
        variance in training included. The residual directions carry most of the signal.
    kept
        None for all components (default). A share of variance, say 0.95, for the publication's form: the
        distance inside the kept subspace alone.
    clip
        Largest absolute value of an input that counts; None for no limit.
    contamination
        Share of the training windows that `predict` calls outliers.

    Notes
    -----
    With fewer windows than features the components come from a singular value decomposition of the centred
    data (n - 1 at most), and the directions outside them count with the ridge alone.
    """

    def __init__(
        self,
        *,
        ridge: Above0 = 0.1,
        kept: Annotated[float, Field(gt=0, le=1)] | None = None,
        clip: Above0 | None = 10.0,
        contamination: Contamination = 0.01,
    ) -> None:
        self.ridge = ridge
        self.kept = kept
        self.clip = clip
        self.contamination = contamination

    def _clipped(self, X: Array) -> Array:
        return X if self.clip is None else np.clip(X, -self.clip, self.clip)

    def _fit(self, X: Array) -> None:
        clipped = self._clipped(X)
        self.mean_ = clipped.mean(axis=0)
        _, singular, components = np.linalg.svd(clipped - self.mean_, full_matrices=False)
        variance = singular**2 / max(1, len(X) - 1)
        positive = variance > 1e-12
        variance, components = variance[positive], components[positive]
        if self.kept is not None and len(variance):
            share = np.cumsum(variance) / variance.sum()
            count = int(np.searchsorted(share, self.kept - 1e-12) + 1)
            variance, components = variance[:count], components[:count]
        self.components_ = components
        self.variance_ = variance

    def _score(self, X: Array) -> Array:
        return np.asarray(np.sqrt(np.maximum(self._contributions(X).sum(axis=1), 0.0)))

    def _contributions(self, X: Array) -> Array:
        """Partial contributions ``(x - m)_j · [M (x - m)]_j``, which sum to the squared distance."""
        centred = self._clipped(X) - self.mean_
        projected = centred @ self.components_.T
        weighted = (projected / (self.variance_ + self.ridge)) @ self.components_
        if self.kept is None:
            weighted = weighted + (centred - projected @ self.components_) / self.ridge
        return np.asarray(np.maximum(centred * weighted, 0.0))
