"""Any outlier detector of scikit-learn or PyOD behind the detectors' interface, by the name of its class."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from importlib import import_module
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from sklearn.base import OutlierMixin

from reveal_core.detect.base import Array, Contamination, Detector, check_known
from reveal_core.errors import UsageError

CLASS_PATH = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+"
"""What a class path looks like: module and class, with a dot between them."""
DISTRIBUTIONS = {"sklearn": "scikit-learn"}
"""Packages that are installed under another name than they are imported by."""

_BATCH_ROWS = 8192
"""Windows that are scored at once for contributions: 20 MiB of 300 features."""
_FOREIGN = (ValueError, TypeError, ArithmeticError, LookupError, AttributeError, RuntimeError)
"""What code of others raises for parameters or data that it cannot use."""


def outlier_class(path: str) -> type:
    """Return the class that a path names.

    Only a path that whoever runs Reveal wrote into the settings may come here: importing runs code.

    Raises
    ------
    UsageError
        If it cannot be imported, or is no outlier detector.
    """
    module, _, name = path.rpartition(".")
    package = path.partition(".")[0]
    try:
        # What other libraries print must not stand among a command's own output.
        with redirect_stdout(sys.stderr):
            found = getattr(import_module(module), name, None)
    except ModuleNotFoundError as error:
        missing = error.name or module
        if missing != package and path.startswith(f"{missing}."):
            raise UsageError(f"{path} cannot be imported: there is no module {missing}") from error
        needed = missing.partition(".")[0]
        raise UsageError(
            f"{path} cannot be imported: it needs the package {DISTRIBUTIONS.get(needed, needed)}, "
            "which is not installed"
        ) from error
    except ImportError as error:
        raise UsageError(f"{path} cannot be imported: {_line(error)}") from error
    if not isinstance(found, type):
        raise UsageError(f"{path} cannot be imported: {module} has no class {name}")
    if not (issubclass(found, OutlierMixin) or _is_pyod(found)):
        raise UsageError(
            f"{path} is no outlier detector: it has neither scikit-learn's OutlierMixin nor PyOD's "
            "BaseDetector among its bases"
        )
    return found


def _is_pyod(cls: type) -> bool:
    """Tell PyOD's classes, whose scores are higher for what is stranger, by where they come from."""
    return any(
        base.__name__ == "BaseDetector" and base.__module__.partition(".")[0] == "pyod"
        for base in cls.__mro__
    )


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class PluginDetector(Detector):
    """An outlier detector of another library.

    Parameters
    ----------
    class_path
        Full path of a class that derives from scikit-learn's ``OutlierMixin`` or PyOD's ``BaseDetector``.
        Which of the two decides the sign of its scores; nothing is guessed from data.
    parameters
        What its constructor is given, as a mapping or as pairs. ``novelty`` is set where it exists
        (`sklearn.neighbors.LocalOutlierFactor` scores no new windows without it).
    random_state
        Given to the class if it has such a parameter and ``parameters`` does not set it.
    contamination
        Share of the training windows that `predict` calls outliers; the class's own parameter of this name
        belongs to ``parameters``.

    Attributes
    ----------
    plugin_
        The fitted detector.
    sign_
        -1 for scikit-learn, whose scores are lower for what is stranger; 1 for PyOD.
    centre_
        Median of each feature in training, shape (n_features,).

    Notes
    -----
    Contributions are a fallback that suits any detector: how much the score falls when one feature takes its
    median of training, at least 0. Each window is scored once per feature. A detector whose score no longer
    rises far out (Isolation Forest, kernels) gives little to each of several features that moved together.
    """

    costly_contributions: ClassVar[bool] = True

    def __init__(
        self,
        *,
        class_path: Annotated[str, Field(pattern=rf"^{CLASS_PATH}$")] = "sklearn.ensemble.IsolationForest",
        parameters: Mapping[str, Any] | Sequence[tuple[str, Any]] = (),
        random_state: Annotated[int, Field(ge=0)] | None = 0,
        contamination: Contamination = 0.01,
    ) -> None:
        self.class_path = class_path
        self.parameters = parameters
        self.random_state = random_state
        self.contamination = contamination

    def check_parameters(self) -> None:
        """Hold the parameters to what constructor and class allow.

        Raises
        ------
        ValueError
            If one of the detector's own is not what it must be.
        UsageError
            If the class cannot be imported, is no outlier detector or has no such parameter.
        """
        super().check_parameters()
        self._made()

    def _made(self) -> Any:
        cls = outlier_class(self.class_path)
        given = dict(self.parameters)
        known = check_known(cls, given, self.class_path)
        if "novelty" in known and not given.setdefault("novelty", True):
            raise UsageError(f"{self.class_path} scores no new windows unless novelty is true: leave it out")
        if "random_state" in known:
            given.setdefault("random_state", self.random_state)
        try:
            return cls(**given)
        except _FOREIGN as error:
            raise UsageError(f"{self.class_path} cannot be made: {_line(error)}") from error

    def _fit(self, X: Array) -> None:
        plugin = self._made()
        self.sign_ = 1 if _is_pyod(type(plugin)) else -1
        self.centre_ = np.median(X, axis=0)
        try:
            with redirect_stdout(sys.stderr):
                plugin.fit(X)
        except _FOREIGN as error:
            raise UsageError(f"{self.class_path} cannot be fitted: {_line(error)}") from error
        self.plugin_ = plugin
        together = self._score(X)[:3]
        alone = np.concatenate([self._score(x[None]) for x in X[:3]])
        if not np.allclose(together, alone, rtol=1e-6, atol=1e-9):
            raise UsageError(
                f"{self.class_path} cannot be used: its score of a window depends on which others are scored "
                "with it, so the same window would not get the same score again"
            )

    def _score(self, X: Array) -> Array:
        plugin = self.plugin_
        lower = self.sign_ < 0 and hasattr(plugin, "score_samples")
        try:
            scores = (plugin.score_samples if lower else plugin.decision_function)(X)
        except _FOREIGN as error:
            raise UsageError(f"{self.class_path} cannot score: {_line(error)}") from error
        found = self.sign_ * np.asarray(scores, dtype=np.float64).reshape(-1)
        odd = len(X) if len(found) != len(X) else int((~np.isfinite(found)).sum())
        if odd:
            raise UsageError(f"{self.class_path} gave no finite score for {odd} of {len(X)} windows")
        return np.asarray(found)

    def _contributions(self, X: Array) -> Array:
        n_features = X.shape[1]
        each = np.arange(n_features)
        at_once = max(1, _BATCH_ROWS // n_features)
        pieces = []
        for start in range(0, len(X), at_once):
            block = X[start : start + at_once]
            without = np.repeat(block[:, None, :], n_features, axis=1)
            without[:, each, each] = self.centre_
            scores = self._score(without.reshape(-1, n_features)).reshape(len(block), n_features)
            pieces.append(np.maximum(self._score(block)[:, None] - scores, 0.0))
        return np.concatenate(pieces)
