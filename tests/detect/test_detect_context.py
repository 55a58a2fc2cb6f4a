"""What repeats by the hour is taken out, what does not is left."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.detect.context import HOURS_OF_WEEK, HourContext

DAY = 86400
MONDAY = 1_767_571_200
"""2026-01-05 00:00 UTC, a Monday."""


def days(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return two features of some days, a window each minute, and their times."""
    times = MONDAY + np.arange(count * 1440) * 60
    return np.random.default_rng(seed).normal(100.0, 1.0, (len(times), 2)), times


def at(times: np.ndarray, hour: int, weekday: int | None = None) -> np.ndarray:
    since = times - MONDAY
    found = since % DAY // 3600 == hour
    return found if weekday is None else found & (since // DAY % 7 == weekday)


def test_a_nightly_job_is_taken_out_and_its_neighbours_are_left() -> None:
    X, times = days(5)
    X[at(times, 2), 0] += 50.0
    context = HourContext().fit(X, times)
    assert (context.hours_, context.weekly_) == (1, 0)
    later, then = days(1, seed=1)
    later[at(then, 2), 0] += 50.0
    flat = context.transform(later, then)
    assert abs(flat[at(then, 2), 0].mean() - 100.0) < 1.0
    np.testing.assert_array_equal(flat[:, 1], later[:, 1])
    np.testing.assert_array_equal(flat[at(then, 3), 0], later[at(then, 3), 0])


def test_a_fault_at_that_hour_still_stands_out() -> None:
    X, times = days(5)
    X[at(times, 2), 0] += 50.0
    later, then = days(1, seed=1)
    later[at(then, 2), 0] += 90.0
    assert HourContext().fit(X, times).transform(later, then)[at(then, 2), 0].mean() > 135.0


def test_what_happened_on_one_night_does_not_repeat() -> None:
    X, times = days(5)
    X[at(times, 2, weekday=3), 0] += 50.0
    assert not HourContext().fit(X, times).offsets_.any()


def test_two_days_are_too_few() -> None:
    X, times = days(2)
    X[at(times, 2), 0] += 50.0
    assert not HourContext().fit(X, times).offsets_.any()


def test_a_weekly_job_needs_three_weeks_and_leaves_the_other_days() -> None:
    for weeks, found in ((2, 0), (3, 1)):
        X, times = days(7 * weeks)
        X[at(times, 4, weekday=6), 0] += 50.0
        context = HourContext().fit(X, times)
        assert (context.hours_, context.weekly_) == (0, found)
    assert context.offsets_[6 * 24 + 4, 0] == pytest.approx(50.0, abs=1.0)
    assert not context.offsets_[5 * 24 + 4].any()


def test_what_is_not_worth_noticing_is_left_and_a_missing_value_stays_missing() -> None:
    X, times = days(5)
    X[at(times, 2)] += 50.0
    X[:700, 1] = np.nan
    context = HourContext(floors=[60.0, 0.0]).fit(X, times)
    assert not context.offsets_[:, 0].any()
    assert context.offsets_[2, 1] == pytest.approx(50.0, abs=1.0)
    assert np.isnan(context.transform(X, times)[:700, 1]).all()


def test_a_feature_that_was_never_there_has_no_offset() -> None:
    X, times = days(4)
    X[:, 1] = np.nan
    assert HourContext().fit(X, times).offsets_.shape == (HOURS_OF_WEEK, 2)
    assert not HourContext().fit(X, times).offsets_.any()


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(0, 9))
def test_noise_alone_hardly_ever_repeats(count: int, seed: int) -> None:
    X, times = days(count, seed)
    context = HourContext(floors=[0.5, 0.5]).fit(X, times)
    assert not context.offsets_.any()
