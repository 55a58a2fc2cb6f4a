"""Errors that hardware counts: one is an alarm, and while there is none no fault weighs more or less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reveal_core.detect.ensemble import DetectorEnsemble
from reveal_core.detect.failures import FailureDetector
from reveal_core.detect.fusion import fuse

SIGNALS = (
    ("zscore", "ZScoreDetector", ()),
    ("mahalanobis", "PCAMahalanobisDetector", ()),
    ("forest", "IsolationForestDetector", ()),
    ("excess", "ExcessDetector", (("count", 3),)),
)
FAILURES = ("failures", "FailureDetector", ())
N_SIGNALS, N_COUNTERS = 12, 5
rates = st.floats(0.0, 1000.0)


def quiet(n: int) -> NDArray[np.float64]:
    """Return windows of signals, then of counters of errors that stand still."""
    draw = np.random.default_rng(n)
    return np.hstack([draw.normal(size=(n, N_SIGNALS)), np.zeros((n, N_COUNTERS))])


def fitted(X: NDArray[np.float64], *detectors: tuple) -> DetectorEnsemble:
    return DetectorEnsemble(
        detectors=detectors,
        floors=np.full(X.shape[1], 0.1),
        kept=np.arange(N_SIGNALS),
        failures=np.arange(N_SIGNALS, X.shape[1]),
    ).fit(X, np.arange(float(len(X))))


def over_threshold(ensemble: DetectorEnsemble, X: NDArray[np.float64]) -> NDArray[np.float64]:
    return fuse(ensemble.log_tails(ensemble.member_scores(X))) / ensemble.threshold_


@pytest.mark.parametrize("window_s", [1.0, 3.0, 15.0, 60.0])
def test_one_error_is_beyond_the_threshold_by_itself(window_s: float) -> None:
    ensemble = fitted(quiet(300), *SIGNALS, FAILURES)
    X = quiet(40)
    X[20:, N_SIGNALS + 2] = 1.0 / window_s
    ratio = over_threshold(ensemble, X)
    assert (ratio[:20] < 1.0).all()
    assert (ratio[20:] > 1.0).all()


def test_while_nothing_fails_every_window_keeps_its_place_against_the_threshold() -> None:
    X, later = quiet(300), quiet(80)
    later[50:, :N_SIGNALS] += 3.0
    with_it, without = fitted(X, *SIGNALS, FAILURES), fitted(X, *SIGNALS)
    np.testing.assert_allclose(over_threshold(with_it, later), over_threshold(without, later), rtol=1e-12)


def test_a_host_without_such_counters_has_nothing_to_judge() -> None:
    X = quiet(200)[:, :N_SIGNALS]
    ensemble = fitted(X, *SIGNALS, FAILURES)
    assert (ensemble.member_scores(X)[:, -1] == 0.0).all()


def test_one_error_in_history_makes_no_later_one_usual_but_many_do() -> None:
    X = np.zeros((100, 2))
    X[40:43, 1] = 1 / 3
    assert FailureDetector().fit(X).anomaly_score([[0.0, 1 / 3]])[0] == pytest.approx(20 / 21)
    X[40:60, 1] = 1 / 3
    detector = FailureDetector().fit(X)
    assert detector.anomaly_score([[0.0, 1 / 3], [0.0, 1.0]]).tolist() == pytest.approx([0.0, 40 / 41])


def test_errors_in_history_that_stand_out_do_not_hide_the_next_one() -> None:
    X = quiet(300)
    X[100:103, N_SIGNALS] = 1 / 3
    later = quiet(20)
    later[10:, N_SIGNALS + 1] = 1 / 3
    assert (over_threshold(fitted(X, *SIGNALS, FAILURES), later)[10:] > 1.0).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(rates, min_size=3, max_size=3),
    st.lists(st.one_of(rates, st.just(float("nan"))), min_size=3, max_size=3),
    st.integers(0, 2),
    rates,
)
def test_more_errors_are_never_less_strange_and_what_a_host_lacks_is_not_judged(usual, now, which, more):
    detector = FailureDetector().fit(np.tile(usual, (50, 1)))
    score = detector.anomaly_score([now])[0]
    assert 0.0 <= score < 1.0
    higher, lacked = list(now), list(now)
    higher[which] = max(more, higher[which]) if not np.isnan(higher[which]) else more
    lacked[which] = float("nan")
    assert detector.anomaly_score([higher])[0] >= score
    assert detector.anomaly_score([lacked])[0] <= score
    assert detector.contributions([now]).shape == (1, 3)


def test_what_training_never_had_is_expected_to_be_well() -> None:
    X = np.full((50, 2), np.nan)
    X[:, 0] = 0.0
    assert FailureDetector().fit(X).anomaly_score([[0.0, 1.0]])[0] > 0.9
