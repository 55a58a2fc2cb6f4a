"""How far each feature left its healthy band in each window: what detection hands to attribution."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reveal_core.windows import Feature

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Excursions:
    """Features of one host's windows beside their healthy bands.

    Attributes
    ----------
    features
        The model's features, in order; k of them.
    start_ns
        Start of each window, ns since the epoch, shape (n,).
    values
        In physical units, shape (n, k); NaN where missing.
    z, excess
        Signed, in standard units: from the healthy centre, and beyond the healthy band (0 inside), shape (n,
        k).
    low, high, centre
        Healthy band in physical units, shape (k,), at an hour that is like any other.
    shift
        What the hour of each window does to the bands, shape (n_hours, k), and the row of each window in it,
        shape (n,); None where nothing is known of hours.
    stands_for
        For a feature kept by pruning, the metrics it stands for.
    """

    features: tuple[Feature, ...]
    start_ns: NDArray[np.int64]
    values: Array
    z: Array
    excess: Array
    low: Array
    high: Array
    centre: Array
    stands_for: dict[str, tuple[str, ...]]
    shift: tuple[Array, NDArray[np.int64]] | None = None

    def band(self, window: int, column: int) -> tuple[float, float]:
        """Return the healthy band of a feature in a window, in physical units."""
        moved = float(self.shift[0][self.shift[1][window], column]) if self.shift is not None else 0.0
        return float(self.low[column]) + moved, float(self.high[column]) + moved
