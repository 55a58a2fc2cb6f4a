"""Several detectors as one: fitted together, calibrated on windows they did not see, fused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from reveal_core.detect.base import Array, Detector
from reveal_core.detect.calibration import TailCalibration
from reveal_core.detect.excess import ExcessDetector
from reveal_core.detect.forest import IsolationForestDetector
from reveal_core.detect.fusion import fuse
from reveal_core.detect.mahalanobis import PCAMahalanobisDetector
from reveal_core.detect.scaling import BandScaler
from reveal_core.detect.threshold import choose_threshold
from reveal_core.detect.zscore import ZScoreDetector
from reveal_core.errors import UsageError

DETECTORS: dict[str, type[Detector]] = {
    c.__name__: c for c in (ZScoreDetector, PCAMahalanobisDetector, IsolationForestDetector, ExcessDetector)
}

STANDS_OUT = 1.5
"""A stretch of history is a spot if its peak exceeds everything outside it so many times."""
FEW_WINDOWS, SHORT_TRIM = 12, 0.15
"""So many windows may be spots however short the history, but not more than this share of it.

Chosen on three recordings of 105 s, two of which hold commands of a few seconds: with 6 % a spot of seven
windows stayed in, and faults that otherwise exceed the threshold three times did not reach it.
"""

DetectorSpec = tuple[str, str, tuple[tuple[str, Any], ...]]
"""Name, class name and parameters of a detector."""


def make_detector(spec: DetectorSpec, seed: int) -> Detector:
    """Return a detector that is not fitted yet.

    Raises
    ------
    UsageError
        If its class is not known.
    """
    name, cls, parameters = spec
    if cls not in DETECTORS:
        raise UsageError(f"detector {name}: unknown class {cls!r}: choose from {', '.join(DETECTORS)}")
    detector = DETECTORS[cls](**dict(parameters))
    if "random_state" in detector.get_params():
        detector.set_params(random_state=seed)
    return detector


class DetectorEnsemble(BaseEstimator):  # type: ignore[misc]
    """Detectors over scaled features, fused on calibrated tail probabilities.

    Parameters
    ----------
    detectors
        As `DetectorSpec`; classes of `DETECTORS`.
    floors
        Smallest scale of each feature, shape (n_features,).
    kept
        Columns that the detectors see; the scaler sees all.
    threshold, margin, percentile, alarm_budget
        As `reveal_core.detect.threshold.choose_threshold` has them.
    folds, overlap
        Blocks of history for held-out scores, and how many windows beside a block overlap it.
    trim
        Largest share of the history that is left out of the calibration: stretches that stand out from all
        the rest. Healthy history is not spotless, and a shell command or a log rotation would otherwise set
        the measure for faults. The detectors do see these stretches, so that the like of them raises no alarm
        later.
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
        kept = spotless(held_out, self._fused, self.trim)
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

    def _calibrate(self, held_out: Array) -> Array:
        """Calibrate each detector on held-out scores and return the fused ones."""
        self.calibrations_ = [
            TailCalibration(resolution=DETECTORS[cls].resolution).fit(held_out[:, j])
            for j, (_, cls, _) in enumerate(self.detectors)
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

    def _fit_detectors(self, X: Array) -> tuple[BandScaler, list[Detector]]:
        scaler = BandScaler(floors=self.floors).fit(X)
        z = scaler.transform(X)[:, self.kept]
        fitted = []
        for name, cls, parameters in self.detectors:
            fitted.append(make_detector((name, cls, parameters), self.seed).fit(z))
        return scaler, fitted

    def _cross_fit(self, X: Array) -> Array:
        """Scores of each block of history by detectors fitted on the others, shape (n_windows, n_detectors).

        Windows that overlap the block are left out of the fit.
        """
        n = len(X)
        scores = np.zeros((n, len(self.detectors)))
        for block in np.array_split(np.arange(n), max(2, self.folds)):
            outside = np.ones(n, dtype=bool)
            outside[max(0, block[0] - self.overlap) : block[-1] + 1 + self.overlap] = False
            scaler, detectors = self._fit_detectors(X[outside])
            z = scaler.transform(X[block])[:, self.kept]
            scores[block] = np.column_stack([d.anomaly_score(z) for d in detectors])
        return scores

    def member_scores(self, X: Array) -> Array:
        """Return each detector's score, shape (n_windows, n_detectors)."""
        check_is_fitted(self)
        z = self.scaler_.transform(X)[:, self.kept]
        return np.column_stack([d.anomaly_score(z) for d in self.detectors_])

    def log_tails(self, members: Array) -> Array:
        """Return -ln of the calibrated tail probability of each detector's score."""
        check_is_fitted(self)
        return np.column_stack([c.log_tail(members[:, j]) for j, c in enumerate(self.calibrations_)])

    def contribution_shares(self, X: Array) -> Array:
        """Return each kept feature's mean share in the detectors' scores, shape (n_kept,)."""
        check_is_fitted(self)
        z = self.scaler_.transform(X)[:, self.kept]
        total = np.zeros(z.shape[1])
        for detector in self.detectors_:
            part = detector.contributions(z)
            whole = part.sum(axis=1, keepdims=True)
            total += (part / np.where(whole > 0, whole, 1.0)).mean(axis=0)
        return total / len(self.detectors_)


def spotless(
    held_out: Array, fused: Callable[[Array, NDArray[np.bool_]], Array], trim: float
) -> NDArray[np.bool_]:
    """Return which windows of history the calibration keeps, shape (n_windows,).

    The strangest stretch goes first, whole: a peak with its neighbours above the 90 % quantile. Then the
    next, judged by what is left, as long as it stands out from the rest by `STANDS_OUT` and no more is left
    out than ``trim`` of the windows; of a short history `FEW_WINDOWS`, which is how many one command of some
    seconds spoils.

    Parameters
    ----------
    held_out
        Scores, shape (n_windows, n_detectors).
    fused
        Calibrates on the windows that are kept and returns the fused score of all.
    trim
        Largest share of the windows to leave out; 0 for none.
    """
    n = len(held_out)
    limit = max(trim * n, min(FEW_WINDOWS, SHORT_TRIM * n)) if trim else 0.0
    kept = np.ones(n, dtype=bool)
    score = fused(held_out, kept)
    while True:
        high = score > np.quantile(score[kept], 0.9)
        first = last = int(np.where(kept, score, -np.inf).argmax())
        while first > 0 and kept[first - 1] and high[first - 1]:
            first -= 1
        while last < n - 1 and kept[last + 1] and high[last + 1]:
            last += 1
        without = kept.copy()
        without[first : last + 1] = False
        if (~without).sum() > limit:
            return kept
        score = fused(held_out, without)
        if score[first : last + 1].max() < STANDS_OUT * score[without].max():
            return kept
        kept = without
