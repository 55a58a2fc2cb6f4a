"""Stretches of a healthy history that are no measure of health."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from reveal_core.detect.base import Array

STANDS_OUT = 1.5
"""A stretch of history is a spot if its peak exceeds everything outside it so many times."""
FEW_WINDOWS, SHORT_TRIM = 12, 0.15
"""So many windows may be spots however short the history, but not more than this share of it.

Chosen on three recordings of 105 s, two of which hold commands of a few seconds: with 6 % a spot of seven
windows stayed in, and faults that otherwise exceed the threshold three times did not reach it.
"""


def spotless(
    held_out: Array, fused: Callable[[Array, NDArray[np.bool_]], Array], trim: float
) -> NDArray[np.bool_]:
    """Return which windows of history the calibration keeps, shape (n_windows,).

    The strangest stretch goes first, whole: a peak with its neighbours above the 90 % quantile. Then the
    next, judged by what is left, as long as it stands out from the rest by `STANDS_OUT` and no more is left
    out than ``trim`` of the windows; of a short history `FEW_WINDOWS`, which is how many one command of some
    seconds spoils.

    Parameters
    ----------
    held_out
        Scores, shape (n_windows, n_detectors).
    fused
        Calibrates on the windows that are kept and returns the fused score of all.
    trim
        Largest share of the windows to leave out; 0 for none.
    """
    n = len(held_out)
    limit = max(trim * n, min(FEW_WINDOWS, SHORT_TRIM * n)) if trim else 0.0
    kept = np.ones(n, dtype=bool)
    score = fused(held_out, kept)
    while True:
        high = score > np.quantile(score[kept], 0.9)
        first = last = int(np.where(kept, score, -np.inf).argmax())
        while first > 0 and kept[first - 1] and high[first - 1]:
            first -= 1
        while last < n - 1 and kept[last + 1] and high[last + 1]:
            last += 1
        without = kept.copy()
        without[first : last + 1] = False
        if (~without).sum() > limit:
            return kept
        score = fused(held_out, without)
        if score[first : last + 1].max() < STANDS_OUT * score[without].max():
            return kept
        kept = without
