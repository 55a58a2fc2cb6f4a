"""Telemetry that goes missing: found when it is gone, and no weight on faults while it is there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reveal_core.detect.coverage import CoverageDetector
from reveal_core.detect.ensemble import DetectorEnsemble
from reveal_core.detect.fusion import fuse

SIGNALS = (
    ("zscore", "ZScoreDetector", ()),
    ("mahalanobis", "PCAMahalanobisDetector", ()),
    ("excess", "ExcessDetector", (("count", 3),)),
)
COVERAGE = ("coverage", "CoverageDetector", ())
N_SIGNALS, N_SOURCES = 12, 20
shares = st.floats(0.0, 1.0)


def whole(*levels: float) -> NDArray[np.float64]:
    """Return 100 windows of sources that always deliver so much."""
    return np.tile(np.array(levels), (100, 1))


def telemetry(n: int, seed: int = 0) -> NDArray[np.float64]:
    """Return windows of signals, then of the shares that 20 sources delivered: all, or a sample less."""
    draw = np.random.default_rng(seed)
    delivered = 1.0 - draw.choice([0.0, 1 / 30], size=(n, N_SOURCES), p=[0.9, 0.1])
    return np.hstack([draw.normal(size=(n, N_SIGNALS)), delivered])


def fitted(X: NDArray[np.float64], detectors: tuple = (*SIGNALS, COVERAGE), **changes) -> DetectorEnsemble:
    options = {
        "floors": np.full(X.shape[1], 0.1),
        "kept": np.arange(N_SIGNALS),
        "coverage": np.arange(N_SIGNALS, X.shape[1]),
    }
    return DetectorEnsemble(detectors=detectors, **{**options, **changes}).fit(X, np.arange(float(len(X))))


def over_threshold(ensemble: DetectorEnsemble, X: NDArray[np.float64]) -> NDArray[np.float64]:
    return fuse(ensemble.log_tails(ensemble.member_scores(X))) / ensemble.threshold_


def test_the_loss_of_one_source_of_twenty_stands_out() -> None:
    detector = CoverageDetector().fit(whole(*[1.0] * 20))
    X = whole(*[1.0] * 20)[:3]
    X[0, 7] = 0.0
    X[1, :] = 0.0
    assert detector.anomaly_score(X).tolist() == pytest.approx([0.8, 0.8 * np.sqrt(20), 0.0])
    assert detector.contributions(X)[0].argmax() == 7
    assert np.count_nonzero(detector.contributions(X)[0]) == 1


def test_a_source_is_held_to_what_it_delivered_in_training() -> None:
    detector = CoverageDetector().fit(whole(1.0, 0.5, 0.1, np.nan))
    fell = detector.contributions([[0.5, 0.5, 0.5, 0.0], [1.0, 0.0, 0.0, np.nan]]) ** 0.5
    np.testing.assert_allclose(fell, [[0.3, 0, 0, 0], [0, 0.3, 0, 0]], atol=1e-9)


def test_one_gap_in_healthy_history_makes_no_later_one_usual() -> None:
    X = whole(1.0, 1.0)
    X[40:44, 1] = 0.0
    assert CoverageDetector().fit(X).anomaly_score([[1.0, 0.0]])[0] == pytest.approx(0.8)
    X[40:60, 1] = 0.0
    assert CoverageDetector().fit(X).anomaly_score([[1.0, 0.0]])[0] == 0.0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(shares, min_size=3, max_size=3),
    st.lists(st.one_of(shares, st.just(float("nan"))), min_size=3, max_size=3),
    st.integers(0, 2),
    shares,
)
def test_to_lose_more_is_never_less_strange_and_what_a_host_lacks_is_not_judged(usual, now, source, less):
    detector = CoverageDetector().fit(whole(*usual))
    score = detector.anomaly_score([now])[0]
    assert 0.0 <= score <= np.sqrt(3)
    lower = list(now)
    lower[source] = min(less, lower[source]) if not np.isnan(lower[source]) else less
    lost, lacked = detector.anomaly_score([lower])[0], list(now)
    lacked[source] = float("nan")
    assert lost >= score
    assert detector.anomaly_score([lacked])[0] <= score


def test_an_ensemble_gives_coverage_raw_to_the_detector_that_sees_it_and_to_no_other() -> None:
    X = telemetry(150)
    ensemble = fitted(X)
    later = telemetry(20, seed=1)
    lost = later.copy()
    lost[:, N_SIGNALS + 4] = 0.0
    before, after = ensemble.member_scores(later), ensemble.member_scores(lost)
    np.testing.assert_array_equal(after[:, :3], before[:, :3])
    assert (before[:, 3] == 0.0).all()
    np.testing.assert_allclose(after[:, 3], 0.8, atol=0.04)
    assert (ensemble.detectors_[3].usual_ > 0.9).all()


def test_a_source_that_is_lost_whole_is_beyond_the_threshold_by_itself() -> None:
    ensemble = fitted(telemetry(150))
    X = telemetry(40, seed=1)
    X[20:, N_SIGNALS + 4] = 0.0
    ratio = over_threshold(ensemble, X)
    assert ratio[:20].max() < 1.0
    assert ratio[20:].min() > 1.0
    # A few samples fewer are no alarm.
    X[20:, N_SIGNALS + 4] = 0.85
    assert over_threshold(ensemble, X).max() < 1.0


def test_while_nothing_is_missing_faults_stand_to_the_threshold_as_without_the_detector() -> None:
    X = telemetry(150)
    fault = telemetry(30, seed=1)
    fault[:, :3] += np.linspace(0, 20, 30)[:, None]
    with_it, without = fitted(X), fitted(X, SIGNALS)
    np.testing.assert_allclose(over_threshold(with_it, fault), over_threshold(without, fault), rtol=1e-12)
    assert (with_it.log_tails(with_it.member_scores(fault))[:, 3] == 0.0).all()
    assert with_it.n_trimmed_ == without.n_trimmed_


def test_a_gap_in_healthy_history_moves_the_threshold_for_faults_by_little() -> None:
    """The stretch that holds the gap stands out from all the rest, so calibration leaves it out."""
    X = telemetry(150)
    fault = telemetry(30, seed=1)
    fault[:, :3] += np.linspace(5, 20, 30)[:, None]
    before = over_threshold(fitted(X), fault)
    X[70:74, N_SIGNALS + 4] = 0.0
    ratio = over_threshold(fitted(X), fault) / before
    assert ratio.min() > 0.9
    assert ratio.max() < 1.1


def test_without_columns_of_coverage_the_detector_is_left_out() -> None:
    X = telemetry(150)
    later = telemetry(20, seed=1)
    for none in (None, np.empty(0, dtype=np.int64)):
        ensemble = fitted(X, coverage=none)
        assert ensemble.detectors_[3] is None
        assert (ensemble.member_scores(later)[:, 3] == 0.0).all()
        expected = over_threshold(fitted(X, SIGNALS), later)
        np.testing.assert_allclose(over_threshold(ensemble, later), expected, rtol=1e-12)
        assert ensemble.contribution_shares(X).shape == (N_SIGNALS,)
