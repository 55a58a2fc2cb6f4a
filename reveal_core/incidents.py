"""What is said about an anomaly: the types that attribution fills and reports show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class SubsystemShare:
    """A subsystem's share of an incident, 0 to 1; the shares of an incident sum to 1."""

    name: str
    share: float


@dataclass(frozen=True)
class MetricEvidence:
    """A metric that moved, in physical units beside its normal band.

    Attributes
    ----------
    metric, instance, subsystem, unit
        Which one; ``instance`` is the one that moved furthest, ``""`` where a metric has none.
    value
        Its most unusual window level during the incident.
    normal_low, normal_high
        The band of its window levels while the host was healthy.
    direction
        ``"up"`` or ``"down"``.
    share
        Its share of the incident, 0 to 1.
    first_moved_s
        Seconds from the incident's start until it left its band (what moved first); None if not told.
    part, statistic
        What of the metric moved: ``value``, or ``mean``, ``max`` or ``imbalance`` across instances; its
        ``level`` or ``spread``.
    stands_for
        Metrics that move with it and were pruned in its favour.
    """

    metric: str
    instance: str
    subsystem: str
    unit: str
    value: float
    normal_low: float
    normal_high: float
    direction: str
    share: float
    first_moved_s: float | None = None
    part: str = "value"
    statistic: str = "level"
    stands_for: tuple[str, ...] = ()


@dataclass(frozen=True)
class CauseFinding:
    """An entry of the cause catalogue that explains an incident.

    ``confidence`` is 0 to 1. ``evidence`` and ``against`` are sentences with values and units.
    ``same_signals`` names causes that this host's signals cannot tell from this one, with the reason in
    ``caveat``.
    """

    id: str
    title: str
    subsystem: str
    confidence: float
    evidence: tuple[str, ...]
    against: tuple[str, ...]
    explanation: str
    fix: str
    commands: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    same_signals: tuple[str, ...] = ()
    caveat: str = ""


@dataclass(frozen=True)
class Incident:
    """Anomalous windows of one host that belong together.

    ``severity`` is the number of detectors that agree; ``probability`` the tail probability of the strangest
    window on a healthy host (small is strange); ``score`` its fused score over its threshold.
    """

    id: str
    fingerprint: str
    host: str
    start: datetime
    end: datetime
    severity: int
    probability: float
    score: float
    subsystem: str
    subsystems: tuple[SubsystemShare, ...]
    metrics: tuple[MetricEvidence, ...]
    causes: tuple[CauseFinding, ...] = ()
    windows: int = 0
    detectors: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the mapping that the command-line contract names ``I``; times are ISO 8601 in UTC."""
        data = asdict(self)
        data["start"] = iso(self.start)
        data["end"] = iso(self.end)
        return data


def iso(time: datetime) -> str:
    """Return a UTC time as ISO 8601 with milliseconds and ``Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"
