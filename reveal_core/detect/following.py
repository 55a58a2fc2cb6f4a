"""What follows a host through time: detectors fitted anew each day, thresholds set anew each hour.

At 100 ms the threshold comes from the scores that a host got before, in the store: `Follower`. On telemetry
by the minute history and test lie in one array: `following_threshold`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reveal_core.detect.base import Array, Detector
from reveal_core.detect.scaling import BandScaler
from reveal_core.detect.threshold import DAY_S, Threshold, budget_threshold, choose_threshold, watched_s

HOUR_NS = 3_600_000_000_000
Times = NDArray[np.int64]


@dataclass(frozen=True)
class Past:
    """Scores that a host got before.

    Attributes
    ----------
    start_ns, fused
        Start of each window, ns since the epoch, ascending, and its fused score; shape (n,). Only windows
        that had samples.
    """

    start_ns: Times
    fused: Array


@dataclass(frozen=True)
class Follower:
    """Sets the threshold of each hour, UTC, from the scores of the days before it.

    Attributes
    ----------
    past
        What the host got before.
    own
        The model's own threshold, which stands while less than a day of scores is known.
    budget_per_day, margin
        As `reveal_core.detect.threshold.choose_threshold` has them.
    memory_s
        How much of the past each hour learns from. What was flagged is learned from too: without it the rate
        of alarms doubles.
    frozen_ns
        Since when the host is held to be in another regime: what came after is not learned from, so that the
        alarm does not end by getting used to it. None where it is in none.
    known
        Levels of hours that were set before, by the hour's start, ns.
    """

    past: Past
    own: Threshold
    budget_per_day: float
    margin: float
    memory_s: float = 3 * DAY_S
    frozen_ns: int | None = None
    known: Mapping[int, float] = field(default_factory=dict)

    def thresholds(self, start_ns: Times, fused: Array) -> Array:
        """Return the threshold of each window, shape (n,).

        Parameters
        ----------
        start_ns, fused
            Of the windows to judge, ascending; the hours after the first learn from them too.
        """
        levels = np.empty(len(start_ns))
        hours = start_ns // HOUR_NS
        for hour in np.unique(hours):
            rows = hours == hour
            levels[rows] = self._level(int(hour) * HOUR_NS, start_ns, fused)
        return levels

    def _level(self, hour_ns: int, start_ns: Times, fused: Array) -> float:
        if hour_ns in self.known:
            return self.known[hour_ns]
        until = hour_ns if self.frozen_ns is None else min(hour_ns, self.frozen_ns)
        since = until - round(self.memory_s * 1e9)
        # What is judged now may have been scored before: it counts once, and as it is now.
        before = self.past.start_ns < (start_ns[0] if len(start_ns) else until)
        times = np.concatenate([self.past.start_ns[before], start_ns])
        scores = np.concatenate([self.past.fused[before], fused])
        inside = (times >= since) & (times < until)
        times, scores = times[inside], scores[inside]
        times_s = (times - (times[0] if len(times) else 0)) / 1e9
        if watched_s(times_s) < DAY_S:
            return self.own.value
        return budget_threshold(scores, times_s, self.budget_per_day, self.margin).value


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
    certain: float = np.inf,
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
    certain
        A score above it is held to be of a fault, as `reveal_core.detect.threshold.budget_threshold` has it.

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
            certain=certain,
        )
        found[start - first : end - first] = level.value
        start = max(end, start + 1)
    return found
