"""Where strange begins to be an alarm, apart from any detector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reveal_core.detect.base import Array
from reveal_core.errors import UsageError

DAY_S = 86400.0
_UNSEEN_S = 60.0
"""Length of what a short history leaves unseen of a healthy host's habits."""


@dataclass(frozen=True)
class Threshold:
    """A score beyond which a window is anomalous.

    ``provisional`` is true where the history was too short to calibrate an alarm rate; ``rule`` says how it
    was set.
    """

    value: float
    rule: str
    provisional: bool


def margin_threshold(held_out: Array, history_s: float, margin: float) -> Threshold:
    """Return a margin over the strangest healthy window: all that minutes of history support.

    Parameters
    ----------
    held_out, history_s
        Healthy scores, and the length in seconds of the history they come from.
    margin
        For a long history. It grows as history gets shorter, by ``1 + 60 s / history``: after 110 s of
        training another healthy run was seen to reach 1.2 to 3.75 times the held-out maximum, after 275 s
        1.14 times.
    """
    stretched = margin * (1.0 + _UNSEEN_S / max(history_s, 1.0))
    rule = f"{stretched:.2f} times the held-out healthy maximum"
    return Threshold(stretched * float(held_out.max()), rule, provisional=True)


def percentile_threshold(held_out: Array, percentile: float) -> Threshold:
    """Return a percentile of healthy scores: the publication's rule, which flags that share of them."""
    return Threshold(
        float(np.percentile(held_out, percentile)), f"{percentile:g}th percentile", provisional=False
    )


def watched_s(times_s: Array) -> float:
    """Return how long a host was watched: its windows times their distance, so that gaps do not count."""
    if len(times_s) < 2:
        return 0.0
    return len(times_s) * float(np.median(np.diff(times_s)))


def cluster_peaks(scores: Array, times_s: Array, level: float, gap_s: float) -> Array:
    """Return the peak of each cluster of scores above a level; clusters lie more than a gap apart."""
    index = np.flatnonzero(scores > level)
    if not len(index):
        return np.array([])
    # Where the scores of one host end and those of another begin, time jumps back.
    first = np.flatnonzero(np.abs(np.diff(times_s[index], prepend=-np.inf)) > gap_s)
    return np.maximum.reduceat(scores[index], first)


def budget_threshold(
    held_out: Array,
    times_s: Array,
    budget_per_day: float,
    margin: float,
    gap_s: float = 1800.0,
    certain: float = np.inf,
) -> Threshold:
    """Return the level that healthy history exceeds as often as the alarm budget allows.

    Parameters
    ----------
    held_out, times_s
        Healthy scores and the time of each in seconds, ascending.
    budget_per_day
        False incidents per host and day that the operator accepts.
    margin
        Over the healthy maximum, where history has too few peaks to tell a tail.
    gap_s
        Alarms closer than this are one.
    certain
        A peak above it is held to be of a fault and uses up nothing of the budget, which is one of false
        incidents. Unless fewer than two peaks are left.

    Notes
    -----
    Peaks over threshold: with ``n = budget · days`` expected events, the n-th largest cluster peak if n is at
    least 5, else the level ``u + σ/ξ ((λ/n)^ξ - 1)`` of a generalised Pareto tail over the 90 % quantile
    ``u`` (Coles 2001, ch. 4), ξ at most 0.5.
    """
    days = watched_s(times_s) / DAY_S
    # Where windows are dense, a low level joins all of them to one cluster: take the level that tells most
    # apart.
    levels = [float(np.quantile(held_out, q)) for q in (0.9, 0.95, 0.98, 0.99, 0.995, 0.999)]
    start = max(levels, key=lambda level: len(cluster_peaks(held_out, times_s, level, gap_s)))
    peaks = np.sort(cluster_peaks(held_out, times_s, start, gap_s))[::-1]
    if (peaks <= certain).sum() >= 2:
        peaks = peaks[peaks <= certain]
    rule = f"{budget_per_day:g} false incidents per host and day over {days:.1f} days of history"
    expected = budget_per_day * days
    if expected >= 5 and len(peaks) >= expected:
        return Threshold(float(peaks[int(expected) - 1]), rule, provisional=False)
    excess: NDArray[np.float64] = peaks - start
    if len(excess) < 2:
        return margin_threshold(held_out, watched_s(times_s), margin)
    mean, variance = float(excess.mean()), float(excess.var())
    # Moments (Hosking and Wallis 1987): ξ = (1 - mean²/variance) / 2, σ = mean (1 - ξ).
    shape = float(np.clip(0.5 * (1.0 - mean**2 / variance), 0.0, 0.5)) if variance > 0 else 0.0
    scale = mean * (1.0 - shape)
    ratio = len(peaks) / max(expected, 1e-9)
    rise = scale * np.log(ratio) if shape < 1e-6 else scale / shape * (ratio**shape - 1.0)
    return Threshold(start + max(float(rise), 0.0), rule, provisional=False)


def choose_threshold(
    held_out: Array,
    times_s: Array,
    *,
    rule: str,
    margin: float,
    percentile: float,
    budget_per_day: float,
    certain: float = np.inf,
) -> Threshold:
    """Return the threshold by a rule: ``percentile``, or ``budget``; that is a margin with less than a day.

    Raises
    ------
    UsageError
        If the rule is not known.
    """
    if rule == "percentile":
        return percentile_threshold(held_out, percentile)
    if rule != "budget":
        raise UsageError(f"unknown threshold {rule!r}: choose budget or percentile")
    history_s = watched_s(times_s)
    if history_s < DAY_S:
        return margin_threshold(held_out, history_s, margin)
    return budget_threshold(held_out, times_s, budget_per_day, margin, certain=certain)
