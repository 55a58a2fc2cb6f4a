"""Loading a registered model without running code that comes with it, and knowing which to load."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.catalog import fingerprint
from reveal_core.errors import UsageError
from tasks.tracking import ModelRef, Tracking

if TYPE_CHECKING:
    from reveal_core.model import RevealModel

DISTRIBUTION = "reveal-telemetry"
MODEL_FILE = "model.skops"
MAX_UNPACKED = 2**30
"""Bytes that a model may unpack to. A model takes some megabytes; a small file can claim any size."""
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
    IndexError,
    RecursionError,
    RuntimeError,
    zlib.error,
)
"""What skops and zipfile raise for a file that is no model, or is one of another version's classes."""
_ONE_AT_A_TIME = threading.Lock()
MARKS = (" event", " stock")
"""Ends of a metric's meaning in the catalogue that tell how it is judged, not what it is."""


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
    from reveal_core.detect.context import HourContext
    from reveal_core.detect.ensemble import DETECTORS, DetectorEnsemble
    from reveal_core.detect.plugin import PluginDetector, outlier_class
    from reveal_core.detect.scaling import BandScaler
    from reveal_core.model import RevealModel

    parts = [RevealModel, DetectorEnsemble, HourContext, BandScaler, TailCalibration, PluginDetector]
    types = [*parts, *DETECTORS.values(), *(outlier_class(path) for path in plugins)]
    return [*(f"{cls.__module__}.{cls.__qualname__}" for cls in types), *SKLEARN_TYPES]


def plugins_of(profile: Mapping[str, Any]) -> list[str]:
    """Return the detectors of other libraries that a profile names: full paths, but not scikit-learn's."""
    classes = [cls for _, cls, _ in profile["detectors"]]
    return sorted({cls for cls in classes if "." in cls and not cls.startswith("sklearn.")})


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


def load_model(tracking: Tracking, reference: ModelRef, plugins: Iterable[str] = ()) -> RevealModel:
    """Return a registered model.

    Only types that `trusted_types` lists are made; nothing in the file is executed.

    Parameters
    ----------
    tracking, reference
        Where it is registered, and its version.
    plugins
        Detectors of other libraries that it may hold, see `trusted_types`.

    Raises
    ------
    UsageError
        If the file is no model of Reveal's, holds types that this version does not trust, was written by a
        version that keeps models differently, or knows a metric by another meaning.
    UnavailableError
        If MLflow or its artifacts cannot be reached.
    """
    _ = tracking.client
    label = f"model {reference.label} at {tracking.shown}"
    with tempfile.TemporaryDirectory(prefix="reveal-model-") as folder:
        with tracking.expected():
            import mlflow

            found = mlflow.artifacts.download_artifacts(
                artifact_uri=f"models:/{reference.name}/{reference.version}",
                dst_path=folder,
                tracking_uri=tracking.uri,
            )
        _require_schema(Path(found), label)
        model = read_model(Path(found) / MODEL_FILE, label, plugins)
    catalog_notes(model, label)
    return model


@lru_cache(maxsize=8)
def _kept(uri: str, reference: ModelRef, plugins: tuple[str, ...]) -> RevealModel:
    return load_model(Tracking(uri), reference, plugins)


def shared_model(tracking: Tracking, reference: ModelRef, plugins: Iterable[str] = ()) -> RevealModel:
    """Return a registered model as `load_model` does, loaded once in a process.

    A version of a model never changes, and loading takes longer than scoring a host. It is shared by all that
    ask for it, so nobody may change it.
    """
    with _ONE_AT_A_TIME:  # or the first groups of a fleet would all load it at once
        return _kept(tracking.uri, reference, tuple(plugins))


