"""Detectors of other libraries, named in the settings by the path of their class."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.ensemble import IsolationForest

from reveal_core.detect import plugin
from reveal_core.detect.ensemble import DetectorEnsemble, make_detector
from reveal_core.detect.plugin import PluginDetector, outlier_class
from reveal_core.errors import UsageError

healthy = np.random.default_rng(0).normal(size=(200, 6))


class Nearest(OutlierMixin, BaseEstimator):
    """Distance to the nearest training window; with ``among`` also to those that are scored with it."""

    def __init__(self, sign: float = -1.0, among: bool = False, broken: str = "", **others: object) -> None:
        self.sign = sign
        self.among = among
        self.broken = broken

    def fit(self, X, y=None):
        print("fitting")
        if self.broken == "fit":
            raise ValueError("cannot\n  fit")
        self.X_ = X
        self.fitted_ = True
        return self

    def score_samples(self, X):
        if self.broken == "score" and len(X) < 50:
            raise RuntimeError("no memory")
        if self.broken == "nan" and len(X) < 50:
            return np.full(len(X), np.nan)
        known = np.vstack([self.X_, X]) if self.among else self.X_
        return self.sign * np.sqrt(((X[:, None] - known[None]) ** 2).sum(axis=2)).mean(axis=1)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("nearest_windows")
    module.Nearest = Nearest
    module.number = 3
    monkeypatch.setitem(sys.modules, "nearest_windows", module)


def nearest(**parameters: object) -> PluginDetector:
    return PluginDetector(class_path="nearest_windows.Nearest", parameters=parameters)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("sklearn.svm.SVC", "sklearn.svm.SVC is no outlier detector"),
        ("nearest_windows.number", "nearest_windows has no class number"),
        ("sklearn.svm.TwoClassSVM", "sklearn.svm has no class TwoClassSVM"),
        ("sklearn.outliers.Any", "there is no module sklearn.outliers"),
        ("sklearn.svm.OneClassSVM.Inner", "there is no module sklearn.svm.OneClassSVM"),
        ("river_of_no_return.Any", "it needs the package river_of_no_return, which is not installed"),
    ],
)
def test_what_is_no_outlier_detector_is_named(path: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        outlier_class(path)
    assert "\n" not in str(caught.value)


def test_a_library_that_lacks_what_it_needs_itself_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half_there.py").write_text(
        "print('please install more')\nimport sklearn_not_installed.tree\n"
    )
    (tmp_path / "quite_broken.py").write_text("from math import no_such_function\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="needs the package sklearn_not_installed"):
        outlier_class("half_there.Detector")
    with pytest.raises(UsageError, match=r"quite_broken\.Detector cannot be imported: .*no_such_function"):
        outlier_class("quite_broken.Detector")
    assert capsys.readouterr().out == ""


def test_an_uninstalled_scikit_learn_would_be_called_what_it_is_installed_as() -> None:
    assert plugin.DISTRIBUTIONS["sklearn"] == "scikit-learn"


def test_parameters_reach_the_class_and_the_seed_where_it_draws() -> None:
    spec = ("forest", "sklearn.ensemble.IsolationForest", (("n_estimators", 7),))
    fitted = make_detector(spec, 5).fit(healthy)
    assert fitted.plugin_.get_params()["n_estimators"] == 7
    assert fitted.plugin_.random_state == 5
    own = make_detector((*spec[:2], (("random_state", 9),)), 5).fit(healthy)
    assert own.plugin_.random_state == 9
    direct = IsolationForest(n_estimators=7, random_state=5).fit(healthy)
    np.testing.assert_array_equal(fitted.anomaly_score(healthy), -direct.score_samples(healthy))


def test_local_outlier_factor_is_made_to_score_new_windows() -> None:
    lof = make_detector(("lof", "sklearn.neighbors.LocalOutlierFactor", ()), 0).fit(healthy)
    assert lof.plugin_.novelty
    with pytest.raises(UsageError, match=r"detector lof: .*unless novelty is true"):
        make_detector(("lof", "sklearn.neighbors.LocalOutlierFactor", (("novelty", False),)), 0)


@pytest.mark.parametrize(
    ("path", "parameters", "said"),
    [
        ("sklearn.svm.OneClassSVM", {"nuu": 0.1}, "has no parameter 'nuu': choose from cache_size, coef0"),
        ("pyod.models.knn.KNN", {"contamination": 0.9}, "cannot be made: contamination must be in"),
        ("nearest_windows", {}, "String should match pattern"),
    ],
)
def test_parameters_that_a_class_does_not_take_are_named(path: str, parameters: dict, said: str) -> None:
    with pytest.raises((UsageError, ValueError), match=said):
        PluginDetector(class_path=path, parameters=parameters).fit(healthy)


def test_values_that_a_class_refuses_only_when_it_is_fitted_are_one_line_with_the_detectors_name() -> None:
    spec = ("svm", "sklearn.svm.OneClassSVM", (("nu", 3.0),))
    with pytest.raises(UsageError, match=r"detector svm: sklearn.svm.OneClassSVM cannot be fitted: .*'nu'"):
        DetectorEnsemble(detectors=(spec,), floors=np.full(6, 0.1), kept=np.arange(6)).fit(
            healthy, np.arange(200.0)
        )


def test_the_sign_goes_by_the_library_not_by_the_data() -> None:
    pyod = PluginDetector(class_path="pyod.models.kde.KDE").fit(healthy)
    assert pyod.sign_ == 1
    # Whoever gives scores the wrong way round gets them the wrong way round: nothing is guessed.
    odd = nearest(sign=1.0).fit(healthy)
    assert odd.sign_ == -1
    far, near = odd.anomaly_score([[9.0] * 6, [0.0] * 6])
    assert far < near


def test_a_score_that_depends_on_the_others_scored_with_it_is_refused() -> None:
    """As PyOD's COPOD and ECOD do it: the same window would not get the same score again."""
    with pytest.raises(UsageError, match="depends on which others are scored"):
        nearest(among=True).fit(healthy)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("fit", "Nearest cannot be fitted: cannot fit$"),
        ("score", "Nearest cannot score: no memory"),
        ("nan", "Nearest gave no finite score for 1 of 1 windows"),
    ],
)
def test_what_goes_wrong_inside_is_one_line_that_names_the_class(broken: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        nearest(broken=broken).fit(healthy)


def test_what_it_prints_stays_out_of_a_commands_output(capsys: pytest.CaptureFixture[str]) -> None:
    nearest(extra=1).fit(healthy)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "fitting" in captured.err


def test_contributions_are_what_the_score_falls_by_and_do_not_depend_on_the_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted = nearest().fit(healthy)
    X = healthy[:7] * 3
    whole = fitted.contributions(X)
    for i, j in ((0, 0), (3, 5)):
        without = X[i : i + 1].copy()
        without[0, j] = np.median(healthy[:, j])
        falls = fitted.anomaly_score(X[i : i + 1])[0] - fitted.anomaly_score(without)[0]
        assert whole[i, j] == pytest.approx(max(falls, 0.0))
    monkeypatch.setattr(plugin, "_BATCH_ROWS", 13)
    np.testing.assert_allclose(fitted.contributions(X), whole)


def test_an_ensemble_asks_a_costly_detector_about_few_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    found = PluginDetector._contributions

    def counted(self: PluginDetector, X: np.ndarray) -> np.ndarray:
        asked.append(len(X))
        return found(self, X)

    monkeypatch.setattr(PluginDetector, "_contributions", counted)
    detectors = (("z", "ZScoreDetector", ()), ("near", "nearest_windows.Nearest", ()))
    ensemble = DetectorEnsemble(detectors=detectors, floors=np.full(6, 0.1), kept=np.array([0, 1, 4]))
    shares = ensemble.fit(healthy, np.arange(200.0)).contribution_shares(healthy)
    assert asked == [50]
    assert shares.shape == (3,)
    assert shares.sum() == pytest.approx(1.0)
