"""How a model's features were distributed in training, and how far another distribution is from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reveal_core.detect.base import Array

DECILES = np.linspace(0.1, 0.9, 9)
FOLDS = 5
"""Parts of the training range that are compared with the rest of it: how far healthy telemetry wanders."""


@dataclass(frozen=True)
class Reference:
    """How the features of a model were distributed in training.

    Attributes
    ----------
    names
        The features.
    edges
        Of each the deciles that differ: the bounds of its bins. A value on an edge belongs to the bin below.
    shares
        Share of training windows in each bin, one more than there are edges.
    natural
        Largest population stability index of a fifth of the training range against the rest of it.
    windows
        Number of training windows.
    """

    names: tuple[str, ...]
    edges: tuple[Array, ...]
    shares: tuple[Array, ...]
    natural: Array
    windows: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "windows": self.windows,
            "features": [
                {
                    "name": name,
                    "edges": self.edges[j].tolist(),
                    "shares": self.shares[j].tolist(),
                    "natural_psi": float(self.natural[j]),
                }
                for j, name in enumerate(self.names)
            ],
        }


def reference_from(data: Mapping[str, Any]) -> Reference:
    """Return the reference that `Reference.to_dict` wrote.

    Raises
    ------
    ValueError
        If the mapping is none.
    """
    try:
        features = data["features"]
        return Reference(
            names=tuple(str(f["name"]) for f in features),
            edges=tuple(np.array(f["edges"], dtype=np.float64) for f in features),
            shares=tuple(np.array(f["shares"], dtype=np.float64) for f in features),
            natural=np.array([f["natural_psi"] for f in features], dtype=np.float64),
            windows=int(data["windows"]),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no reference distribution: {error}") from error


def make_reference(names: Sequence[str], X: Array) -> Reference:
    """Return the distribution of features over the windows that a model was fitted on.

    Parameters
    ----------
    names
        Features, n_features.
    X
        Shape (n_windows, n_features), in order of time; NaN where missing.
    """
    edges, shares, natural = [], [], []
    for column in X.T:
        known = column[~np.isnan(column)]
        bounds = np.unique(np.quantile(known, DECILES)) if len(known) else np.empty(0)
        edges.append(bounds)
        shares.append(_shares(bin_counts(known, bounds)))
        parts = [bin_counts(part[~np.isnan(part)], bounds) for part in np.array_split(column, FOLDS)]
        whole = np.sum(parts, axis=0)
        natural.append(max((stability_index(whole - p, p) for p in parts if p.sum()), default=0.0))
    return Reference(tuple(names), tuple(edges), tuple(shares), np.array(natural), len(X))


def bin_counts(values: Array, edges: Array) -> NDArray[np.int64]:
    """Return how many values lie in each bin, one more than there are edges; on an edge counts as below."""
    return np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)


def _shares(counts: NDArray[np.int64]) -> Array:
    return np.asarray(counts / max(int(counts.sum()), 1), dtype=np.float64)


def stability_index(expected: NDArray[np.int64], actual: NDArray[np.int64]) -> float:
    """Return the population stability index of two counts over the same bins; 0 where they agree.

    Sum of ``(a - e) ln(a / e)`` over the bins' shares (Siddiqi 2006, ch. 10): the symmetric Kullback-Leibler
    divergence. An empty bin counts as half a window.

    >>> stability_index(np.array([50, 50]), np.array([50, 50]))
    0.0
    """
    e, a = (np.maximum(counts, 0.5) / max(counts.sum(), 1) for counts in (expected, actual))
    return float(((a - e) * np.log(a / e)).sum())
