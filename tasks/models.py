"""Saving a fitted model to MLflow and loading it back without running code that comes with it."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from tasks.figures import contribution_figure, score_histogram
from tasks.tracking import ModelRef, Tracking, run_url, text_params

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

    from reveal_core.model import RevealModel

DISTRIBUTION = "reveal-telemetry"
MODEL_FILE = "model.skops"
SKLEARN_TYPES = (
    "sklearn.tree._tree.Tree",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.metrics._dist_metrics.ChebyshevDistance64",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.metrics._dist_metrics.ManhattanDistance64",
    "sklearn.metrics._dist_metrics.MinkowskiDistance64",
)
"""What scikit-learn's outlier detectors hold beyond the types that skops trusts."""

DAMAGED = (
    zipfile.BadZipFile,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    ImportError,
    EOFError,
    OSError,
)
"""What skops raises for a file that is no model, or is one of another version's classes."""


def trusted_types(plugins: Iterable[str] = ()) -> list[str]:
    """Return the types that a model may hold beyond those that skops trusts by itself.

    The list stands here and not in the model: MLflow reads it from the model's own files, where whoever made
    the model decides what to trust. Outlier detectors of scikit-learn are trusted.

    Parameters
    ----------
    plugins
        Full paths of detectors of other libraries that may be in the model as well. They are imported, so
        they come from the settings of whoever saves or loads it, never from the model.

    Raises
    ------
    UsageError
        If such a class cannot be imported or is no outlier detector.
    """
    from reveal_core.detect.calibration import TailCalibration
    from reveal_core.detect.ensemble import DETECTORS, DetectorEnsemble
    from reveal_core.detect.plugin import PluginDetector, outlier_class
    from reveal_core.detect.scaling import BandScaler
    from reveal_core.model import RevealModel

    own = [RevealModel, DetectorEnsemble, BandScaler, TailCalibration, PluginDetector, *DETECTORS.values()]
    types = [*own, *(outlier_class(path) for path in plugins)]
    return [*(f"{cls.__module__}.{cls.__qualname__}" for cls in types), *SKLEARN_TYPES]


def registered_name(hardware_class: str) -> str:
    """Return the name of the registered model of a hardware class."""
    return f"reveal-{hardware_class}"


def code_version() -> str:
    """Return the version of this code, with the commit where it runs from a checkout."""
    number = version(DISTRIBUTION)
    folder = Path(__file__).resolve().parent
    try:
        found = subprocess.run(
            ["git", "-C", str(folder), "describe", "--always", "--dirty", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return number
    return f"{number}+{found.stdout.strip()}"


def log_fit(
    tracking: Tracking,
    model: RevealModel,
    *,
    hardware_class: str,
    hosts: list[str],
    seed: int,
    promote: bool,
    flow_run_id: str | None,
) -> dict[str, Any]:
    """Log a fit as a run and register its model.

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
    interval = "/".join(
        iso(datetime.fromtimestamp(facts[name] / 1e9, UTC)) for name in ("trained_from_ns", "trained_to_ns")
    )
    experiment_id = tracking.experiment(f"reveal/fit/{hardware_class}")
    client = tracking.client
    with tracking.expected():
        import mlflow

        with mlflow.start_run(
            experiment_id=experiment_id,
            run_name=f"{facts['profile']} {interval.partition('/')[0]}",
            tags={
                "reveal.version": code_version(),
                "reveal.features": facts["feature_hash"],
                "reveal.interval": interval,
                "reveal.seed": str(seed),
                "reveal.hosts": ",".join(hosts)[:5000],
                "reveal.hardware_class": hardware_class,
                "reveal.flow_run_id": flow_run_id or "",
            },
            log_system_metrics=False,
        ) as run:
            run_id = run.info.run_id
            mlflow.log_params(text_params(model.parameters()))
            metrics = {name: float(value) for name, value in model.metrics().items()}
            mlflow.log_metrics(metrics)
            mlflow.log_dict(facts, "facts.json")
            client.log_figure(
                run_id,
                score_histogram(model.validation_scores, facts.get("threshold")),
                "score_histogram.png",
            )
            client.log_figure(run_id, contribution_figure(model.contribution_means), "contributions.png")
            info = _log_model(model)
    reference = tracking.register(registered_name(hardware_class), run_id, info.model_id, promote=promote)
    return {
        "run_id": run_id,
        "model": reference.name,
        "version": reference.version,
        "alias": reference.alias,
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
        skops_trusted_types=trusted_types(),
        signature=signature,
        pip_requirements=[f"{name}=={version(name)}" for name in names],
        metadata=_plain(model.facts()),
    )
    return info


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if isinstance(value, str | int | float | bool)}


def load_model(tracking: Tracking, reference: ModelRef) -> RevealModel:
    """Return a registered model.

    Only types that `trusted_types` lists are made; nothing in the file is executed.

    Raises
    ------
    UsageError
        If the file is no model of Reveal's, or holds types that this version does not trust.
    UnavailableError
        If MLflow or its artifacts cannot be reached.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    from reveal_core.model import RevealModel

    _ = tracking.client
    with tempfile.TemporaryDirectory(prefix="reveal-model-") as folder:
        with tracking.expected():
            import mlflow

            found = mlflow.artifacts.download_artifacts(
                artifact_uri=f"models:/{reference.name}/{reference.version}",
                dst_path=folder,
                tracking_uri=tracking.uri,
            )
        path = Path(found) / MODEL_FILE
        if not path.is_file():
            raise UsageError(
                f"model {reference.label} at {tracking.shown} is none of Reveal's: it has no {MODEL_FILE}"
            )
        try:
            model = skops.io.load(path, trusted=trusted_types())
        except UntrustedTypesFoundException as error:
            raise UsageError(
                f"model {reference.label} at {tracking.shown} holds types that this version does not trust: "
                f"{error}"
            ) from error
        except DAMAGED as error:
            raise UsageError(
                f"model {reference.label} at {tracking.shown} cannot be read: {error}"
            ) from error
    if not isinstance(model, RevealModel):
        raise UsageError(
            f"model {reference.label} at {tracking.shown} is none of Reveal's: {type(model).__name__}"
        )
    return model


def reference_dict(reference: ModelRef) -> dict[str, str]:
    """Return a reference as the plain mapping that tasks pass on."""
    return asdict(reference)
