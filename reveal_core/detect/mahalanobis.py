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
    The components are the eigenvectors of the covariance matrix. With fewer windows than features they come
    from a singular value decomposition of the centred data (n - 1 at most), and the directions outside them
    count with the ridge alone.
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
        variance, components = _principal(clipped - self.mean_)
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


def _principal(centred: Array) -> tuple[Array, Array]:
    """Return variances, largest first, and components, one a row."""
    n, features = centred.shape
    if n > features:  # the covariance matrix is the smaller problem, by far for hours of windows
        variance, vectors = np.linalg.eigh(centred.T @ centred / (n - 1))
        return variance[::-1], np.ascontiguousarray(vectors[:, ::-1].T)
    _, singular, components = np.linalg.svd(centred, full_matrices=False)
    return singular**2 / max(1, n - 1), components
