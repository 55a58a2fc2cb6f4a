"""What a report is made from, and the report itself: one model that every rendering reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from reveal_core.evaluate.matching import FaultMatch
from reveal_core.incidents import FleetIncident, History, Incident
from reveal_core.report.plot_types import InstancePicture, MetricPlot, Onset, Timeline
from reveal_core.scores import Scores
from reveal_core.telemetry import Series


@dataclass(frozen=True)
class SourceNote:
    """A source of the collector on one host: whether it was there, and if not why."""

    source: str
    available: bool
    reason: str
    channels: int


@dataclass(frozen=True)
class SourceReport:
    """A source with the share of its samples that are there, 0 to 1; None where it cannot be told."""

    source: str
    available: bool
    reason: str
    channels: int
    coverage: float | None


@dataclass(frozen=True)
class Collected:
    """What a host's telemetry holds in all: how many channels, and every source."""

    channels: int
    sources: tuple[SourceReport, ...]


@dataclass(frozen=True)
class HostInput:
    """All that a report is told about one host.

    Attributes
    ----------
    host
        The host's label.
    series
        Physical values; what lies outside ``start`` to ``end`` only serves plots at the edges. It may be
        empty (no rows, and no channels) for a host without incidents, so that a report of a thousand hosts
        fits into memory: such a host is no peer of others, and what its sources delivered is not counted.
    scores, incidents
        What was found, in any order.
    facts
        Host facts of the newest segment.
    start, end
        The time that was judged, UTC.
    sources
        What the collector could and could not read; taken from the channels where none are given.
    quarantined
        Names of files that could not be read.
    collected
        What was collected in all, where the series holds only what incidents speak of; counted from the
        series if None.
    """

    host: str
    series: Series
    scores: Scores
    incidents: Sequence[Incident]
    facts: Mapping[str, Any]
    start: datetime
    end: datetime
    sources: Sequence[SourceNote] = ()
    quarantined: Sequence[str] = ()
    collected: Collected | None = None


@dataclass(frozen=True)
class ModelInfo:
    """The model that scored: its registered name, how it was set, and the data that it learned from.

    ``alias`` is ``""`` where the model has none; ``trained_from`` and ``trained_to`` are None where they are
    not known. ``windows`` and ``features`` count what it was fitted on.
    """

    name: str
    version: str
    profile: str
    alias: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    trained_from: datetime | None = None
    trained_to: datetime | None = None
    windows: int = 0
    features: int = 0

    @property
    def reference(self) -> str:
        """``name/version``, as ``--model`` takes it; the name alone where it was never registered."""
        return f"{self.name}/{self.version}" if self.version else self.name


@dataclass(frozen=True)
class Trend:
    """Incidents of past days against what the operator allows.

    Attributes
    ----------
    days
        UTC days in order; the last is the report's own.
    counts
        Incidents of each day, over all hosts.
    host_days
        Telemetry judged that day, in host-days: 1 is one host over 24 h.
    budget
        Incidents per host and day that the operator allows; at most ``budget * host_days`` are a day's share.
    """

    days: tuple[date, ...]
    counts: tuple[int, ...]
    host_days: tuple[float, ...]
    budget: float


@dataclass(frozen=True)
class IncidentReport:
    """An incident with what a page shows around it.

    Attributes
    ----------
    number
        Its place in the report in order of time, from 1.
    anchor
        Its name within a page.
    incident
        The incident, with its peers' values filled in.
    headline
        What moved, as a sentence with units.
    detectors
        How many detectors there were to agree.
    plots
        The top metrics that have samples around it.
    unplotted
        Top metrics without samples around it.
    onsets
        What moved first, by subsystem, in order of time.
    picture
        Which instance it was; None where no metric that moved has several.
    history
        What earlier runs and people say of it; None where nothing is known.
    fleet
        Id of the fleet's incident that it is part of; ``""`` where it is none's.
    """

    number: int
    anchor: str
    incident: Incident
    headline: str
    detectors: int
    plots: tuple[MetricPlot, ...]
    unplotted: tuple[str, ...]
    onsets: tuple[Onset, ...]
    picture: InstancePicture | None = None
    history: History | None = None
    fleet: str = ""


@dataclass(frozen=True)
class HostReport:
    """One host of a report.

    ``coverage`` is the mean coverage of its windows, 0 to 1, None where there are none; ``gaps`` are the
    spans with less than half of their samples.
    """

    host: str
    start: datetime
    end: datetime
    facts: Mapping[str, Any]
    windows: int
    coverage: float | None
    gaps: tuple[tuple[datetime, datetime], ...]
    channels: int
    sources: tuple[SourceReport, ...]
    quarantined: tuple[str, ...]
    timeline: Timeline
    incidents: tuple[IncidentReport, ...]


@dataclass(frozen=True)
class Report:
    """A whole report.

    ``faults`` and ``false_incidents`` (ids) are filled only where the lab injected faults. ``fleet`` are the
    incidents that several hosts share; a member that is not among the report's own incidents is left out
    wherever members are listed. ``trend`` is None where no past days are known.
    """

    id: str
    title: str
    created: datetime
    start: datetime
    end: datetime
    headline: str
    hosts: tuple[HostReport, ...]
    model: ModelInfo
    faults: tuple[FaultMatch, ...]
    false_incidents: tuple[str, ...]
    notes: tuple[str, ...]
    command: str
    fleet: tuple[FleetIncident, ...] = ()
    trend: Trend | None = None

    @property
    def incidents(self) -> tuple[IncidentReport, ...]:
        """Incidents of all hosts, in order of time."""
        found = (incident for host in self.hosts for incident in host.incidents)
        return tuple(sorted(found, key=lambda incident: incident.number))

    @property
    def windows(self) -> int:
        """Windows scored, over all hosts."""
        return sum(host.windows for host in self.hosts)

    @property
    def coverage(self) -> float | None:
        """Mean coverage of all windows; None where there are none."""
        known = [(host.coverage, host.windows) for host in self.hosts if host.coverage is not None]
        total = sum(windows for _, windows in known)
        return sum(coverage * windows for coverage, windows in known) / total if total else None
