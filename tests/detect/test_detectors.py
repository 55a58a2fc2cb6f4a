"""What sets each detector apart; what all of them must do is in test_detector_checks."""

import numpy as np
import pytest

from reveal_core.detect.ensemble import make_detector
from reveal_core.detect.excess import ExcessDetector
from reveal_core.detect.mahalanobis import PCAMahalanobisDetector

healthy = np.random.default_rng(0).normal(size=(150, 8))


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


def test_what_draws_at_random_has_the_seed_unless_settings_say_otherwise():
    forest = ("forest", "IsolationForestDetector", ())
    assert make_detector(forest, 5).random_state == 5
    assert make_detector((*forest[:2], (("random_state", 9),)), 5).random_state == 9
