"""Calibration that grows with the history it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from reveal_core.detect.base import Array
from reveal_core.detect.calibration import TailCalibration

RAREST = 1e-5
"""Probability below which a score is held to be of a fault: the next calibration does not learn it. At a
sample a minute a healthy score is that rare once in ten weeks."""


def growing_tails(scores: Array, first: int, *, every: int, enough: int) -> list[Array]:
    """Return -ln of the tail probability of scores, calibrated anew until the history is long enough.

    A calibration on the scores of a day knows neither the other days nor a tail, and calls whatever the next
    days bring a sensation. So it is made again from all scores so far, but for those rarer than `RAREST`,
    until there are enough; then it stands, for one that followed the host for ever would learn its faults.

    Parameters
    ----------
    scores
        Of a detector in order of time, shape (n_samples,).
    first
        Scores before it were held out for the first calibration, whatever they are; at least 2.
    every
        Samples between two calibrations, at least 1.
    enough
        Scores from which on no new one is made; with no more than ``first`` there is one calibration.

    Returns
    -------
    list of Array
        By each calibration in turn, all scores up to the end of the stretch that it judges, shape (end,); at
        least 0, higher is stranger. The first stretch begins at ``first``, each later one where the one
        before ends. A calibration knows scores before its stretch alone. What it says of those is how they
        look by what is known now, as a threshold for its stretch needs them; `as_told` has what was said of
        each when it came.
    """
    calibration = TailCalibration().fit(scores[:first])
    usual = [scores[:first]]
    found: list[Array] = []
    start = first
    while not found or start < len(scores):
        end = min(start + every, len(scores)) if start < enough else len(scores)
        if start > first:
            calibration = TailCalibration().fit(np.concatenate(usual))
        found.append(calibration.log_tail(scores[:end]))
        usual.append(scores[start:end][found[-1][start:] <= -np.log(RAREST)])
        start = end
    return found


def as_told(tails: Sequence[Array]) -> Array:
    """Return what each score was said to be when it came, shape (n_samples,); held-out ones by the first.

    Parameters
    ----------
    tails
        As `growing_tails` gives them, or several detectors' fused.
    """
    pieces = [tails[0]]
    for before, after in pairwise(tails):
        pieces.append(after[len(before) :])
    return np.concatenate(pieces)
