"""How far the few most displaced features lie beyond their healthy range."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from reveal_core.detect.base import Above0, Array, Contamination, Detector


class ExcessDetector(Detector):
    """Power mean of the excess of the features that lie furthest beyond the range seen while healthy.

    A fault of one part moves few of a thousand features; their mean stands out where a distance over all of
    them drowns it. With a power above 1 a single feature that is far out weighs more than several that are a
    little: one counter of uncorrected memory errors is a fault by itself.

    Parameters
    ----------
    count
        How many features are averaged.
    power
        Of the mean, ``(mean of excess ** power) ** (1 / power)``; 1 for the plain mean.
    clip
        Largest excess of one feature that counts, in units of the input.
    floor
        Smallest healthy range, in units of the input; narrower ones are widened to it on both sides of their
        middle.
    contamination
        Share of the training windows that `predict` calls outliers.
    """

    resolution = 0.2
    """Ten features a fifth of their range beyond it: with less, a new stretch of health is as far out."""

    def __init__(
        self,
        *,
        count: Annotated[int, Field(ge=1)] = 10,
        power: Annotated[float, Field(ge=1.0)] = 1.0,
        clip: Above0 = 10.0,
        floor: Above0 = 1.0,
        contamination: Contamination = 0.01,
    ) -> None:
        self.count = count
        self.power = power
        self.clip = clip
        self.floor = floor
        self.contamination = contamination

    def _fit(self, X: Array) -> None:
        low, high = X.min(axis=0), X.max(axis=0)
        widen = np.maximum(self.floor - (high - low), 0.0) / 2.0
        self.low_, self.high_ = low - widen, high + widen

    def _beyond(self, X: Array) -> Array:
        beyond = np.maximum(np.maximum(X - self.high_, self.low_ - X), 0.0)
        # Beyond a wide range one unit means less than beyond a narrow one.
        beyond = beyond / np.maximum((self.high_ - self.low_) / 2.0, self.floor)
        return np.asarray(np.minimum(beyond, self.clip))

    def _contributions(self, X: Array) -> Array:
        return np.asarray(self._beyond(X) ** self.power)

    def _score(self, X: Array) -> Array:
        beyond = self._beyond(X)
        count = min(self.count, beyond.shape[1])
        furthest = np.partition(beyond, -count, axis=1)[:, -count:]
        return np.asarray((furthest**self.power).mean(axis=1) ** (1.0 / self.power))
