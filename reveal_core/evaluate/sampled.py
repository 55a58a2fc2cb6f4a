"""The method on telemetry that is sampled by the minute: labelled data sets, a monitoring archive.

Detectors, calibration, fusion and alarm budget are those of 100 ms; the features are those of the samples
before each one, and time is followed: one more detector is fitted anew each day, calibrations are made anew
each day until they rest on a week, and the threshold is set each hour.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from reveal_core import profiles
from reveal_core.detect.base import Array
from reveal_core.detect.ensemble import DetectorSpec, make_detector
from reveal_core.detect.following import following_threshold, refitted_scores
from reveal_core.detect.fusion import fuse
from reveal_core.detect.growing import RAREST, as_told, growing_tails
from reveal_core.detect.scaling import BandScaler
from reveal_core.detect.threshold import DAY_S, percentile_threshold
from reveal_core.errors import UsageError
from reveal_core.features.trailing import change_against, trailing_mean, trailing_spread

MIN_HISTORY = 100
Flags = NDArray[np.bool_]
FUSED = "fusion"
"""Stands among the detectors for all of them together."""
FLOOR_SHARES = {"level": 1.0, "spread": 0.5, "change": 1.0}
"""Smallest scale of each kind of feature, in `SampledProfile.floor`."""


@dataclass(frozen=True)
class Member:
    """A detector of the ensemble.

    Attributes
    ----------
    spec
        Its name, class and parameters, as profiles have them.
    features
        Which of ``level``, ``spread`` and ``change`` it sees.
    daily
        Fitted anew each day on the days before, not once on the history.
    """

    spec: DetectorSpec
    features: tuple[str, ...]
    daily: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return self.spec[0]


@dataclass(frozen=True)
class SampledProfile:
    """Settings of the method for sampled telemetry.

    Attributes
    ----------
    name
        ``default``, or ``paper`` for the publication's detectors and thresholds.
    members
        The detectors.
    level_samples, spread_samples
        Samples that the level is the mean of, and those that each spread is the standard deviation of: a
        short one sees a jump between two samples, a long one what wears on.
    explain_samples
        Samples that the spread which explains an incident is taken over.
    floor
        Smallest scale of level and change; of the spreads it is half. In units of the signals, which the
        data sets give from 0 to 1.
    fitted_share
        Share of the history that detectors are fitted on; the rest calibrates them.
    memory_days
        Days that a detector which is fitted daily learns from.
    calibration_days
        Days of scores that a calibration should rest on: a week has seen each day of it. With less it is made
        anew each day from all scores so far; see `reveal_core.detect.growing`. 0 for one that stands.
    percentile
        Of the held-out scores, as a fixed threshold; None for one that follows the alarm budget.
    agreement
        0: the fused score decides. Above: that many detectors must be beyond their own threshold.
    """

    name: str
    members: tuple[Member, ...]
    level_samples: int = 3
    spread_samples: tuple[int, ...] = (3, 10, 30)
    explain_samples: int = 3
    floor: float = 0.01
    fitted_share: float = 0.7
    memory_days: float = 5.0
    calibration_days: float = 7.0
    percentile: float | None = None
    agreement: int = 0


_LEVEL, _SPREAD = ("level",), ("level", "spread")
_CHANGE = ("level", "spread", "change")
DEFAULT = SampledProfile(
    "default",
    (
        Member(("zscore", "ZScoreDetector", ()), _CHANGE),
        Member(("mahalanobis", "PCAMahalanobisDetector", ()), _SPREAD),
        Member(("mahalanobis_change", "PCAMahalanobisDetector", ()), _CHANGE),
        # Of as many features, a forest of 100 trees leaves a point of recall to its seed.
        Member(("forest", "IsolationForestDetector", (("n_estimators", 400),)), _SPREAD),
        Member(("mahalanobis_daily", "PCAMahalanobisDetector", ()), _SPREAD, daily=True),
    ),
)
PAPER = SampledProfile(
    "paper",
    tuple(Member(spec, _LEVEL) for spec in profiles.PAPER.detectors),
    level_samples=1,
    calibration_days=0.0,
    percentile=profiles.PAPER.percentile,
    agreement=profiles.PAPER.agreement,
)
SAMPLED_PROFILES: tuple[SampledProfile, ...] = (DEFAULT, PAPER)
"""Both the same for every server of every data set."""


def sampled_profile(name: str) -> SampledProfile:
    """Return a profile by name.

    Raises
    ------
    UsageError
        If it is not known.
    """
    for profile in SAMPLED_PROFILES:
        if profile.name == name:
            return profile
    known = ", ".join(profile.name for profile in SAMPLED_PROFILES)
    raise UsageError(f"unknown profile {name!r}: choose from {known}")


@dataclass(frozen=True)
class SampledScores:
    """Scores by name of the detector, `FUSED` the last; higher is stranger.

    Attributes
    ----------
    test
        Of the samples that are judged, each of shape (n_test,).
    held_out
        Of the part of the history that detectors were calibrated on and not fitted on.
    excursions
        How far each metric's spread over the last few samples is from what is usual for it, in standard
        units, shape (n_test, n_metrics): what explains an incident.
    recalibrated
        Fused scores by each day's calibrations in turn: of the held-out samples and all that came up to the
        end of that day, shape (n_until_then,). The threshold of a day is set on its own.
    """

    test: dict[str, Array]
    held_out: dict[str, Array]
    excursions: Array = field(repr=False)
    recalibrated: tuple[Array, ...] = field(repr=False)


def score_sampled(
    history: Array, test: Array, period_s: float, profile: SampledProfile = DEFAULT, *, seed: int = 0
) -> SampledScores:
    """Return scores of a host's samples, by what it did before.

    Parameters
    ----------
    history, test
        Samples, shape (n, n_metrics); ``test`` follows ``history``. No label is used.
    period_s
        Time between samples.
    profile
        Settings.
    seed
        Of the Isolation Forest.

    Raises
    ------
    UsageError
        If the history is too short to learn from.
    """
    per_day = max(1, round(DAY_S / period_s))
    if len(history) < MIN_HISTORY:
        raise UsageError(
            f"{len(history)} samples of history are too few to learn from: {MIN_HISTORY} at least"
        )
    values = np.vstack([history, test])
    features, floors = _features(values, per_day, profile)
    fitted, first = int(profile.fitted_share * len(history)), len(history)
    scores: dict[str, Array] = {}
    for member in profile.members:
        X = np.hstack([features[name] for name in member.features])
        floor = np.concatenate([floors[name] for name in member.features])
        if member.daily:
            memory = round(profile.memory_days * per_day)
            scores[member.name] = refitted_scores(
                X,
                fitted,
                every=per_day,
                memory=memory,
                floors=floor,
                make=partial(make_detector, member.spec, seed),
            )
        else:
            scaler = BandScaler(floors=floor).fit(X[:fitted])
            detector = make_detector(member.spec, seed).fit(scaler.transform(X[:fitted]))
            scores[member.name] = detector.anomaly_score(scaler.transform(X[fitted:]))
    split = first - fitted
    enough = round(profile.calibration_days * per_day)
    tails = [growing_tails(score, split, every=per_day, enough=enough) for score in scores.values()]
    recalibrated = tuple(fuse(np.column_stack(members)) for members in zip(*tails, strict=True))
    scores[FUSED] = as_told(recalibrated)
    short = trailing_spread(values, profile.explain_samples)
    floor = np.full(short.shape[1], profile.floor * FLOOR_SHARES["spread"])
    scaler = BandScaler(floors=floor).fit(short[:fitted])
    return SampledScores(
        test={name: score[split:] for name, score in scores.items()},
        held_out={name: score[:split] for name, score in scores.items()},
        excursions=np.abs(scaler.transform(short[first:])),
        recalibrated=recalibrated,
    )


def _features(
    values: Array, per_day: int, profile: SampledProfile
) -> tuple[dict[str, Array], dict[str, Array]]:
    level = trailing_mean(values, profile.level_samples)
    features = {
        "level": level,
        "spread": np.hstack([trailing_spread(values, samples) for samples in profile.spread_samples]),
        "change": change_against(level, per_day),
    }
    floors = {
        name: np.full(part.shape[1], profile.floor * FLOOR_SHARES[name]) for name, part in features.items()
    }
    return features, floors


def flagged(
    scores: SampledScores,
    name: str,
    period_s: float,
    budget_per_day: float,
    profile: SampledProfile = DEFAULT,
) -> Flags:
    """Return which samples a detector, or all of them together, calls anomalous, shape (n_test,).

    Parameters
    ----------
    scores, profile
        As `score_sampled` gave and took them.
    name
        Of a detector, or `FUSED`.
    period_s
        Time between samples.
    budget_per_day
        False alarms per host and day that are accepted. The threshold follows the host; see
        `reveal_core.detect.following.following_threshold`.

    Notes
    -----
    A fused score depends on the day's calibration, so one day's scores are no measure for another's: by the
    first calibrations, which rest on little, the past looks stranger than it does now. The threshold of a
    day is therefore set on the past as the calibrations of that day see it. At the same budget this found
    four to six more of the 246 events of SMD, by the forest's seed, and four more of the 34 of NAB.

    What is so rare that calibrations do not learn it is no false alarm either, and does not use up the
    budget.
    """
    if name == FUSED and profile.agreement:
        votes = [flagged(scores, m.name, period_s, budget_per_day, profile) for m in profile.members]
        return np.asarray(np.sum(votes, axis=0) >= profile.agreement)
    held_out, test = scores.held_out[name], scores.test[name]
    if profile.percentile is not None:
        return np.asarray(test > percentile_threshold(held_out, profile.percentile).value)
    days = scores.recalibrated if name == FUSED else (np.concatenate([held_out, test]),)
    times = np.arange(len(held_out) + len(test), dtype=np.float64) * period_s
    # Only a fused score is a probability's.
    certain = -np.log(RAREST) if name == FUSED else np.inf
    levels, start = [], len(held_out)
    for past in days:
        so_far = times[: len(past)]
        level = following_threshold(past, so_far, start, budget_per_day=budget_per_day, certain=certain)
        levels.append(level)
        start = len(past)
    return np.asarray(test > np.concatenate(levels))


def explain(scores: SampledScores, start: int, end: int) -> list[int]:
    """Return the metrics of a stretch of samples, the likeliest culprit first.

    By the largest excursion of a metric's spread over the stretch: at a minute a sample it names a labelled
    metric first in nine of ten events, where level names it in seven and a detector's own contributions in
    eight.
    """
    largest = scores.excursions[start:end].max(axis=0)
    return [int(metric) for metric in np.argsort(-largest, kind="stable")]
