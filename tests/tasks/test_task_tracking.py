"""MLflow: what is registered, under which alias, and what may be loaded."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from reveal_core.errors import UnavailableError, UsageError
from tasks.fitting import fit_hosts
from tasks.models import load_model
from tasks.planning import classify_hosts, plan_hosts
from tasks.registry import register
from tasks.tracking import ModelRef, Tracking, without_secrets


def fit(fitted_store, hardware_class: str, **options) -> dict:
    store = str(fitted_store.path)
    plans = classify_hosts(store, plans=plan_hosts(store, host="*", start=None, end="2026-11-29T20:01:50"))
    arguments = {
        "profile": "default",
        "overrides": {},
        "seed": 0,
        "promote": False,
        "flow_run_id": "flow-7",
        **options,
    }
    return fit_hosts(
        store, tracking_uri=fitted_store.tracking_uri, hardware_class=hardware_class, plans=plans, **arguments
    )


def test_a_run_holds_what_is_needed_to_know_where_a_model_came_from(fitted_store) -> None:
    import mlflow

    model = fit(fitted_store, "test-run")
    client = Tracking(fitted_store.tracking_uri).client
    run = client.get_run(model["run_id"])
    assert client.get_experiment(run.info.experiment_id).name == "reveal/fit/test-run"
    assert run.data.tags["reveal.interval"] == "2026-11-29T20:00:00.000Z/2026-11-29T20:01:50.000Z"
    assert run.data.tags["reveal.flow_run_id"] == "flow-7"
    assert run.data.tags["reveal.seed"] == "0"
    assert len(run.data.tags["reveal.features"]) == 16
    assert len(run.data.tags["reveal.catalog"]) == 16
    assert run.data.tags["reveal.profile"] == "default"
    assert run.data.tags["reveal.version"]
    assert run.data.params["window_s"] == "3.0"
    assert run.data.metrics["windows"] == model["windows"] > 90
    files = {item.path for item in client.list_artifacts(model["run_id"])}
    assert {"facts.json", "reference.json", "score_histogram.png", "contributions.png"} <= files
    version = client.get_model_version(model["model"], model["version"])
    assert version.tags["reveal.interval"] == run.data.tags["reveal.interval"]
    assert version.tags["reveal.features_count"] == str(model["features"])
    signature = mlflow.models.get_model_info(f"models:/{model['model']}/{model['version']}").signature
    assert len(signature.inputs.inputs) >= model["features"]


def test_a_loaded_model_scores_as_the_fitted_one_did(fitted_store) -> None:
    tracking = Tracking(fitted_store.tracking_uri)
    reference = tracking.resolve(fitted_store.model["model"])
    one, other = (load_model(tracking, reference) for _ in range(2))
    X = np.random.default_rng(0).uniform(0, 100, (5, len(one.feature_names)))
    assert np.array_equal(one.predict(X), other.predict(X))
    assert one.facts()["windows"] == fitted_store.model["windows"]


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("nope", "no model nope@champion"),
        ("nope/3", "no model nope@3"),
        ("", "names no model"),
        ("@champion", "names no model"),
    ],
)
def test_an_unknown_model_is_named_with_those_that_exist(fitted_store, reference: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        Tracking(fitted_store.tracking_uri).resolve(reference)
    if reference.startswith("nope"):
        assert fitted_store.model["model"] in str(caught.value)


def test_a_registry_without_models_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it holds none yet, reveal fit makes one"):
        Tracking(f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}").resolve("reveal-x")


def register_file(fitted_store, name: str, write) -> ModelRef:
    """Register a model of somebody else's making; return its version."""
    import mlflow

    tracking = Tracking(fitted_store.tracking_uri)
    with mlflow.start_run(experiment_id=tracking.experiment("foreign")) as run:
        info = write(mlflow)
    return register(tracking, name, run.info.run_id, info.model_id)


def test_a_model_that_vouches_for_its_own_types_is_not_loaded(fitted_store) -> None:
    from tests_foreign_model import Foreign  # type: ignore[import-not-found]

    reference = register_file(
        fitted_store,
        "foreign-types",
        lambda mlflow: mlflow.sklearn.log_model(
            Foreign(), name="model", pip_requirements=[], skops_trusted_types=["tests_foreign_model.Foreign"]
        ),
    )
    with pytest.raises(UsageError, match="types that this version does not trust"):
        load_model(Tracking(fitted_store.tracking_uri), reference)


def test_a_model_of_another_library_is_refused(fitted_store) -> None:
    from sklearn.linear_model import LinearRegression

    reference = register_file(
        fitted_store,
        "foreign-class",
        lambda mlflow: mlflow.sklearn.log_model(LinearRegression(), name="model", pip_requirements=[]),
    )
    with pytest.raises(UsageError, match="none of Reveal's: LinearRegression"):
        load_model(Tracking(fitted_store.tracking_uri), reference)


def test_a_server_that_is_down_is_told_within_seconds_and_without_its_password() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://me:secret@127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(UnavailableError, match="cannot be reached") as caught:
        _ = Tracking(uri).client
    assert "secret" not in str(caught.value)
    assert without_secrets("sqlite:////a/b.db") == "sqlite:////a/b.db"


def test_a_database_that_is_none_is_one_line(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    database.write_text("no database " * 100)
    with pytest.raises(UnavailableError) as caught:
        _ = Tracking(f"sqlite:///{database}").client
    assert "\n" not in str(caught.value)