def _require_schema(folder: Path, label: str) -> None:
    """Refuse a model that another version of Reveal keeps in another form, before anything of it is read."""
    from mlflow.exceptions import MlflowException
    from mlflow.models import Model

    from reveal_core.model import SCHEMA

    try:
        metadata = Model.load(str(folder)).metadata or {}
    except (MlflowException, OSError, ValueError, TypeError, AttributeError) as error:
        line = " ".join(str(error).split())
        raise UsageError(f"{label} cannot be read: its MLmodel file: {line}") from error
    made = metadata.get("schema", SCHEMA)
    if made != SCHEMA:
        raise UsageError(
            f"{label} is kept in form {made}, and this version of Reveal reads form {SCHEMA}: "
            "fit it again with reveal fit"
        )


def read_model(path: Path, label: str, plugins: Iterable[str] = ()) -> RevealModel:
    """Return the model of a file; ``label`` names it in messages, ``plugins`` as `load_model` takes them.

    Raises
    ------
    UsageError
        As `load_model`.
    """
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    from reveal_core.model import RevealModel

    if not path.is_file():
        raise UsageError(f"{label} is none of Reveal's: it has no {MODEL_FILE}")
    try:
        with zipfile.ZipFile(path) as archive:
            # zipfile unpacks no more than a member claims, so the claims bound what is read.
            unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > MAX_UNPACKED:
            raise ValueError(f"it would unpack to {unpacked / 2**20:.0f} MiB")
        model = skops.io.load(path, trusted=trusted_types(plugins))
        if isinstance(model, RevealModel) and hasattr(model, "catalog_"):
            # Read once, so that a file with a wrong value inside fails here and not in the midst of scoring.
            _ = model.facts(), dict(model.catalog_), model.features
    except UntrustedTypesFoundException as error:
        raise UsageError(f"{label} holds types that this version does not trust: {error}") from error
    except DAMAGED as error:
        line = " ".join(str(error).split()) or type(error).__name__
        raise UsageError(f"{label} cannot be read: {line}") from error
    if not isinstance(model, RevealModel):
        raise UsageError(f"{label} is none of Reveal's: {type(model).__name__}")
    if not hasattr(model, "catalog_"):
        raise UsageError(f"{label} does not say what its metrics mean: fit it again with reveal fit")
    # A refit takes the model's settings, and a path in them is imported: only the operator's may name one.
    foreign = sorted(set(plugins_of(model.profile)) - set(plugins))
    if foreign:
        raise UsageError(
            f"{label} has a detector {foreign[0]} that the settings of this machine do not name: "
            "add it under method.overrides.detectors"
        )
    return model


def catalog_notes(model: RevealModel, label: str) -> list[str]:
    """Return a sentence for each way in which the catalogue says less or more of the model's metrics now.

    Raises
    ------
    UsageError
        If a metric of the model has another kind, unit or scale now: its figures of it would be wrong.
    """
    from reveal_core.features.rates import CHANGE_SUFFIX

    then = model.catalog_
    now = fingerprint(feature.metric.removesuffix(CHANGE_SUFFIX) for feature in model.features)
    for metric in sorted(set(then) & set(now)):
        if _without_marks(then[metric]) != _without_marks(now[metric]):
            raise UsageError(
                f"{label} knows {metric} as {_without_marks(then[metric])!r} (kind, unit, scale), and the "
                f"catalogue has {_without_marks(now[metric])!r}: fit it again with reveal fit"
            )
    marked = [metric for metric in sorted(set(then) & set(now)) if then[metric] != now[metric]]
    told = (
        (marked, "are judged in another way now (as events or stocks)"),
        (sorted(set(then) - set(now)), "are no longer in the catalogue"),
        (sorted(set(now) - set(then)), "were not yet in the catalogue"),
    )
    return [
        f"The model was fitted with another catalogue: {_some(metrics)} {what}."
        for metrics, what in told
        if metrics
    ]


def _without_marks(meaning: str) -> str:
    """Return a metric's kind, unit and scale.

    >>> _without_marks("gauge B 1 event stock")
    'gauge B 1'
    """
    for mark in reversed(MARKS):
        meaning = meaning.removesuffix(mark)
    return meaning


def _some(names: list[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def reference_dict(reference: ModelRef) -> dict[str, str]:
    """Return a reference as the plain mapping that tasks pass on."""
    return asdict(reference)
