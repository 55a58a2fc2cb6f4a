"""How long something was counted: since the row before, or over the source's own interval."""

from __future__ import annotations

import numpy as np

from reveal_core.importing.types import NO_TIME, Floats, Ints

ONE_ROW = "counts of a single row: without an interval they are no rates"


class Intervals:
    """Times between the rows of a file, given piece by piece.

    Parameters
    ----------
    usual_s
        The source's own interval; the median of the first piece with two rows or more if not given.
    """

    def __init__(self, usual_s: float | None = None) -> None:
        self.usual_s = usual_s
        self._last = NO_TIME

    def since_last(self, ts: Ints) -> Floats:
        """Return seconds since the row before, shape (n_rows,).

        The usual interval stands where there is no row before, or it is not earlier; NaN where that is not
        known either: a file of one row.
        """
        before = np.concatenate([[self._last], ts[:-1]]) if len(ts) else ts
        told = (ts != NO_TIME) & (before != NO_TIME)
        steps = np.where(told, ts - np.where(told, before, 0), 0)
        forward = steps > 0
        if self.usual_s is None and forward.any():
            self.usual_s = float(np.median(steps[forward])) / 1e9
        known = ts[ts != NO_TIME]
        if len(known):
            self._last = int(ts[-1])
        return np.where(forward, steps / 1e9, np.nan if self.usual_s is None else self.usual_s)

    def usual(self, ts: Ints) -> Floats:
        """Return the usual interval for each row, shape (n_rows,); after `since_last` of the same rows."""
        return np.full(len(ts), np.nan if self.usual_s is None else self.usual_s)
