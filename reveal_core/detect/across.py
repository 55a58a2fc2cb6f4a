"""Statistics across hosts of which some have no sample."""

from __future__ import annotations

import numpy as np

from reveal_core.detect.base import Array


def known_median(values: Array, axis: int) -> Array:
    """Return medians of what is not NaN, NaN where all is; the axis is kept.

    It is `numpy.nanmedian`, without its warning and at a tenth of its time on many short rows.
    """
    ordered = np.sort(values, axis=axis)
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum((count - 1) // 2, 0), axis=axis)
    high = np.take_along_axis(ordered, np.minimum(count // 2, values.shape[axis] - 1), axis=axis)
    return np.asarray(0.5 * (low + high))


def clipped_ratio(difference: Array, scale: Array, clip: float) -> Array:
    """Return difference over scale within the clip; beyond nothing at all, any difference is at the clip."""
    ratio = difference / np.where(scale > 0.0, scale, 1.0)
    return np.asarray(np.clip(np.where(scale > 0.0, ratio, np.sign(difference) * clip), -clip, clip))


def weighted_median(values: Array, weights: Array) -> Array:
    """Return for each row the value that half of the weight lies at or below; NaN where all are NaN."""
    order = np.argsort(values, axis=1, kind="stable")
    ordered, weight = np.take_along_axis(values, order, axis=1), np.take_along_axis(weights, order, axis=1)
    reached = np.cumsum(weight, axis=1) >= 0.5 * weight.sum(axis=1, keepdims=True)
    return np.asarray(np.take_along_axis(ordered, reached.argmax(axis=1)[:, None], axis=1)[:, 0])
