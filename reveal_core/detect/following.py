"""What follows a host through time: detectors fitted anew each day, thresholds set anew each hour."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from reveal_core.detect.base import Array, Detector
from reveal_core.detect.scaling import BandScaler
from reveal_core.detect.threshold import DAY_S, choose_threshold


def refitted_scores(
    X: Array,
    first: int,
    *,
    every: int,
    memory: int,
    floors: Array,
    make: Callable[[], Detector],
) -> Array:
    """Return scores by a detector that is fitted anew on what came before.

    A host's habits drift over weeks, and a detector that was fitted once takes drift for strange. What is
    scored is never in what it was fitted on.

    Parameters
    ----------
    X
        Features in order of time, shape (n_samples, n_features).
    first
        First sample to score; at least 2 lie before it.
    every, memory
        Samples between two fits, and how many before a fit it is fitted on.
    floors
        Smallest scale of each feature, shape (n_features,).
    make
        Returns a new detector.

    Returns
    -------
    Array
        Shape (n_samples - first,).
    """
    pieces = []
    for start in range(first, len(X), every):
        history = X[max(0, start - memory) : start]
        scaler = BandScaler(floors=floors).fit(history)
        detector = make().fit(scaler.transform(history))
        pieces.append(detector.anomaly_score(scaler.transform(X[start : start + every])))
    return np.concatenate(pieces) if pieces else np.zeros(0)


def following_threshold(
    scores: Array,
    times_s: Array,
    first: int,
    *,
    budget_per_day: float,
    every_s: float = 3600.0,
    memory_s: float = 3 * DAY_S,
    margin: float = 1.5,
) -> Array:
    """Return the threshold of each sample, set anew from the scores of the days before it.

    A quantile of a healthy past flags ten times what was asked for once the load changes. The scores that are
    learned from include whatever was flagged: without them the rate of alarms doubles. The price is that a
    fault which lasts longer than the memory becomes usual.

    Parameters
    ----------
    scores, times_s
        Ascending in time; shape (n_samples,).
    first
        First sample that needs a threshold.
    budget_per_day
        False alarms per host and day that the operator accepts.
    every_s, memory_s
        Time between two settings, and how much of the past each learns from.
    margin
        Over the largest score while less than a day has passed.

    Returns
    -------
    Array
        Shape (n_samples - first,).
    """
    found = np.empty(len(scores) - first)
    start = first
    while start < len(scores):
        end = int(np.searchsorted(times_s, times_s[start] + every_s))
        begin = int(np.searchsorted(times_s, times_s[start] - memory_s))
        past = slice(begin, start)
        level = choose_threshold(
            scores[past],
            times_s[past],
            rule="budget",
            margin=margin,
            percentile=0.0,
            budget_per_day=budget_per_day,
        )
        found[start - first : end - first] = level.value
        start = max(end, start + 1)
    return found
