"""What every detector must do, whichever it is: scikit-learn's checks and ours, plug-ins included."""

from __future__ import annotations

import numpy as np
import pytest
import skops.io
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from reveal_core.detect.base import Detector
from reveal_core.detect.capacity import CapacityDetector
from reveal_core.detect.coverage import CoverageDetector
from reveal_core.detect.ensemble import DETECTORS
from reveal_core.detect.excess import ExcessDetector
from reveal_core.detect.failures import FailureDetector
from reveal_core.detect.forest import IsolationForestDetector
from reveal_core.detect.mahalanobis import PCAMahalanobisDetector
from reveal_core.detect.plugin import PluginDetector
from reveal_core.detect.zscore import ZScoreDetector
from reveal_core.errors import UsageError
from tasks.models import trusted_types

FEATURES, MOVED = 8, 3
PYOD = ("pyod.models.kde.KDE", "pyod.models.knn.KNN")
"""Two that need no compiling: Numba takes seconds for others, such as HBOS."""


def plugin(class_path: str, **parameters: object) -> PluginDetector:
    return PluginDetector(class_path=class_path, parameters=tuple(parameters.items()))


OWN = [
    ZScoreDetector(),
    ZScoreDetector(combine="mean", robust=False, clip=None),
    PCAMahalanobisDetector(),
    PCAMahalanobisDetector(kept=0.9),
    IsolationForestDetector(n_estimators=30),
    ExcessDetector(),
    CoverageDetector(),
    FailureDetector(),
    CapacityDetector(),
]
PLUGINS = [
    plugin("sklearn.ensemble.IsolationForest", n_estimators=30),
    plugin("sklearn.neighbors.LocalOutlierFactor", n_neighbors=10),
    plugin("sklearn.svm.OneClassSVM", gamma=0.01, nu=0.1),
    plugin("sklearn.covariance.EllipticEnvelope"),
    *(plugin(path) for path in PYOD),
]
every = pytest.mark.parametrize("detector", [*OWN, *PLUGINS], ids=repr)


def healthy(detector: Detector) -> NDArray[np.float64]:
    """Return training windows as the detector sees them: signals in standard units, or shares of samples."""
    draw = np.random.default_rng(0)
    if detector.sees == "coverage":
        return draw.uniform(0.9, 1.0, size=(150, FEATURES))
    if detector.sees == "failures":
        return np.zeros((150, FEATURES))
    if detector.sees == "capacities":
        return np.full((150, FEATURES), 10.0)
    return draw.normal(size=(150, FEATURES))


def away(detector: Detector) -> float:
    """Return a step from health, ten of which are the furthest: upwards, or down where less is stranger."""
    return {"coverage": -0.1, "capacities": -1.0}.get(detector.sees, 1.0)


def moved(detector: Detector, *far: float) -> NDArray[np.float64]:
    """Return ordinary windows in which one feature has moved so many steps from health."""
    X = np.repeat(np.median(healthy(detector), axis=0)[None], len(far), axis=0)
    X[:, MOVED] += away(detector) * np.array(far)
    return X


def cuts_off(detector: Detector) -> bool:
    """Tell trees: they cut off what lies outermost, so how far out it lies does not matter any more."""
    params = detector.get_params()
    return "IsolationForest" in params.get("class_path", type(detector).__name__)


def expected_failures(detector: Detector) -> dict[str, str]:
    """Return the checks of scikit-learn's that a detector cannot pass, with the reason."""
    reasons = {
        ExcessDetector: "training windows define the range, so none lies beyond it",
        CoverageDetector: "values are shares from 0 to 1, and most of other data is beyond",
        CapacityDetector: "of levels about 0 half are below 0, where nothing can be lost",
    }
    if type(detector) not in reasons:
        return {}
    return dict.fromkeys(["check_outliers_fit_predict", "check_outliers_train"], reasons[type(detector)])


