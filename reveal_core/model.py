"""The model of what a host looks like while it is healthy, from features to thresholds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from reveal_core.catalog import fingerprint
from reveal_core.catalog.floors import floor_of
from reveal_core.detect.base import Array
from reveal_core.detect.context import HourContext
from reveal_core.detect.contributions import Excursions
from reveal_core.detect.ensemble import DetectorEnsemble
from reveal_core.detect.following import Follower
from reveal_core.detect.fusion import fuse
from reveal_core.detect.threshold import Threshold
from reveal_core.errors import UsageError
from reveal_core.features.pruning import prune
from reveal_core.features.rates import CHANGE_SUFFIX
from reveal_core.profiles import profile_from
from reveal_core.scores import Scores
from reveal_core.selection import is_coverage, matrix, may_wake, select, tells_capacity, tells_failure
from reveal_core.timespec import to_ns
from reveal_core.windows import Feature, Windows

MIN_WINDOWS = 30
"""Fewer healthy windows than this cannot be split into blocks that each say something."""

_FULL_COVERAGE = 0.5
_LOST_SHARE = 0.1
"""Smallest loss of a source's samples that is worth showing."""
SCHEMA = 4
"""Of what a fitted model holds; one of another schema is not loaded."""


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
        The features that move, each as a dict of `Feature`'s fields; the model scales all of them, so that
        pruned ones can still explain.
    context_
        What the hour of the day and of the week does to features; None where the profile does not ask.
    kept_, coverage_, failures_, capacities_
        Columns of ``features_`` that the detectors of signals see, those of coverage, of failures and of
        capacities.
    ensemble_
        Scaler, detectors, calibration and thresholds.
    catalog_
        What the catalogue said of the metrics, as `reveal_core.catalog.fingerprint` tells it.
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
                f"{count} windows of healthy telemetry are too few to learn from: "
                f"at least {MIN_WINDOWS} are needed"
            )
        by_name: dict[str, Feature] = {}
        for w in windows:
            by_name.update({f.name: f for f in w.features})
        signals = select(list(by_name.values()), profile.exclude)
        raw = np.vstack([matrix(frame, signals) for frame in frames])
        events = np.array([profile.keep_events and may_wake(f) for f in signals])
        pruned = prune(raw, signals, events, profile.correlation)
        if not pruned.kept:
            raise UsageError("no signal moves in this telemetry: there is nothing to learn from")
        coverage = [f for f in by_name.values() if is_coverage(f.metric)]
        learned = [*(signals[i] for i in pruned.alive), *coverage]
        self.features_ = [asdict(f) for f in learned]
        self.kept_ = np.flatnonzero(np.isin(pruned.alive, pruned.kept))
        self.coverage_ = np.arange(len(pruned.alive), len(learned))
        self.failures_ = np.array([i for i, f in enumerate(learned) if tells_failure(f)], dtype=np.int64)
        self.capacities_ = np.array([i for i, f in enumerate(learned) if tells_capacity(f)], dtype=np.int64)
        self.groups_ = {name: list(group) for name, group in pruned.groups.items()}
        self.n_considered_ = len(signals)
        self.n_still_ = len(pruned.still)
        self.floors_ = self._floors(learned)
        self.catalog_ = fingerprint(f.metric.removesuffix(CHANGE_SUFFIX) for f in learned)
        delivered = np.vstack([matrix(frame, coverage) for frame in frames])
        X = np.hstack([raw[:, list(pruned.alive)], delivered])
        starts = [f["start"].dt.epoch("ns").to_numpy() for f in frames if f.height]
        times_s = np.concatenate(starts) / 1e9
        self.context_ = self._context(X, times_s) if profile.context else None
        X = self._in_context(X, times_s)
        self.trained_from_ns_ = int(min(s[0] for s in starts))
        self.trained_to_ns_ = int(max(s[-1] for s in starts) + round(profile.window_s * 1e9))
        self.n_windows_ = count
        self.ensemble_ = DetectorEnsemble(
            detectors=profile.detectors,
            floors=self.floors_,
            kept=self.kept_,
            coverage=self.coverage_,
            failures=self.failures_,
            capacities=self.capacities_,
            threshold=profile.threshold,
            margin=profile.margin,
            percentile=profile.percentile,
            alarm_budget=profile.alarm_budget,
            folds=profile.folds,
            trim=profile.trim,
            overlap=max(0, round(profile.window_s / profile.stride_s) - 1),
            seed=self.seed,
        ).fit(X, times_s)
        self.contribution_means_ = self._contribution_means(X)
        return self

    def _context(self, X: Array, times_s: Array) -> HourContext:
        """Learn what hours do to signals; what is lost or fails every night does so all the same."""
        floors = self.floors_.copy()
        floors[[*self.coverage_, *self.failures_, *self.capacities_]] = np.inf
        return HourContext(floors).fit(X, times_s)

    def _in_context(self, X: Array, times_s: Array) -> Array:
        """Return features without what the hour does to them."""
        return X if self.context_ is None else self.context_.transform(X, times_s)

    def _floors(self, features: Sequence[Feature]) -> Array:
        """Smallest scale per feature; one event in a window is a spread of rate/√samples: more room."""
        profile = profile_from(self.profile)
        samples = profile.window_s / 0.1
        floors = []
        for f in features:
            floor = _LOST_SHARE if is_coverage(f.metric) else floor_of(f.metric, f.unit)
            is_rate = f.unit.endswith("/s")
            floors.append(floor * np.sqrt(samples) if f.statistic != "level" and is_rate else floor)
        return np.array(floors, dtype=np.float64)

    def _contribution_means(self, X: Array) -> dict[str, float]:
        means: dict[str, float] = {}
        for column, value in zip(self.kept_, self.ensemble_.contribution_shares(X), strict=True):
            metric = self.features_[column]["metric"]
            means[metric] = means.get(metric, 0.0) + float(value)
        return means

    # scoring

    @property
    def threshold(self) -> Threshold:
        """The threshold of the fused score that the model brings along."""
        ensemble = self.ensemble_
        return Threshold(ensemble.threshold_, ensemble.threshold_rule_, ensemble.provisional_)

    @property
    def history_s(self) -> float:
        """Length of the history that the model learned from, in seconds."""
        return (self.trained_to_ns_ - self.trained_from_ns_) / 1e9

    def learned_within(self, start: datetime, end: datetime) -> bool:
        """Tell whether the model learned from part of a range."""
        return self.trained_from_ns_ < to_ns(end) and to_ns(start) < self.trained_to_ns_

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
        """Return the model's features of a host's windows, NaN where the host has none.

        Raises
        ------
        UsageError
            If the host lacks more than half of them: the model was made for another kind of host.
        """
        names = set(windows.frame.columns)
        missing = [n for n in self.feature_names if n not in names]
        if 2 * len(missing) > len(self.features_):
            raise UsageError(
                f"the model expects other features: {windows.host} lacks {len(missing)} of "
                f"{len(self.features_)}, among them {missing[0]}"
            )
        return matrix(windows.frame, self.features)

    def score_windows(self, windows: Windows, follower: Follower | None = None) -> Scores:
        """Return the scores of a host's windows; one without samples has score 0 and is never anomalous.

        Parameters
        ----------
        windows
            Of one host, in order of time.
        follower
            Sets the threshold from the host's past; without, it is the model's own.
        """
        times = windows.frame["start"].dt.epoch("ns").to_numpy()
        X = self._in_context(self.align(windows), times / 1e9)
        profile = profile_from(self.profile)
        names = tuple(name for name, _, _ in profile.detectors)
        present = windows.frame["coverage"].to_numpy() > 0.0
        members = self.ensemble_.member_scores(X)
        logs = self.ensemble_.log_tails(members)
        fused = np.where(present, fuse(logs), 0.0)
        severity = np.where(present, (members > self.ensemble_.member_thresholds_).sum(axis=1), 0)
        threshold = np.full(len(fused), self.ensemble_.threshold_)
        if follower is not None:
            threshold[present] = follower.thresholds(times[present], fused[present])
        anomalous = severity >= profile.agreement if profile.agreement else fused > threshold
        columns = {
            **{f"score/{n}": members[:, j] for j, n in enumerate(names)},
            **{f"p/{n}": np.exp(-logs[:, j]) for j, n in enumerate(names)},
            "fused": fused,
            "probability": np.exp(-fused),
            "threshold": threshold,
            "severity": severity.astype(np.int64),
            "anomalous": anomalous,
        }
        head = windows.frame.select("start", "end", "coverage")
        return Scores(windows.host, head.with_columns(pl.Series(k, v) for k, v in columns.items()), names)

    def excursions(self, windows: Windows) -> Excursions:
        """Return how far each feature left its healthy band in each window."""
        values = self.align(windows)
        times = windows.frame["start"].dt.epoch("ns").to_numpy()
        X = self._in_context(values, times / 1e9)
        context, scaler = self.context_, self.ensemble_.scaler_
        return Excursions(
            features=self.features,
            start_ns=times,
            values=values,
            z=scaler.transform(X),
            excess=scaler.excess(X),
            low=scaler.low_,
            high=scaler.high_,
            centre=scaler.centre_,
            stands_for={name: tuple(group) for name, group in self.groups_.items()},
            shift=None if context is None else (context.offsets_, context.slots(times / 1e9)),
        )

    def predict(self, X: ArrayLike) -> Array:
        """Return the fused score over its threshold of aligned features, (n_windows,); above 1 alarms."""
        ensemble = self.ensemble_
        members = ensemble.member_scores(np.asarray(X, dtype=np.float64))
        return np.asarray(fuse(ensemble.log_tails(members)) / ensemble.threshold_)

    # what is told about the model

    def facts(self) -> dict[str, Any]:
        """Return what reports and the tracker say of the model, as plain values."""
        return {
            "schema": SCHEMA,
            "profile": self.profile["name"],
            "windows": self.n_windows_,
            "features": len(self.kept_),
            "explaining": len(self.features_),
            "considered": self.n_considered_,
            "pruned": self.n_considered_ - len(self.kept_),
            "still": self.n_still_,
            "trained_from_ns": self.trained_from_ns_,
            "trained_to_ns": self.trained_to_ns_,
            "trimmed": self.ensemble_.n_trimmed_,
            "threshold": self.ensemble_.threshold_,
            "threshold_rule": self.ensemble_.threshold_rule_,
            "provisional": self.ensemble_.provisional_,
            "feature_hash": _digest(self.feature_names),
            "catalog": _digest(self.catalog_),
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
            "threshold": self.ensemble_.threshold_,
            "held_out_score_median": float(np.median(self.ensemble_.held_out_)),
            "held_out_score_p99": float(np.quantile(self.ensemble_.held_out_, 0.99)),
            "held_out_score_max": float(self.ensemble_.held_out_.max()),
        }

    @property
    def validation_scores(self) -> Array:
        """Fused scores of healthy windows by detectors that did not see them, shape (n_windows,)."""
        return np.asarray(self.ensemble_.held_out_)

    @property
    def contribution_means(self) -> dict[str, float]:
        """Mean share of each metric in the detectors' scores of healthy windows."""
        return dict(self.contribution_means_)


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]
