"""Models that hold detectors of other libraries: saved, loaded, and never a way to import what they name."""

from __future__ import annotations

import sys
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import skops.io
from skops.io.exceptions import UntrustedTypesFoundException

from reveal_core.detect.ensemble import DetectorEnsemble
from reveal_core.detect.plugin import PluginDetector
from reveal_core.errors import UsageError
from tasks.fitting import fit_hosts
from tasks.injecting import evaluate_injected
from tasks.models import load_model, read_model, trusted_types
from tasks.planning import classify_hosts, plan_hosts
from tasks.tracking import Tracking

X = np.random.default_rng(0).normal(size=(120, 5))
SKLEARN = {
    "sklearn.ensemble.IsolationForest": {"n_estimators": 10},
    "sklearn.neighbors.LocalOutlierFactor": {},
    "sklearn.svm.OneClassSVM": {},
    "sklearn.linear_model.SGDOneClassSVM": {},
    "sklearn.covariance.EllipticEnvelope": {},
}


def ensemble(path: str, **parameters: object) -> DetectorEnsemble:
    detectors = (("z", "ZScoreDetector", ()), ("other", path, tuple(parameters.items())))
    return DetectorEnsemble(
        detectors=detectors, floors=np.full(5, 0.1), kept=np.arange(5), coverage=np.array([4])
    ).fit(X, np.arange(120.0))


@pytest.mark.parametrize("path", SKLEARN)
def test_outlier_detectors_of_scikit_learn_are_loaded_without_a_word_in_the_settings(path: str) -> None:
    fitted = ensemble(path, **SKLEARN[path])
    loaded = skops.io.loads(skops.io.dumps(fitted), trusted=trusted_types())
    assert loaded.member_scores(X).tobytes() == fitted.member_scores(X).tobytes()


@pytest.mark.parametrize(
    ("algorithm", "metric"),
    [
        ("brute", "euclidean"),
        ("ball_tree", "euclidean"),
        *(("kd_tree", metric) for metric in ("euclidean", "manhattan", "chebyshev", "minkowski")),
    ],
)
def test_neighbours_are_loaded_however_they_are_found(algorithm: str, metric: str) -> None:
    parameters = {"algorithm": algorithm, "metric": metric, "p": 3}
    fitted = PluginDetector(class_path="sklearn.neighbors.LocalOutlierFactor", parameters=parameters).fit(X)
    loaded = skops.io.loads(skops.io.dumps(fitted), trusted=trusted_types())
    assert loaded.anomaly_score(X).tobytes() == fitted.anomaly_score(X).tobytes()


def test_a_class_of_pyod_is_loaded_only_if_the_settings_of_whoever_loads_name_it() -> None:
    saved = skops.io.dumps(ensemble("pyod.models.knn.KNN"))
    with pytest.raises(UntrustedTypesFoundException, match=r"pyod\.models\.knn\.KNN"):
        skops.io.loads(saved, trusted=trusted_types())
    loaded = skops.io.loads(saved, trusted=trusted_types(["pyod.models.knn.KNN"]))
    assert loaded.member_scores(X).shape == (120, 2)


@pytest.mark.parametrize("path", ["os.system", "subprocess.Popen", "sklearn.svm.SVC"])
def test_settings_cannot_make_anything_else_trusted(path: str) -> None:
    with pytest.raises(UsageError, match=r"no outlier detector|has no class"):
        trusted_types([path])


def test_a_class_that_a_model_names_is_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_by_a_model.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    saved = skops.io.dumps(ensemble("sklearn.ensemble.IsolationForest", n_estimators=5))
    changed = BytesIO()
    with zipfile.ZipFile(BytesIO(saved)) as before, zipfile.ZipFile(changed, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name == "schema.json":
                content = content.replace(b"sklearn.ensemble.IsolationForest", b"named_by_a_model.Detector")
            after.writestr(name, content)
    loaded = skops.io.loads(changed.getvalue(), trusted=trusted_types())
    assert loaded.detectors[1][1] == "named_by_a_model.Detector"
    assert loaded.member_scores(X).shape == (120, 2)
    assert "named_by_a_model" not in sys.modules


def test_what_settings_plug_in_is_fitted_registered_and_loaded_again(fitted_store) -> None:
    store, tracking = str(fitted_store.path), Tracking(fitted_store.tracking_uri)
    detectors = {
        "forest": False,
        "lof": {"class": "sklearn.neighbors.LocalOutlierFactor", "n_neighbors": 10},
        "near": {"class": "pyod.models.knn.KNN"},
    }
    plans = classify_hosts(store, plans=plan_hosts(store, host="*", start=None, end="2026-11-29T20:01:50"))
    fitted = fit_hosts(
        store,
        tracking_uri=fitted_store.tracking_uri,
        hardware_class="test-plugins",
        plans=plans,
        profile="default",
        overrides={"detectors": detectors},
        seed=3,
        promote=False,
        flow_run_id=None,
    )
    reference = tracking.resolve(fitted["model"])
    with pytest.raises(UsageError, match=r"types that this version does not trust: .*pyod\.models\.knn\.KNN"):
        load_model(tracking, reference)
    model = load_model(tracking, reference, ["pyod.models.knn.KNN"])
    names = [name for name, _, _ in model.profile["detectors"]]
    assert names == ["zscore", "mahalanobis", "excess", "coverage", "failures", "capacity", "lof", "near"]
    lof = model.ensemble_.detectors_[6]
    assert lof.plugin_.n_neighbors == 10
    features = np.zeros((3, len(model.feature_names)))
    assert model.ensemble_.member_scores(features).shape == (3, 8)
    judged = {"host": "*", "start": None, "end": None, "model": fitted["model"], "profile": None}
    judged |= {"tracking_uri": fitted_store.tracking_uri, "overrides": {}, "count": 1, "seed": 0}
    with pytest.raises(UsageError, match=r"does not trust: .*pyod\.models\.knn\.KNN"):
        evaluate_injected(store, **judged)
    found = evaluate_injected(store, **judged, plugins=["pyod.models.knn.KNN"])
    assert found["summary"]["injected"] == 1


def test_settings_inside_a_model_name_no_class_that_the_operators_do_not(
    tmp_path: Path, fitted_store
) -> None:
    """A refit takes the profile of the model that drifted, and what a profile names is imported."""
    tracking = Tracking(fitted_store.tracking_uri)
    model = load_model(tracking, tracking.resolve(fitted_store.model["model"]))
    model.profile["detectors"] = [*model.profile["detectors"], ["x", "named_by_a_model.Detector", []]]
    path = tmp_path / "model.skops"
    skops.io.dump(model, path)
    with pytest.raises(UsageError, match=r"named_by_a_model\.Detector that the settings .* do not name"):
        read_model(path, "the model")
