"""Profiles: named sets of method settings. ``paper`` is the publication's, ``default`` is ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from reveal_core.errors import UsageError


@dataclass(frozen=True)
class Profile:
    """Settings of the method, from features to incidents.

    Attributes
    ----------
    space
        ``rollup`` (mean, maximum and imbalance across instances) or ``instance`` (every channel by itself).
    window_s, stride_s, statistics
        The window grid and what is computed over a window.
    correlation
        Of features that correlate above this, one is kept.
    keep_events
        Keep event counters although they stood still in training.
    exclude
        Metrics (shell patterns) that detectors do not see.
    detectors
        Name to class name and parameters, in the order of `reveal_core.model`.
    threshold, margin, percentile, alarm_budget
        ``budget`` (false incidents per host and day; with less than a day of history, ``margin`` times the
        healthy maximum) or ``percentile`` of healthy scores.
    agreement
        0: the fused score decides. Above: that many detectors must be beyond their own threshold.
    folds, trim
        Blocks of history for held-out scores, and the largest share of it that calibration leaves out.
    clear_ratio, gap_s, cooldown_s, minimum_windows
        When an incident ends: below this share of the threshold for ``gap_s``; what begins within
        ``cooldown_s`` after it and shows the same signals belongs to it; and how many windows an incident
        needs.
    """

    name: str = "default"
    space: str = "rollup"
    window_s: float = 3.0
    stride_s: float = 1.0
    statistics: tuple[str, ...] = ("level", "spread")
    correlation: float = 0.98
    keep_events: bool = True
    exclude: tuple[str, ...] = ("reveal.*",)
    detectors: tuple[tuple[str, str, tuple[tuple[str, Any], ...]], ...] = (
        ("zscore", "ZScoreDetector", ()),
        ("mahalanobis", "PCAMahalanobisDetector", ()),
        ("forest", "IsolationForestDetector", ()),
        ("excess", "ExcessDetector", ()),
    )
    threshold: str = "budget"
    alarm_budget: float = 1.0
    margin: float = 1.5
    percentile: float = 99.0
    agreement: int = 0
    folds: int = 5
    trim: float = 0.06
    clear_ratio: float = 0.7
    gap_s: float = 4.0
    cooldown_s: float = 10.0
    minimum_windows: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self)


DEFAULT = Profile()

PAPER = Profile(
    name="paper",
    space="instance",
    statistics=("level", "spread", "minimum", "maximum", "trend", "roughness"),
    correlation=0.5,
    keep_events=False,
    detectors=(
        ("zscore", "ZScoreDetector", (("combine", "mean"), ("robust", False), ("clip", None))),
        ("mahalanobis", "PCAMahalanobisDetector", (("kept", 0.95), ("ridge", 1e-9), ("clip", None))),
        ("forest", "IsolationForestDetector", (("contamination", 0.01),)),
    ),
    threshold="percentile",
    percentile=99.0,
    trim=0.0,
    agreement=2,
    clear_ratio=1.0,
    gap_s=1.0,
    cooldown_s=0.0,
)

PROFILES: tuple[Profile, ...] = (DEFAULT, PAPER)


def load_profile(name: str, overrides: Mapping[str, Any] | None = None) -> Profile:
    """Return a profile by name, with some settings replaced.

    Raises
    ------
    UsageError
        If the profile or a setting is not known.
    """
    for profile in PROFILES:
        if profile.name == name:
            break
    else:
        raise UsageError(f"unknown profile {name!r}: choose from {', '.join(p.name for p in PROFILES)}")
    known = {f.name for f in fields(Profile)} - {"name"}
    unknown = sorted(set(overrides or {}) - known)
    if unknown:
        raise UsageError(f"unknown profile settings {unknown}: choose from {', '.join(sorted(known))}")
    return replace(profile, **dict(overrides or {}))


def profile_from(values: Mapping[str, Any]) -> Profile:
    """Return the profile that `Profile.to_dict` wrote, also after a trip through JSON."""
    plain = dict(values)
    plain["statistics"] = tuple(plain["statistics"])
    plain["exclude"] = tuple(plain["exclude"])
    plain["detectors"] = tuple(
        (name, cls, tuple((key, value) for key, value in parameters))
        for name, cls, parameters in plain["detectors"]
    )
    return Profile(**plain)
