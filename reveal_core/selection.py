"""Which features detectors may see, and features as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import is_failure, load_catalog
from reveal_core.features.rates import CHANGE_SUFFIX
from reveal_core.windows import COVERAGE, Feature

Array = NDArray[np.float64]


def may_wake(feature: Feature) -> bool:
    """Tell whether a feature that stood still in training carries a cause when it moves.

    Those of events do, and the levels of gauges and states: a link that is renegotiated, a core that goes off
    line, a power limit that is lowered. What such a feature is worth noticing by is its metric's floor. The
    rate of a counter that nobody used says no more than that somebody now uses it.
    """
    known = load_catalog().get(feature.metric)
    if known is None:
        return False
    return known.event or (known.kind != "counter" and feature.statistic == "level")


def tells_failure(feature: Feature) -> bool:
    """Tell whether a feature is the level of an error that hardware counts, or of a state of failure."""
    return feature.statistic == "level" and is_failure(feature.metric)


def tells_capacity(feature: Feature) -> bool:
    """Tell whether a feature is the level of what a device can do."""
    known = load_catalog().get(feature.metric)
    return feature.statistic == "level" and known is not None and known.capacity


def is_stock(metric: str) -> bool:
    """Tell whether a metric is a stock, which is judged by its change and not by its level."""
    known = load_catalog().get(metric)
    return known is not None and known.stock


def is_coverage(metric: str) -> bool:
    """Tell whether a metric is not a signal but how much of a source's telemetry there is."""
    return metric.startswith(COVERAGE)


def select(features: Sequence[Feature], exclude: Sequence[str]) -> list[Feature]:
    """Return the signals that detectors may see: not excluded, and no levels of stocks."""
    return [
        f
        for f in features
        if not is_coverage(f.metric)
        and not any(fnmatchcase(f.metric, pattern) for pattern in exclude)
        and (f.metric.endswith(CHANGE_SUFFIX) or not is_stock(f.metric))
    ]


def matrix(frame: pl.DataFrame, features: Sequence[Feature]) -> Array:
    """Return the features as a matrix, shape (n_windows, n_features), NaN where missing."""
    have = set(frame.columns)
    there = np.array([f.name in have for f in features], dtype=bool)
    if there.all() and features:
        return np.asarray(frame.select(f.name for f in features).to_numpy(), dtype=np.float64)
    values = np.full((frame.height, len(features)), np.nan, order="F")
    if there.any():
        values[:, there] = frame.select(f.name for f in features if f.name in have).to_numpy()
    return values
