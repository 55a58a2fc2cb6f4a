"""Several detectors as one: fitted together, calibrated on windows they did not see, fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from reveal_core.detect.base import Array, Detector, check_known
from reveal_core.detect.calibration import TailCalibration
from reveal_core.detect.capacity import CapacityDetector
from reveal_core.detect.coverage import CoverageDetector
from reveal_core.detect.excess import ExcessDetector
from reveal_core.detect.failures import FailureDetector
from reveal_core.detect.forest import IsolationForestDetector
from reveal_core.detect.fusion import fuse
from reveal_core.detect.mahalanobis import PCAMahalanobisDetector
from reveal_core.detect.plugin import PluginDetector
from reveal_core.detect.scaling import BandScaler
from reveal_core.detect.spotless import spotless
from reveal_core.detect.threshold import choose_threshold
from reveal_core.detect.zscore import ZScoreDetector
from reveal_core.errors import UsageError

DETECTORS: dict[str, type[Detector]] = {
    c.__name__: c
    for c in (
        ZScoreDetector,
        PCAMahalanobisDetector,
        IsolationForestDetector,
        ExcessDetector,
        CoverageDetector,
        FailureDetector,
        CapacityDetector,
    )
}
"""Reveal's own, by the name that settings give them."""

EXPLAINED_WINDOWS = 50
"""So many windows, evenly spread, tell the contributions of a detector that scores each once per feature."""

DetectorSpec = tuple[str, str, tuple[tuple[str, Any], ...]]
"""Name, class and parameters of a detector; the class by its name in `DETECTORS`, or by its full path."""


def detector_class(spec: DetectorSpec) -> type[Detector]:
    """Return the class that a detector is of; `PluginDetector` for a full path, which is not imported here.

    Raises
    ------
    UsageError
        If it is not known.
    """
    name, cls, _ = spec
    if cls in DETECTORS:
        return DETECTORS[cls]
    if "." in cls:
        return PluginDetector
    raise UsageError(
        f"detector {name}: unknown class {cls!r}: choose from {', '.join(DETECTORS)}, or give the full path "
        "of an outlier detector of scikit-learn or PyOD"
    )


def make_detector(spec: DetectorSpec, seed: int) -> Detector:
    """Return a detector that is not fitted yet.

    Raises
    ------
    UsageError
        If its class is not known or has no such parameters.
    """
    name, path, parameters = spec
    cls = detector_class(spec)
    given = dict(parameters)
    if cls is PluginDetector:
        given = {"class_path": path, "parameters": parameters}
    try:
        if "random_state" in check_known(cls, given, cls.__name__):
            given.setdefault("random_state", seed)
        detector = cls(**given)
        detector.check_parameters()
    except (UsageError, ValueError) as error:
        raise UsageError(f"detector {name}: {error}") from error
    return detector


