"""Detectors and thresholds that follow a host: nothing from the future, and the rate that was asked for."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.detect.following import following_threshold, refitted_scores
from reveal_core.detect.mahalanobis import PCAMahalanobisDetector
from reveal_core.detect.threshold import DAY_S, budget_threshold, cluster_peaks


def scores_of(X: np.ndarray, first: int, every: int = 50, memory: int = 200) -> np.ndarray:
    return refitted_scores(
        X, first, every=every, memory=memory, floors=np.full(X.shape[1], 0.01), make=PCAMahalanobisDetector
    )


def test_slow_drift_is_followed_and_a_jump_is_not() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(2000, 4)) + np.linspace(0, 30, 2000)[:, None]
    scores = scores_of(X, 200)
    assert np.median(scores[-500:]) < 2.5 * np.median(scores[:500])
    jumped = X.copy()
    jumped[1500] += 40.0
    assert scores_of(jumped, 200)[1300] > 2.0 * scores.max()


@settings(max_examples=20, deadline=None)
@given(cut=st.integers(210, 600), every=st.integers(20, 90), seed=st.integers(0, 5))
def test_scores_do_not_depend_on_what_comes_later(cut: int, every: int, seed: int) -> None:
    X = np.random.default_rng(seed).normal(size=(600, 3))
    later = X.copy()
    later[cut:] += 7.0
    known = cut - 200
    np.testing.assert_array_equal(scores_of(X, 200, every)[:known], scores_of(later, 200, every)[:known])


def test_the_rate_of_alarms_is_what_was_asked_for_while_the_host_changes() -> None:
    draw = np.random.default_rng(1)
    days, per_day = 24, 288
    times = np.arange(days * per_day) * DAY_S / per_day
    # The scores' scale doubles over the month: a threshold from the first week would flag ever more.
    scores = draw.exponential(size=len(times)) * np.linspace(1, 2, len(times))
    first = 4 * per_day
    follows = following_threshold(scores, times, first, budget_per_day=2.0)
    assert len(follows) == len(scores) - first
    over = scores[first:] > follows
    alarms = len(cluster_peaks(over.astype(float), times[first:], 0.5, 1800.0))
    assert 1.0 < alarms / (days - 4) < 3.5
    fixed = budget_threshold(scores[:first], times[:first], 2.0, 1.5).value
    stays = len(cluster_peaks((scores[first:] > fixed).astype(float), times[first:], 0.5, 1800.0))
    assert stays > alarms


@settings(max_examples=15, deadline=None)
@given(cut=st.integers(900, 1400), seed=st.integers(0, 5))
def test_a_threshold_knows_nothing_of_what_comes_later(cut: int, seed: int) -> None:
    scores = np.random.default_rng(seed).exponential(size=1440)
    times = np.arange(1440) * 300.0
    later = scores.copy()
    later[cut:] *= 10.0
    before = following_threshold(scores, times, 864, budget_per_day=1.0)
    after = following_threshold(later, times, 864, budget_per_day=1.0)
    np.testing.assert_array_equal(before[: cut - 864], after[: cut - 864])
