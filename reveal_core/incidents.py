"""What is said about an anomaly: the types that attribution fills and reports show."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

ACTIONS = {
    "ignore": "nothing to do",
    "check-application": "check the application",
    "change-configuration": "change the configuration",
    "inspect-hardware": "inspect the hardware",
    "drain": "take the host out of service",
}
"""What a cause suggests to do, from the least to the most that it asks for, with its wording."""

OPEN, RESOLVED = "open", "resolved"
"""States of an incident: still on at the end of what was judged, or over."""

SILENT = "host-silent"
"""Cause of the incidents of hosts whose telemetry does not come: an entry of the catalogue as others."""
STRAGGLER = "straggler-host"
"""Cause of the incidents of hosts that are out of step with the other hosts of their job; likewise."""


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
    role
        ``"cause"`` where it speaks for the likeliest cause, ``"symptom"`` where it merely moved with it;
        ``""`` where no cause is known.
    peers, peers_low, peers_high
        How many other hosts of the same report were looked at, at most 50, and the least and the most of
        their means of the same quantity over the same time; None where there are none.
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
    role: str = ""
    peers: int = 0
    peers_low: float | None = None
    peers_high: float | None = None


@dataclass(frozen=True)
class CauseFinding:
    """An entry of the cause catalogue that explains an incident.

    ``confidence`` is 0 to 1. ``evidence`` and ``against`` are sentences with values and units. ``action`` is
    one of `ACTIONS`. ``same_signals`` names causes that this host's signals cannot tell from this one, with
    the reason in ``caveat``.
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
    action: str = ""
    source: str = ""


@dataclass(frozen=True)
class Incident:
    """Anomalous windows of one host that belong together.

    ``severity`` is the number of detectors that agree; ``probability`` the tail probability of the strangest
    window on a healthy host (small is strange); ``score`` its fused score over its threshold. ``state`` is
    `OPEN` where it was still on at the end of what was judged, else `RESOLVED`.
    ``job`` is the id of the job that the host ran meanwhile, several with commas; ``""`` where none is known.
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
    state: str = RESOLVED
    job: str = ""

    @property
    def cause(self) -> str:
        """Id of the most likely cause; ``""`` where none of the catalogue fits."""
        return self.causes[0].id if self.causes else ""

    def to_dict(self) -> dict[str, Any]:
        """Return the mapping that the command-line contract names ``I``; times are ISO 8601 in UTC."""
        data = asdict(self)
        data["start"] = iso(self.start)
        data["end"] = iso(self.end)
        return data


@dataclass(frozen=True)
class History:
    """What became of an incident over all runs that saw it: the store's side of `Incident`.

    Attributes
    ----------
    count
        How often it came, this time included.
    first
        When it came the first time.
    flapping
        Whether it comes and goes so often that its comings are one incident.
    label, label_why
        What a person said of it: ``real``, ``false``, ``known`` or ``""``; and why.
    silenced
        Why nobody was told of it; ``""`` where somebody was, or would have been.
    """

    count: int
    first: datetime
    flapping: bool = False
    label: str = ""
    label_why: str = ""
    silenced: str = ""


@dataclass(frozen=True)
class FleetIncident:
    """The same trouble on several hosts at once: one incident of the fleet.

    Attributes
    ----------
    id
        Stable over runs: a hash of what it is and when it began.
    subsystem, cause, title
        Subsystem and cause (id) that its members share, ``""`` for a cause that none is known for; and what
        it is, in words.
    hosts
        The hosts, sorted.
    of_hosts
        How many hosts were judged in the same time.
    where
        What the hosts have in common and others do not, such as ``rack-7-*``; ``""`` where nothing.
    start, end
        Of the first and of the last of its members.
    incidents
        Ids of its members, in order of time.
    """

    id: str
    subsystem: str
    cause: str
    title: str
    hosts: tuple[str, ...]
    of_hosts: int
    where: str
    start: datetime
    end: datetime
    incidents: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; times are ISO 8601 in UTC."""
        lists = {"hosts": list(self.hosts), "incidents": list(self.incidents)}
        return {**asdict(self), **lists, "start": iso(self.start), "end": iso(self.end)}


def iso(time: datetime) -> str:
    """Return a UTC time as ISO 8601 with milliseconds and ``Z``."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"
