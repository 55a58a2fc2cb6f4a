"""Calibration that grows with the history it rests on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.detect.calibration import TailCalibration
from reveal_core.detect.growing import RAREST, as_told, growing_tails


def drifting(seed: int = 0, size: int = 2000) -> np.ndarray:
    """Return scores that rise once, after the first 200."""
    draw = np.random.default_rng(seed).gamma(3.0, size=size)
    return draw + np.where(np.arange(size) < 200, 0.0, 4.0)


def told(values: np.ndarray, first: int, *, every: int, enough: int) -> np.ndarray:
    return as_told(growing_tails(values, first, every=every, enough=enough))


@pytest.mark.parametrize("enough", [0, 499, 500])
def test_a_long_enough_history_is_calibrated_on_once(enough: int) -> None:
    values = drifting()
    once = TailCalibration().fit(values[:500]).log_tail(values)
    (tails,) = growing_tails(values, 500, every=100, enough=enough)
    np.testing.assert_array_equal(tails, once)
    np.testing.assert_array_equal(as_told([tails]), once)


def test_each_stretch_is_calibrated_on_all_before_it_until_there_is_enough() -> None:
    values = drifting()
    tails = growing_tails(values, 500, every=100, enough=650)
    assert [len(part) for part in tails] == [600, 700, 2000]
    for start, part in zip((500, 600, 700), tails, strict=True):
        by_hand = TailCalibration().fit(values[:start])
        np.testing.assert_array_equal(part, by_hand.log_tail(values[: len(part)]))
    together = [tails[0], tails[1][600:], tails[2][700:]]
    np.testing.assert_array_equal(as_told(tails), np.concatenate(together))


def test_a_new_habit_is_no_sensation_for_long() -> None:
    values = drifting()
    still, grown = (told(values, 200, every=100, enough=enough) for enough in (0, 1000))
    np.testing.assert_array_equal(still[:300], grown[:300])
    assert np.median(still[1000:]) > 3.0
    assert np.median(grown[1000:]) < 1.0


def test_a_fault_is_not_learned() -> None:
    values = np.random.default_rng(1).gamma(3.0, size=1000)
    for start in (300, 700):
        values[start : start + 20] += 60.0
    tails = told(values, 200, every=50, enough=900)
    assert tails[300:320].min() > -np.log(RAREST)
    assert tails[700:720].min() > 0.8 * tails[300:320].min()
    learned = TailCalibration().fit(values[:700]).log_tail(values[700:720])
    assert learned.max() < -np.log(RAREST)


@settings(max_examples=15, deadline=None)
@given(st.integers(200, 1999), st.integers(1, 300), st.integers(0, 2500), st.integers(0, 99))
def test_a_score_is_told_by_what_came_before_and_the_same_each_time(
    cut: int, every: int, enough: int, seed: int
) -> None:
    values = drifting(seed)
    later = values.copy()
    later[cut:] += 20.0
    before, after, again = (
        growing_tails(one, 200, every=every, enough=enough) for one in (values, later, values)
    )
    assert as_told(before).tobytes() == as_told(again).tobytes()
    assert len(as_told(before)) == len(before[-1]) == len(values)
    # A stretch that begins before the change is told by a calibration that knows nothing of it.
    start = 200
    for one, two in zip(before, after, strict=True):
        if start <= cut:
            np.testing.assert_array_equal(one[:cut], two[:cut])
        start = len(one)


def test_with_nothing_to_judge_the_held_out_scores_are_calibrated() -> None:
    values = drifting(size=200)
    (tails,) = growing_tails(values, 200, every=100, enough=1000)
    np.testing.assert_array_equal(tails, TailCalibration().fit(values).log_tail(values))
