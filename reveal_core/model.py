"""The model of what a host looks like while it is healthy: features, scaling, detectors, calibration, threshold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from reveal_core.catalog import load_catalog
from reveal_core.catalog.floors import floor_of
from reveal_core.detect.base import Array, Detector
from reveal_core.detect.calibration import TailCalibration
from reveal_core.detect.contributions import Excursions
from reveal_core.detect.excess import ExcessDetector
from reveal_core.detect.forest import IsolationForestDetector
from reveal_core.detect.fusion import fuse
from reveal_core.detect.mahalanobis import PCAMahalanobisDetector
from reveal_core.detect.scaling import BandScaler
from reveal_core.detect.threshold import (
    DAY_S,
    Threshold,
    budget_threshold,
    margin_threshold,
    percentile_threshold,
)
from reveal_core.detect.zscore import ZScoreDetector
from reveal_core.errors import UsageError
from reveal_core.features.pruning import prune
from reveal_core.features.rates import CHANGE_SUFFIX
from reveal_core.profiles import Profile, profile_from
from reveal_core.scores import Scores
from reveal_core.windows import Feature, Windows

DETECTORS: dict[str, type[Detector]] = {
    c.__name__: c for c in (ZScoreDetector, PCAMahalanobisDetector, IsolationForestDetector, ExcessDetector)
}

MIN_WINDOWS = 30
"""Fewer healthy windows than this cannot be split into blocks that each say something."""

_FULL_COVERAGE = 0.5
_SCHEMA = 1


def is_event(metric: str) -> bool:
    """Tell whether a metric is an event that stands still while all is well."""
    known = load_catalog().get(metric)
    return known is not None and known.event


def is_stock(metric: str) -> bool:
    """Tell whether a metric is a stock, which is judged by its change and not by its level."""
    known = load_catalog().get(metric)
    return known is not None and known.stock


def select(features: Sequence[Feature], exclude: Sequence[str]) -> list[Feature]:
    """Return the features that detectors may see: not excluded, and no levels of stocks."""
    return [
        f
        for f in features
        if not any(fnmatchcase(f.metric, pattern) for pattern in exclude)
        and (f.metric.endswith(CHANGE_SUFFIX) or not is_stock(f.metric))
    ]


class RevealModel(BaseEstimator):  # type: ignore[misc]
    """Everything that turns windows of a host into scores.

    Parameters
    ----------
    profile
        `Profile.to_dict()`.
    seed
        Of the Isolation Forest.

    Attributes
    ----------
    features_
        The features that move, each as a dict of `Feature`'s fields; the model scales all of them, so that pruned ones can still explain.
    kept_
        Columns of ``features_`` that the detectors see.
    held_out_
        Fused scores of healthy windows by detectors that did not see them.
    """

    def __init__(self, profile: dict[str, Any], seed: int = 0) -> None:
        self.profile = profile
        self.seed = seed

    # fitting

    def fit(self, windows: Sequence[Windows], y: Any = None) -> Self:
        """Fit on healthy windows of one or several hosts.

        Raises
        ------
        UsageError
            If there are fewer than `MIN_WINDOWS` windows with samples, or no feature moves.
        """
        profile = profile_from(self.profile)
        frames = [w.frame.filter(pl.col("coverage") >= _FULL_COVERAGE) for w in windows]
        count = sum(f.height for f in frames)
        if count < MIN_WINDOWS:
            raise UsageError(
                f"{count} windows of healthy telemetry are too few to learn from: at least {MIN_WINDOWS} are needed"
            )
        by_name: dict[str, Feature] = {}
        for w in windows:
            by_name.update({f.name: f for f in w.features})
        features = select(list(by_name.values()), profile.exclude)
        raw = np.vstack([matrix(frame, features) for frame in frames])
        events = np.array([profile.keep_events and is_event(f.metric) for f in features])
        pruned = prune(raw, features, events, profile.correlation)
        if not pruned.kept:
            raise UsageError("no signal moves in this telemetry: there is nothing to learn from")
        alive = [features[i] for i in pruned.alive]
        self.features_ = [asdict(f) for f in alive]
        self.kept_ = np.flatnonzero(np.isin(pruned.alive, pruned.kept))
        self.groups_ = {name: list(group) for name, group in pruned.groups.items()}
        self.n_considered_ = len(features)
        self.n_still_ = len(pruned.still)
        self.floors_ = self._floors(alive)
        X = raw[:, list(pruned.alive)]
        starts = [f["start"].dt.epoch("ns").to_numpy() for f in frames if f.height]
        self.trained_from_ns_ = int(min(s[0] for s in starts))
        self.trained_to_ns_ = int(max(s[-1] for s in starts) + round(profile.window_s * 1e9))
        self.n_windows_ = count
        held_out = self._cross_fit(X, profile)
        self.calibrations_ = [TailCalibration().fit(held_out[:, j]) for j in range(held_out.shape[1])]
        logs = self._log_tails(held_out)
        self.held_out_ = fuse(logs)
        times_s = np.concatenate(starts) / 1e9
        self._set_thresholds(held_out, times_s, profile)
        self.scaler_, self.detectors_ = self._fit_detectors(X, profile)
        self.contribution_means_ = self._contribution_means(X)
        return self

    def _floors(self, features: Sequence[Feature]) -> Array:
        """Smallest scale per feature; one event in a window is a spread of rate/√samples, so spreads get more room."""
        profile = profile_from(self.profile)
        samples = profile.window_s / 0.1
        floors = []
        for f in features:
            floor = floor_of(f.metric, f.unit)
            is_rate = f.unit.endswith("/s")
            floors.append(floor * np.sqrt(samples) if f.statistic != "level" and is_rate else floor)
        return np.array(floors, dtype=np.float64)

    def _fit_detectors(self, X: Array, profile: Profile) -> tuple[BandScaler, list[Detector]]:
        scaler = BandScaler(floors=self.floors_).fit(X)
        z = scaler.transform(X)[:, self.kept_]
        detectors = []
        for name, cls, parameters in profile.detectors:
            if cls not in DETECTORS:
                raise UsageError(
                    f"detector {name}: unknown class {cls!r}: choose from {', '.join(DETECTORS)}"
                )
            detector = DETECTORS[cls](**dict(parameters))
            if "random_state" in detector.get_params():
                detector.set_params(random_state=self.seed)
            detectors.append(detector.fit(z))
        return scaler, detectors

    def _cross_fit(self, X: Array, profile: Profile) -> Array:
        """Scores of each block of history by detectors fitted on the others, shape (n_windows, n_detectors).

        Windows that overlap the block are left out of the fit.
        """
        n = len(X)
        overlap = max(0, round(profile.window_s / profile.stride_s) - 1)
        scores = np.zeros((n, len(profile.detectors)))
        for block in np.array_split(np.arange(n), max(2, profile.folds)):
            outside = np.ones(n, dtype=bool)
            outside[max(0, block[0] - overlap) : block[-1] + 1 + overlap] = False
            scaler, detectors = self._fit_detectors(X[outside], profile)
            z = scaler.transform(X[block])[:, self.kept_]
            scores[block] = np.column_stack([d.anomaly_score(z) for d in detectors])
        return scores

    def _log_tails(self, scores: Array) -> Array:
        return np.column_stack([c.log_tail(scores[:, j]) for j, c in enumerate(self.calibrations_)])

    def _set_thresholds(self, held_out: Array, times_s: Array, profile: Profile) -> None:
        def choose(scores: Array) -> Threshold:
            if profile.threshold == "percentile":
                return percentile_threshold(scores, profile.percentile)
            if profile.threshold != "budget":
                raise UsageError(f"unknown threshold {profile.threshold!r}: choose budget or percentile")
            if times_s[-1] - times_s[0] < DAY_S:
                return margin_threshold(scores, profile.margin)
            return budget_threshold(scores, times_s, profile.alarm_budget)

        fused = choose(self.held_out_)
        self.threshold_, self.threshold_rule_ = fused.value, fused.rule
        self.provisional_ = fused.provisional
        # A single detector agrees when it alone would raise an alarm by the same rule.
        self.member_thresholds_ = np.array([choose(held_out[:, j]).value for j in range(held_out.shape[1])])

    def _contribution_means(self, X: Array) -> dict[str, float]:
        total = np.zeros(len(self.kept_))
        z = self.scaler_.transform(X)[:, self.kept_]
        for detector in self.detectors_:
            part = detector.contributions(z)
            whole = part.sum(axis=1, keepdims=True)
            total += (part / np.where(whole > 0, whole, 1.0)).mean(axis=0)
        means: dict[str, float] = {}
        for column, value in zip(self.kept_, total / len(self.detectors_), strict=True):
            metric = self.features_[column]["metric"]
            means[metric] = means.get(metric, 0.0) + float(value)
        return means

    # scoring

    @property
    def history_s(self) -> float:
        """Length of the history that the model learned from, in seconds."""
        return (self.trained_to_ns_ - self.trained_from_ns_) / 1e9

    @property
    def features(self) -> tuple[Feature, ...]:
        """The features that the model scales, in order."""
        check_is_fitted(self)
        return tuple(Feature(**f) for f in self.features_)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features that the model sees, in order."""
        return [f["name"] for f in self.features_]

    def align(self, windows: Windows) -> Array:
        """Return the model's features of a host's windows, shape (n_windows, n_features), NaN where the host has none.

        Raises
        ------
        UsageError
            If the host lacks more than half of them: the model was made for another kind of host.
        """
        names = set(windows.frame.columns)
        missing = [n for n in self.feature_names if n not in names]
        if 2 * len(missing) > len(self.features_):
            raise UsageError(
                f"the model expects other features: {windows.host} lacks {len(missing)} of {len(self.features_)}, "
                f"among them {missing[0]}"
            )
        return matrix(windows.frame, self.features)

    def score_matrix(self, X: ArrayLike) -> Bunch:
        """Return member scores, -ln p, fused score and severity of aligned features."""
        check_is_fitted(self)
        z = self.scaler_.transform(X)[:, self.kept_]
        members = np.column_stack([d.anomaly_score(z) for d in self.detectors_])
        logs = self._log_tails(members)
        severity = (members > self.member_thresholds_).sum(axis=1)
        return Bunch(members=members, logs=logs, fused=fuse(logs), severity=severity)

    def score_windows(self, windows: Windows) -> Scores:
        """Return the scores of a host's windows; a window without samples has score 0 and is never anomalous."""
        X = self.align(windows)
        profile = profile_from(self.profile)
        names = tuple(name for name, _, _ in profile.detectors)
        present = windows.frame["coverage"].to_numpy() > 0.0
        result = self.score_matrix(X)
        fused = np.where(present, result.fused, 0.0)
        severity = np.where(present, result.severity, 0)
        if profile.agreement:
            anomalous = severity >= profile.agreement
        else:
            anomalous = fused > self.threshold_
        columns = {
            **{f"score/{n}": result.members[:, j] for j, n in enumerate(names)},
            **{f"p/{n}": np.exp(-result.logs[:, j]) for j, n in enumerate(names)},
            "fused": fused,
            "probability": np.exp(-fused),
            "threshold": np.full(len(fused), self.threshold_),
            "severity": severity.astype(np.int64),
            "anomalous": anomalous,
        }
        head = windows.frame.select("start", "end", "coverage")
        return Scores(windows.host, head.with_columns(pl.Series(k, v) for k, v in columns.items()), names)

    def excursions(self, windows: Windows) -> Excursions:
        """Return how far each feature left its healthy band in each window."""
        X = self.align(windows)
        return Excursions(
            features=self.features,
            start_ns=windows.frame["start"].dt.epoch("ns").to_numpy(),
            values=X,
            z=self.scaler_.transform(X),
            excess=self.scaler_.excess(X),
            low=self.scaler_.low_,
            high=self.scaler_.high_,
            centre=self.scaler_.centre_,
            stands_for={name: tuple(group) for name, group in self.groups_.items()},
        )

    def predict(self, X: ArrayLike) -> Array:
        """Return the fused score over its threshold for aligned features, shape (n_windows,); above 1 is an alarm."""
        return np.asarray(self.score_matrix(X).fused / self.threshold_)

    # what is told about the model

    def facts(self) -> dict[str, Any]:
        """Return what reports and the tracker say of the model, as plain values."""
        return {
            "schema": _SCHEMA,
            "profile": self.profile["name"],
            "windows": self.n_windows_,
            "features": len(self.kept_),
            "explaining": len(self.features_),
            "considered": self.n_considered_,
            "pruned": self.n_considered_ - len(self.kept_),
            "still": self.n_still_,
            "trained_from_ns": self.trained_from_ns_,
            "trained_to_ns": self.trained_to_ns_,
            "threshold": self.threshold_,
            "threshold_rule": self.threshold_rule_,
            "provisional": self.provisional_,
            "feature_hash": hashlib.sha256(json.dumps(self.feature_names).encode()).hexdigest()[:16],
        }

    def parameters(self) -> dict[str, str | float | int | bool]:
        """Return the settings as a tracker's parameters."""
        return {
            key: value if isinstance(value, str | float | int | bool) else json.dumps(value)
            for key, value in {**self.profile, "seed": self.seed}.items()
        }

    def metrics(self) -> dict[str, float]:
        """Return what was measured in fitting as a tracker's metrics."""
        return {
            "windows": float(self.n_windows_),
            "features": float(len(self.kept_)),
            "features_pruned": float(self.n_considered_ - len(self.kept_)),
            "threshold": self.threshold_,
            "held_out_score_median": float(np.median(self.held_out_)),
            "held_out_score_p99": float(np.quantile(self.held_out_, 0.99)),
            "held_out_score_max": float(self.held_out_.max()),
        }

    @property
    def validation_scores(self) -> Array:
        """Fused scores of healthy windows by detectors that did not see them, shape (n_windows,)."""
        return np.asarray(self.held_out_)

    @property
    def contribution_means(self) -> dict[str, float]:
        """Mean share of each metric in the detectors' scores of healthy windows."""
        return dict(self.contribution_means_)


def matrix(frame: pl.DataFrame, features: Sequence[Feature]) -> Array:
    """Return the features as a matrix, shape (n_windows, n_features), NaN where missing."""
    have = set(frame.columns)
    columns: list[NDArray[np.float64]] = [
        frame[f.name].fill_null(float("nan")).to_numpy() if f.name in have else np.full(frame.height, np.nan)
        for f in features
    ]
    return np.column_stack(columns) if columns else np.empty((frame.height, 0))
