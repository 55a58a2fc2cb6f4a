"""What devices can do: a loss is an alarm, and while nothing is lost no fault weighs more or less."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reveal_core.catalog import load_catalog
from reveal_core.detect.capacity import CapacityDetector
from reveal_core.detect.ensemble import DetectorEnsemble
from reveal_core.detect.fusion import fuse

SIGNALS = (
    ("zscore", "ZScoreDetector", ()),
    ("mahalanobis", "PCAMahalanobisDetector", ()),
    ("forest", "IsolationForestDetector", ()),
    ("excess", "ExcessDetector", (("count", 3),)),
)
CAPACITY = ("capacity", "CapacityDetector", ())
N_SIGNALS = 12
USUAL = (16.0, 700.0, 1e11, 1.0)
"""Lanes, watts, bits a second, a flag."""
levels = st.floats(0.0, 1e12)


def quiet(n: int) -> NDArray[np.float64]:
    """Return windows of signals, then of levels that stand still."""
    draw = np.random.default_rng(n)
    return np.hstack([draw.normal(size=(n, N_SIGNALS)), np.tile(USUAL, (n, 1))])


def fitted(X: NDArray[np.float64], *detectors: tuple) -> DetectorEnsemble:
    return DetectorEnsemble(
        detectors=detectors,
        floors=np.full(X.shape[1], 0.1),
        kept=np.arange(N_SIGNALS),
        capacities=np.arange(N_SIGNALS, X.shape[1]),
    ).fit(X, np.arange(float(len(X))))


def over_threshold(ensemble: DetectorEnsemble, X: NDArray[np.float64]) -> NDArray[np.float64]:
    return fuse(ensemble.log_tails(ensemble.member_scores(X))) / ensemble.threshold_


@pytest.mark.parametrize("which", range(len(USUAL)))
@pytest.mark.parametrize("left", [0.0, 0.25, 0.5, 0.75])
def test_what_is_lost_is_beyond_the_threshold_whatever_its_unit(which: int, left: float) -> None:
    X = quiet(40)
    X[20:, N_SIGNALS + which] *= left
    ratio = over_threshold(fitted(quiet(300), *SIGNALS, CAPACITY), X)
    assert (ratio[:20] < 1.0).all()
    assert (ratio[20:] > 1.0).all()


def test_a_strange_stretch_of_history_does_not_hide_a_loss() -> None:
    history = quiet(300)
    history[100:110, :N_SIGNALS] += 40.0
    history[200:204, :N_SIGNALS] -= 25.0
    X = quiet(20)
    X[10:, N_SIGNALS] = 4.0
    ratio = over_threshold(fitted(history, *SIGNALS, CAPACITY), X)
    assert (ratio[:10] < 1.0).all()
    assert (ratio[10:] > 1.0).all()


def test_while_nothing_is_lost_every_window_keeps_its_place_against_the_threshold() -> None:
    X, later = quiet(300), quiet(80)
    later[50:, :N_SIGNALS] += 3.0
    later[60:, N_SIGNALS] = 32.0
    with_it, without = fitted(X, *SIGNALS, CAPACITY), fitted(X, *SIGNALS)
    np.testing.assert_allclose(over_threshold(with_it, later), over_threshold(without, later), rtol=1e-12)


def test_a_loss_in_history_does_not_hide_the_next_one() -> None:
    X = quiet(300)
    X[100:103, N_SIGNALS] = 8.0
    later = quiet(20)
    later[10:, N_SIGNALS + 1] = 350.0
    assert (over_threshold(fitted(X, *SIGNALS, CAPACITY), later)[10:] > 1.0).all()


def test_a_limit_that_is_lowered_now_and_then_is_no_news() -> None:
    X = quiet(200)[:, N_SIGNALS:]
    X[50:70, 1] = 500.0
    detector = CapacityDetector().fit(X)
    assert detector.anomaly_score([[16.0, 500.0, 1e11, 1.0], [16.0, 400.0, 1e11, 1.0]]).tolist() == (
        pytest.approx([0.0, 0.8])
    )


def test_a_host_without_such_levels_has_nothing_to_judge() -> None:
    X = quiet(200)[:, :N_SIGNALS]
    ensemble = fitted(X, *SIGNALS, CAPACITY)
    assert (ensemble.member_scores(X)[:, -1] == 0.0).all()


def test_of_what_training_never_had_nothing_can_be_lost() -> None:
    X = np.full((50, 2), np.nan)
    X[:, 0] = 16.0
    assert CapacityDetector().fit(X).anomaly_score([[16.0, 0.0], [16.0, 3.0]]).tolist() == [0.0, 0.0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(levels, min_size=3, max_size=3),
    st.lists(st.one_of(levels, st.just(float("nan"))), min_size=3, max_size=3),
    st.integers(0, 2),
    levels,
)
def test_less_is_never_less_strange_and_what_a_host_lacks_is_not_judged(usual, now, which, less):
    detector = CapacityDetector().fit(np.tile(usual, (50, 1)))
    score = detector.anomaly_score([now])[0]
    assert 0.0 <= score < 1.0
    lower, lacked = list(now), list(now)
    lower[which] = less if np.isnan(now[which]) else min(less, now[which])
    lacked[which] = float("nan")
    assert detector.anomaly_score([lower])[0] >= score
    assert detector.anomaly_score([lacked])[0] <= score


def test_the_catalogue_marks_levels_that_have_a_unit_of_their_own_and_none_that_counts() -> None:
    marked = [metric for metric in load_catalog().values() if metric.capacity]
    assert {metric.subsystem for metric in marked} >= {"cpu", "gpu", "network"}
    for metric in marked:
        assert metric.kind in ("gauge", "state"), metric.name
        assert not metric.failure, metric.name
        assert not metric.stock, metric.name
        assert metric.minimum is not None, metric.name
        assert metric.minimum >= 0.0, metric.name