class DetectorEnsemble(BaseEstimator):  # type: ignore[misc]
    """Detectors over scaled features, fused on calibrated tail probabilities.

    Parameters
    ----------
    detectors
        As `DetectorSpec`.
    floors
        Smallest scale of each feature, shape (n_features,).
    kept
        Columns that detectors of signals see, scaled; the scaler sees all.
    coverage, failures, capacities
        Columns that detectors of coverage, of failures and of capacities see, as they are. With none such a
        detector has nothing to judge: its score is 0 everywhere, which changes no window's place against the
        threshold.
    threshold, margin, percentile, alarm_budget
        As `reveal_core.detect.threshold.choose_threshold` has them.
    folds, overlap
        Blocks of history for held-out scores, and how many windows beside a block overlap it.
    trim
        Largest share of the history that is left out of the calibration: stretches that stand out from all
        the rest, and windows in which the hardware counted an error or could do less than usual. Healthy
        history is not spotless, and a shell command or a log rotation would otherwise set the measure for
        faults. The detectors do see these stretches, so that the like of them raises no alarm later.
    seed
        Of detectors that draw at random.

    Attributes
    ----------
    held_out_
        Fused scores of the training windows by detectors that did not see them, without trimmed ones,
        ascending in time.
    threshold_, threshold_rule_, provisional_
        Of the fused score.
    member_thresholds_
        By the same rule, of each detector alone: beyond it a detector agrees. Shape (n_detectors,).
    """

    def __init__(
        self,
        *,
        detectors: Sequence[DetectorSpec],
        floors: Array,
        kept: NDArray[np.int64],
        coverage: NDArray[np.int64] | None = None,
        failures: NDArray[np.int64] | None = None,
        capacities: NDArray[np.int64] | None = None,
        threshold: str = "budget",
        margin: float = 1.5,
        percentile: float = 99.0,
        alarm_budget: float = 1.0,
        folds: int = 5,
        overlap: int = 2,
        trim: float = 0.06,
        seed: int = 0,
    ) -> None:
        self.detectors = detectors
        self.floors = floors
        self.kept = kept
        self.coverage = coverage
        self.failures = failures
        self.capacities = capacities
        self.threshold = threshold
        self.margin = margin
        self.percentile = percentile
        self.alarm_budget = alarm_budget
        self.folds = folds
        self.overlap = overlap
        self.trim = trim
        self.seed = seed

    def fit(self, X: Array, times_s: Array) -> Self:
        """Fit on healthy windows.

        Parameters
        ----------
        X
            Shape (n_windows, n_features), NaN where missing; in order of time, host after host.
        times_s
            Start of each window in seconds, shape (n_windows,).
        """
        held_out = self._cross_fit(X)
        kept = ~self._failed(held_out)
        kept[kept] = spotless(held_out[kept], self._fused, self.trim)
        self.n_trimmed_ = int((~kept).sum())
        held_out, times_s = held_out[kept], times_s[kept]
        self.held_out_ = self._calibrate(held_out)
        chosen = self._threshold(self.held_out_, times_s)
        self.threshold_, self.threshold_rule_ = chosen.value, chosen.rule
        self.provisional_ = chosen.provisional
        members = [self._threshold(held_out[:, j], times_s).value for j in range(held_out.shape[1])]
        self.member_thresholds_ = np.array(members)
        self.scaler_, self.detectors_ = self._fit_detectors(X)
        return self

    def _failed(self, held_out: Array) -> NDArray[np.bool_]:
        """Return in which windows of history the hardware counted an error, or could do less than usual.

        That is no health, whatever else it was. None, where it is more than ``trim`` allows to leave out:
        then it is this host's habit.
        """
        told = ("failures", "capacities")
        judges = [j for j, spec in enumerate(self.detectors) if detector_class(spec).sees in told]
        failed = np.asarray((held_out[:, judges] > 0.0).any(axis=1))
        return failed if failed.mean() <= self.trim else np.zeros_like(failed)

    def _calibrate(self, held_out: Array) -> Array:
        """Calibrate each detector on held-out scores and return the fused ones."""
        self.calibrations_ = [
            TailCalibration(resolution=detector_class(spec).resolution).fit(held_out[:, j])
            for j, spec in enumerate(self.detectors)
        ]
        return fuse(self.log_tails(held_out))

    def _fused(self, held_out: Array, kept: NDArray[np.bool_]) -> Array:
        self._calibrate(held_out[kept])
        return fuse(self.log_tails(held_out))

    def _threshold(self, scores: Array, times_s: Array) -> Any:
        return choose_threshold(
            scores,
            times_s,
            rule=self.threshold,
            margin=self.margin,
            percentile=self.percentile,
            budget_per_day=self.alarm_budget,
        )

    def _seen(self, scaler: BandScaler, X: Array) -> dict[str, Array]:
        """Return what detectors see of the features, by `Detector.sees`."""
        raw = {"coverage": self.coverage, "failures": self.failures, "capacities": self.capacities}
        return {
            "signals": scaler.transform(X)[:, self.kept],
            **{name: X[:, [] if columns is None else columns] for name, columns in raw.items()},
        }

    def _fit_detectors(self, X: Array) -> tuple[BandScaler, list[Detector | None]]:
        scaler = BandScaler(floors=self.floors).fit(X)
        seen = self._seen(scaler, X)
        fitted: list[Detector | None] = []
        for spec in self.detectors:
            detector = make_detector(spec, self.seed)
            try:
                fitted.append(detector.fit(seen[detector.sees]) if seen[detector.sees].size else None)
            except (UsageError, ValueError) as error:
                raise UsageError(f"detector {spec[0]}: {error}") from error
        return scaler, fitted

    def _scores(self, scaler: BandScaler, detectors: Sequence[Detector | None], X: Array) -> Array:
        seen = self._seen(scaler, X)
        return np.column_stack(
            [np.zeros(len(X)) if d is None else d.anomaly_score(seen[d.sees]) for d in detectors]
        )

    def _cross_fit(self, X: Array) -> Array:
        """Scores of each block of history by detectors fitted on the others, shape (n_windows, n_detectors).

        Windows that overlap the block are left out of the fit.
        """
        n = len(X)
        scores = np.zeros((n, len(self.detectors)))
        for block in np.array_split(np.arange(n), max(2, self.folds)):
            outside = np.ones(n, dtype=bool)
            outside[max(0, block[0] - self.overlap) : block[-1] + 1 + self.overlap] = False
            scores[block] = self._scores(*self._fit_detectors(X[outside]), X[block])
        return scores

    def member_scores(self, X: Array) -> Array:
        """Return each detector's score, shape (n_windows, n_detectors)."""
        check_is_fitted(self)
        return self._scores(self.scaler_, self.detectors_, X)

    def log_tails(self, members: Array) -> Array:
        """Return -ln of the calibrated tail probability of each detector's score."""
        check_is_fitted(self)
        return np.column_stack([c.log_tail(members[:, j]) for j, c in enumerate(self.calibrations_)])

    def contribution_shares(self, X: Array) -> Array:
        """Return each kept feature's mean share in the scores of those that see it, shape (n_kept,)."""
        check_is_fitted(self)
        z = self._seen(self.scaler_, X)["signals"]
        few = z[:: -(-len(z) // EXPLAINED_WINDOWS)]
        shares = []
        for detector in self.detectors_:
            if detector is None or detector.sees != "signals":
                continue
            part = detector.contributions(few if detector.costly_contributions else z)
            whole = part.sum(axis=1, keepdims=True)
            shares.append((part / np.where(whole > 0, whole, 1.0)).mean(axis=0))
        return np.asarray(np.mean(shares, axis=0))
