"""What a host does at the same hour of every day or week: no anomaly, however unusual at other hours."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from reveal_core.detect.base import Array

HOUR_S, DAY_S = 3600.0, 86400.0
HOURS_OF_DAY, HOURS_OF_WEEK = 24, 168
_MAD_TO_SIGMA = 1.4826
_THURSDAY = 3
"""The epoch began on a Thursday; weeks here begin on Monday."""


class HourContext(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Takes what an hour of the day, and of the week, does to a feature out of it.

    A nightly backup or a weekly scrub repeats. Only what repeats counts: an hour's deviation from the whole
    must be the same on the days seen, beyond chance, and worth noticing; else nothing is taken out.

    Parameters
    ----------
    floors
        Smallest deviation that is worth taking out, in each feature's unit, shape (n_features,); None for 0.
    least_days, least_weeks
        On so many days must an hour of the day have been seen, and in so many weeks an hour of the week.
    least_windows
        An hour with fewer windows is not looked at.
    beyond
        Standard errors by which the days' median deviation must differ from 0.

    Attributes
    ----------
    offsets_
        Shape (168, n_features): by hour of the week, Monday 00:00 UTC the first; 0 where nothing repeats.
    hours_, weekly_
        How many hours of the day, and of the week, have one.

    Notes
    -----
    For the days d on which hour h was seen, with m_dh the feature's median in that hour of that day less its
    median over all: the offset is the median over d of m_dh if its size exceeds the floor and ``beyond``
    times 1.4826 · MAD / √days · days / (days - 1). The MAD is that of the hour's days, or the median of all
    hours' MADs where that is larger: of three days it can be small by chance. What is left is treated
    likewise by hour of the week.
    """

    def __init__(
        self,
        floors: ArrayLike | None = None,
        *,
        least_days: int = 3,
        least_weeks: int = 3,
        least_windows: int = 30,
        beyond: float = 5.0,
    ) -> None:
        self.floors = floors
        self.least_days = least_days
        self.least_weeks = least_weeks
        self.least_windows = least_windows
        self.beyond = beyond

    def fit(self, X: ArrayLike, times_s: ArrayLike) -> Self:
        """Fit on healthy windows.

        Parameters
        ----------
        X
            Shape (n_windows, n_features), NaN where missing.
        times_s
            Start of each window, seconds since the epoch, shape (n_windows,); in any order.
        """
        values, hours = np.asarray(X, dtype=np.float64), hour_number(times_s)
        self.n_features_in_ = values.shape[1]
        if len(np.unique(hours // HOURS_OF_DAY)) < self.least_days:  # medians of it all would tell nothing
            self.offsets_ = np.zeros((HOURS_OF_WEEK, self.n_features_in_))
            self.hours_ = self.weekly_ = 0
            return self
        cells, medians = _medians_by(values, hours, self.least_windows)
        medians -= np.nan_to_num(_median(values))
        of_day = self._repeated(medians, cells % HOURS_OF_DAY, HOURS_OF_DAY, self.least_days)
        self.hours_ = int(of_day.any(axis=1).sum())
        medians -= of_day[cells % HOURS_OF_DAY]
        of_week = self._repeated(medians, _of_week(cells), HOURS_OF_WEEK, self.least_weeks)
        self.weekly_ = int(of_week.any(axis=1).sum())
        self.offsets_ = np.tile(of_day, (HOURS_OF_WEEK // HOURS_OF_DAY, 1)) + of_week
        return self

    def _repeated(self, medians: Array, slots: NDArray[np.int64], count: int, least: int) -> Array:
        """Return the deviation of each slot that repeats, shape (count, n_features), 0 where none does."""
        floors = 0.0 if self.floors is None else np.asarray(self.floors, dtype=np.float64)
        offsets = np.zeros((count, medians.shape[1]))
        seen = {slot: medians[slots == slot] for slot in np.unique(slots).tolist()}
        seen = {slot: rows for slot, rows in seen.items() if len(rows) >= least}
        if not seen:
            return offsets
        deviations = {slot: _median(rows) for slot, rows in seen.items()}
        spreads = {slot: _MAD_TO_SIGMA * _median(np.abs(seen[slot] - deviations[slot])) for slot in seen}
        usual = _median(np.array(list(spreads.values())))
        for slot, rows in seen.items():
            size = np.abs(deviations[slot])
            few = len(rows) / (len(rows) - 1.0)  # the MAD of few values is too small
            error = few * np.maximum(spreads[slot], usual) / np.sqrt(len(rows))
            repeats = (size > self.beyond * error) & (size > floors)
            offsets[slot] = np.where(repeats, np.nan_to_num(deviations[slot]), 0.0)
        return offsets

    def slots(self, times_s: ArrayLike) -> NDArray[np.int64]:
        """Return the row of `offsets_` of each window, shape (n_windows,)."""
        return _of_week(hour_number(times_s))

    def transform(self, X: ArrayLike, times_s: ArrayLike) -> Array:
        """Return the features without what their hour does to them, shape (n_windows, n_features)."""
        check_is_fitted(self)
        return np.asarray(np.asarray(X, dtype=np.float64) - self.offsets_[self.slots(times_s)])


def hour_number(times_s: ArrayLike) -> NDArray[np.int64]:
    """Return the number of the hour since the epoch that each time lies in."""
    return np.floor(np.asarray(times_s, dtype=np.float64) / HOUR_S).astype(np.int64)


def _of_week(hours: NDArray[np.int64]) -> NDArray[np.int64]:
    return (hours + _THURSDAY * HOURS_OF_DAY) % HOURS_OF_WEEK


def _medians_by(values: Array, keys: NDArray[np.int64], least: int) -> tuple[NDArray[np.int64], Array]:
    """Return the keys with at least so many rows, and the median of each column over the rows of each."""
    order = np.argsort(keys, kind="stable")
    known, begins, counts = np.unique(keys[order], return_index=True, return_counts=True)
    enough = counts >= least
    rows = [
        _median(values[order[begin : begin + count]])
        for begin, count in zip(begins[enough], counts[enough], strict=True)
    ]
    return known[enough], np.array(rows).reshape(-1, values.shape[1])


def _median(values: Array) -> Array:
    """Return the median of each column, NaN where it has no value."""
    if not len(values):
        return np.full(values.shape[1], np.nan)
    found = np.median(values, axis=0)  # NaN where one is missing; of few rows, nanmedian takes long for all
    for column in np.flatnonzero(np.isnan(found)):
        known = values[~np.isnan(values[:, column]), column]
        if len(known):
            found[column] = np.median(known)
    return np.asarray(found)
