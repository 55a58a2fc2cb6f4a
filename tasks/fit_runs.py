"""The run of a fit in MLflow: where the model came from, its figures, and the model itself, registered."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from reveal_core.incidents import iso
from reveal_core.timespec import from_ns
from tasks.figures import contribution_figure, score_histogram
from tasks.models import DISTRIBUTION, code_version, plugins_of, registered_name, trusted_types
from tasks.registry import register
from tasks.tracking import Tracking, run_url, text_params

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

    from reveal_core.evaluate.reference import Reference
    from reveal_core.model import RevealModel

REFERENCE_FILE = "reference.json"
"""Artifact of a fit's run: how each feature was distributed, which drift is measured against."""


def log_fit(
    tracking: Tracking,
    model: RevealModel,
    reference: Reference,
    *,
    hardware_class: str,
    hosts: list[str],
    seed: int,
    flow_run_id: str | None,
    trigger: str | None,
) -> dict[str, Any]:
    """Log a fit as a run and register its model.

    Parameters
    ----------
    tracking, model, reference
        What was fitted, and how its features were distributed.
    hardware_class, hosts, seed, flow_run_id
        Where it came from.
    trigger
        What the fit was made for, where nobody asked for it by hand: ``drift: ...``.

    Returns
    -------
    dict
        ``run_id``, ``model``, ``version``, ``alias``, ``metrics``, ``run_url``: plain values that a task can
        pass on.

    Raises
    ------
    UnavailableError
        If MLflow does not answer.
    """
    facts = model.facts()
    interval = "/".join(iso(from_ns(facts[name])) for name in ("trained_from_ns", "trained_to_ns"))
    tags = {
        "reveal.version": code_version(),
        "reveal.features": facts["feature_hash"],
        "reveal.catalog": facts["catalog"],
        "reveal.interval": interval,
        "reveal.seed": str(seed),
        "reveal.hosts": ",".join(hosts)[:5000],
        "reveal.hardware_class": hardware_class,
        "reveal.profile": facts["profile"],
        "reveal.flow_run_id": flow_run_id or "",
        "reveal.trigger": (trigger or "")[:1000],
    }
    experiment_id = tracking.experiment(f"reveal/fit/{hardware_class}")
    client = tracking.client
    with tracking.expected():
        import mlflow

        with mlflow.start_run(
            experiment_id=experiment_id,
            run_name=f"{facts['profile']} {interval.partition('/')[0]}",
            tags=tags,
            log_system_metrics=False,
        ) as run:
            run_id = run.info.run_id
            mlflow.log_params(text_params(model.parameters()))
            metrics = {name: float(value) for name, value in model.metrics().items()}
            mlflow.log_metrics(metrics)
            mlflow.log_dict(facts, "facts.json")
            mlflow.log_dict(reference.to_dict(), REFERENCE_FILE)
            client.log_figure(
                run_id,
                score_histogram(model.validation_scores, facts.get("threshold")),
                "score_histogram.png",
            )
            client.log_figure(run_id, contribution_figure(model.contribution_means), "contributions.png")
            info = _log_model(model)
    # The version repeats what a list of versions shows, so that a list needs no look at every run.
    counts = {f"reveal.{name}_count": str(facts[name]) for name in ("features", "windows")}
    version_of_it = register(
        tracking,
        registered_name(hardware_class),
        run_id,
        info.model_id,
        tags={**tags, **counts},
        why=trigger or "a fit",
    )
    return {
        "run_id": run_id,
        "model": version_of_it.name,
        "version": version_of_it.version,
        "alias": version_of_it.alias,
        "metrics": metrics,
        "run_url": run_url(tracking, experiment_id, run_id),
    }


def _log_model(model: RevealModel) -> ModelInfo:
    import mlflow
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    signature = ModelSignature(
        inputs=Schema([ColSpec("double", name, required=False) for name in model.feature_names]),
        outputs=Schema([ColSpec("double")]),
    )
    names = (DISTRIBUTION, "scikit-learn", "skops", "numpy", "polars", "scipy")
    info: ModelInfo = mlflow.sklearn.log_model(
        model,
        name="model",
        serialization_format="skops",
        skops_trusted_types=trusted_types(plugins_of(model.profile)),
        signature=signature,
        pip_requirements=[f"{name}=={version(name)}" for name in names],
        metadata=_plain(model.facts()),
    )
    return info


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float | bool)}
