"""What every detector must do, whichever it is; and what sets each apart."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from reveal_core.detect.ensemble import DETECTORS
from reveal_core.detect.excess import ExcessDetector
from reveal_core.detect.forest import IsolationForestDetector
from reveal_core.detect.mahalanobis import PCAMahalanobisDetector
from reveal_core.detect.zscore import ZScoreDetector

ALL = [
    ZScoreDetector(),
    ZScoreDetector(combine="mean", robust=False, clip=None),
    PCAMahalanobisDetector(),
    PCAMahalanobisDetector(kept=0.9),
    IsolationForestDetector(n_estimators=30),
    ExcessDetector(),
]
healthy = np.random.default_rng(0).normal(size=(150, 8))


def expected_failures(estimator):
    """No training window lies beyond the range of the training windows, so none of them can be an outlier."""
    if not isinstance(estimator, ExcessDetector):
        return {}
    reason = "training windows define the range, so none lies beyond it"
    return dict.fromkeys(["check_outliers_fit_predict", "check_outliers_train"], reason)


@parametrize_with_checks(
    [ZScoreDetector(), PCAMahalanobisDetector(), IsolationForestDetector(n_estimators=10), ExcessDetector()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_higher_is_stranger_and_the_contribution_names_the_feature(detector):
    fitted = clone(detector).fit(healthy)
    odd = np.full((1, 8), 3.0)
    odd[0, 3] = 8.0
    assert fitted.anomaly_score(odd)[0] > np.quantile(fitted.anomaly_score(healthy), 0.99)
    assert fitted.contributions(odd)[0].argmax() == 3
    assert (fitted.contributions(healthy) >= 0).all()
    assert fitted.contributions(healthy).shape == healthy.shape


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_the_same_input_gives_the_same_scores(detector):
    first, second = (clone(detector).fit(healthy).anomaly_score(healthy) for _ in range(2))
    assert (first == second).all()


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_a_constant_feature_and_a_single_window_give_finite_scores(detector):
    flat = healthy.copy()
    flat[:, 2] = 5.0
    scores = clone(detector).fit(flat).anomaly_score(flat[:1] + 1)
    assert scores.shape == (1,)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("detector", ALL, ids=repr)
def test_missing_values_and_other_features_are_refused(detector):
    fitted = clone(detector).fit(healthy)
    with pytest.raises(ValueError, match="NaN"):
        fitted.anomaly_score(np.full((1, 8), np.nan))
    with pytest.raises(ValueError, match="features"):
        fitted.anomaly_score(healthy[:, :5])


@pytest.mark.parametrize(
    "detector",
    [
        ZScoreDetector(combine="median"),
        ZScoreDetector(contamination=0.7),
        PCAMahalanobisDetector(ridge=0.0),
        PCAMahalanobisDetector(kept=1.5),
        ExcessDetector(count=0),
    ],
    ids=repr,
)
def test_a_bad_parameter_is_refused_in_fit(detector):
    with pytest.raises(ValueError, match="must"):
        detector.fit(healthy)


def test_every_class_is_listed_where_settings_look():
    assert {type(d) for d in ALL} == set(DETECTORS.values())


def test_mahalanobis_sees_what_leaves_the_correlation():
    a = np.random.default_rng(0).normal(size=300)
    together = np.column_stack([a, a + 0.01 * np.random.default_rng(1).normal(size=300)])
    fitted = PCAMahalanobisDetector(ridge=0.01).fit(together)
    along, across = fitted.anomaly_score([[2.0, 2.0], [1.0, -1.0]])
    assert across > 3 * along
    kept = PCAMahalanobisDetector(kept=0.9, ridge=0.01).fit(together)
    along, across = kept.anomaly_score([[2.0, 2.0], [1.0, -1.0]])
    assert along > across


def test_mahalanobis_with_fewer_windows_than_features_sees_the_directions_it_never_saw():
    few = np.random.default_rng(0).normal(size=(5, 40))
    few[:, 30] = 0.0
    fitted = PCAMahalanobisDetector().fit(few)
    new = few[:1].copy()
    new[0, 30] = 5.0
    assert fitted.anomaly_score(new)[0] > 2 * fitted.anomaly_score(few[:1])[0]


def test_mahalanobis_contributions_sum_to_the_squared_distance():
    fitted = PCAMahalanobisDetector().fit(np.eye(6) + healthy[:6, :6] * 0.0)
    x = np.array([[3.0, 0, 0, 0, 0, 0]])
    assert fitted.contributions(x).sum() == pytest.approx(fitted.anomaly_score(x)[0] ** 2)


def test_excess_is_nothing_inside_the_healthy_range():
    fitted = ExcessDetector(count=3).fit(healthy)
    assert fitted.anomaly_score(healthy).max() == 0.0
    outside = healthy[:1].copy()
    outside[0, :3] = 20.0
    assert fitted.anomaly_score(outside)[0] > 3.0