@parametrize_with_checks(
    [
        ZScoreDetector(),
        PCAMahalanobisDetector(),
        IsolationForestDetector(n_estimators=10),
        ExcessDetector(),
        CoverageDetector(),
        FailureDetector(),
        CapacityDetector(),
        plugin("sklearn.neighbors.LocalOutlierFactor", n_neighbors=5),
        plugin("pyod.models.knn.KNN", n_neighbors=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_accepts_it(estimator, check):
    check(estimator)


def test_every_class_that_settings_can_name_is_checked():
    assert {type(d) for d in OWN} == set(DETECTORS.values())


@every
def test_higher_is_stranger(detector):
    fitted = clone(detector).fit(healthy(detector))
    usual, far = fitted.anomaly_score(healthy(detector)), moved(detector, 0.0)
    far += away(detector) * 6.0
    assert fitted.anomaly_score(far)[0] > np.quantile(usual, 0.99)
    assert (fitted.score_samples(far) == -fitted.anomaly_score(far)).all()
    assert fitted.predict(far)[0] == -1
    assert fitted.predict(moved(detector, 0.0))[0] == 1


@every
def test_contributions_name_the_feature_that_moved_and_grow_with_it(detector):
    fitted = clone(detector).fit(healthy(detector))
    usual = fitted.contributions(healthy(detector))
    assert usual.shape == healthy(detector).shape
    assert (usual >= 0).all()
    assert np.isfinite(usual).all()
    near, far = fitted.contributions(moved(detector, 5.0, 9.0))
    assert near.argmax() == far.argmax() == MOVED
    assert far[MOVED] >= near[MOVED] if cuts_off(detector) else far[MOVED] > near[MOVED]


@every
def test_the_same_input_gives_the_same_bytes(detector):
    X = healthy(detector)
    first, second = (clone(detector).fit(X) for _ in range(2))
    assert first.anomaly_score(X).tobytes() == second.anomaly_score(X).tobytes()
    assert first.contributions(X[:20]).tobytes() == second.contributions(X[:20]).tobytes()


@every
def test_a_window_has_the_same_score_whatever_is_scored_with_it(detector):
    X = healthy(detector)
    fitted = clone(detector).fit(X)
    together = fitted.anomaly_score(X)[:20]
    alone = np.concatenate([fitted.anomaly_score(x[None]) for x in X[:20]])
    # A matrix product of one row and of many may differ in the last digit.
    np.testing.assert_allclose(alone, together, rtol=1e-9, atol=1e-12)
    parts = np.concatenate([fitted.contributions(x[None]) for x in X[:5]])
    np.testing.assert_allclose(parts, fitted.contributions(X)[:5], rtol=1e-6, atol=1e-9)


@every
def test_parameters_survive_cloning(detector):
    again = clone(detector)
    assert again is not detector
    assert again.get_params() == detector.get_params()
    assert not hasattr(clone(again.fit(healthy(detector))), "offset_")


@every
def test_a_model_that_was_saved_scores_as_before(detector):
    X = healthy(detector)
    fitted = clone(detector).fit(X)
    loaded = skops.io.loads(skops.io.dumps(fitted), trusted=trusted_types(PYOD))
    assert loaded.anomaly_score(X).tobytes() == fitted.anomaly_score(X).tobytes()
    assert loaded.contributions(X[:5]).tobytes() == fitted.contributions(X[:5]).tobytes()


@every
@pytest.mark.filterwarnings("ignore:The covariance matrix associated to your dataset is not full rank")
@pytest.mark.parametrize("still", [slice(2, 3), slice(None)], ids=["one-still", "all-still"])
def test_features_that_stand_still_give_finite_scores(detector, still):
    X = healthy(detector)
    X[:, still] = 0.95
    if still == slice(None) and "EllipticEnvelope" in repr(detector):
        with pytest.raises(UsageError, match=r"EllipticEnvelope cannot be fitted: .*is equal to 0"):
            clone(detector).fit(X)
        return
    fitted = clone(detector).fit(X)
    X[0] -= 0.9
    assert np.isfinite(fitted.anomaly_score(X)).all()
    assert np.isfinite(fitted.contributions(X[:1])).all()


@every
def test_one_window_is_scored(detector):
    fitted = clone(detector).fit(healthy(detector))
    assert fitted.anomaly_score(healthy(detector)[:1]).shape == (1,)
    assert fitted.contributions(healthy(detector)[:1]).shape == (1, FEATURES)


@every
def test_a_missing_value_is_refused_or_not_judged(detector):
    X = healthy(detector)
    fitted = clone(detector).fit(X)
    X[:, MOVED] = np.nan
    if detector.accepts_missing:
        assert (fitted.anomaly_score(X) == 0).all()
        assert (fitted.contributions(X)[:, MOVED] == 0).all()
        assert np.isfinite(clone(detector).fit(X).anomaly_score(X)).all()
    else:
        for judge in (fitted.anomaly_score, fitted.contributions, clone(detector).fit):
            with pytest.raises(ValueError, match="Input X contains NaN"):
                judge(X)


@every
def test_another_number_of_features_is_refused_with_both_numbers(detector):
    fitted = clone(detector).fit(healthy(detector))
    with pytest.raises(ValueError, match=r"5 features.*8 features"):
        fitted.anomaly_score(healthy(detector)[:, :5])


@pytest.mark.parametrize(
    ("detector", "said"),
    [
        (ZScoreDetector(combine="median"), "combine: Input should be 'rms', 'mean' or 'max', not 'median'"),
        (ZScoreDetector(contamination=0.7), "contamination: Input should be less than 0.5, not 0.7"),
        (ZScoreDetector(robust="yes"), "robust: Input should be a valid boolean, not 'yes'"),
        (PCAMahalanobisDetector(ridge=0.0), "ridge: Input should be greater than 0, not 0.0"),
        (PCAMahalanobisDetector(kept=1.5), "kept: Input should be less than or equal to 1, not 1.5"),
        (
            IsolationForestDetector(n_estimators=True),
            "n_estimators: Input should be a valid integer, not True",
        ),
        (ExcessDetector(count=0), "count: Input should be greater than or equal to 1, not 0"),
        (ExcessDetector(clip=float("nan")), "clip: Input should be a finite number, not nan"),
        (CoverageDetector(floor=1.0), "floor: Input should be less than 1, not 1.0"),
        (PluginDetector(random_state=-1), "random_state: Input should be greater than or equal to 0, not -1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_bad_parameter_is_refused_in_fit(detector, said):
    with pytest.raises(ValueError) as caught:
        detector.fit(healthy(detector))
    assert str(caught.value) == f"{type(detector).__name__}: {said}"
