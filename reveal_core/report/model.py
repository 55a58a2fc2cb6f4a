"""Building a report from what was found: the one model behind HTML, JSON and Markdown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from reveal_core.errors import UsageError
from reveal_core.evaluate.matching import FaultMatch as FaultMatch
from reveal_core.evaluate.matching import InjectedFault as InjectedFault
from reveal_core.evaluate.matching import false_incidents as false_incidents
from reveal_core.evaluate.matching import match_faults as match_faults
from reveal_core.incidents import FleetIncident, History, Incident, iso
from reveal_core.report.instances import instance_picture
from reveal_core.report.peers import with_peers
from reveal_core.report.plot_types import Onset
from reveal_core.report.plots import (
    MAX_POINTS,
    gaps,
    metric_plots,
    scored_windows,
    source_reports,
    timeline,
)
from reveal_core.report.types import Collected, HostReport, IncidentReport
from reveal_core.report.types import HostInput as HostInput
from reveal_core.report.types import ModelInfo as ModelInfo
from reveal_core.report.types import Report as Report
from reveal_core.report.types import SourceNote as SourceNote
from reveal_core.report.types import Trend as Trend
from reveal_core.report.words import incident_headline, report_headline
from reveal_core.telemetry import Series

QUIET_POINTS = 240
"""Points of the timeline of a host without incidents beside other hosts: as much as a heat map can show."""


@dataclass(frozen=True)
class _Known:
    """What a report knows of its incidents before it looks at any host."""

    numbers: Mapping[tuple[str, str], int]
    histories: Mapping[str, History]
    fleet: Mapping[str, str]
    """By incident, the id of the fleet's incident that it is part of."""
    series: Mapping[str, Series]
    """Of hosts that have samples, in order of their names."""


def build_report(
    report_id: str,
    title: str,
    created: datetime,
    start: datetime,
    end: datetime,
    hosts: Sequence[HostInput],
    model: ModelInfo,
    injected: Sequence[InjectedFault] = (),
    notes: Sequence[str] = (),
    *,
    command: str = "",
    fleet: Sequence[FleetIncident] = (),
    histories: Mapping[str, History] | None = None,
    trend: Trend | None = None,
) -> Report:
    """Build a report of one or more hosts.

    Parameters
    ----------
    report_id, title, created
        What the report is called, and when it was made (UTC).
    start, end
        The time that was judged, UTC.
    hosts
        What was found on each. Metrics of an incident are compared with those hosts that have samples.
    model
        The model that scored.
    injected
        Faults that the lab injected, if it did.
    notes
        Sentences that a reader must know, such as a provisional threshold.
    command
        The command that makes this report again; ``reveal score`` on the default store if not given.
    fleet
        Incidents that several hosts share. Of two that name the same incident the first has it.
    histories
        What earlier runs and people say of incidents, by the incident's id.
    trend
        Incidents of past days; None where they are not known.

    Raises
    ------
    UsageError
        If there is no host, a host or an incident is given twice, or the report ends before it starts.
    """
    if not hosts:
        raise UsageError(f"report {report_id}: there is no host to report on")
    names = [host.host for host in hosts]
    if len(set(names)) < len(names):
        raise UsageError(f"report {report_id}: host {max(names, key=names.count)} is given twice")
    if end <= start:
        raise UsageError(f"report {report_id}: it ends ({iso(end)}) before it starts ({iso(start)})")
    found = sorted((i for host in hosts for i in host.incidents), key=lambda i: (i.start, i.host, i.id))
    numbers = {(incident.host, incident.id): number for number, incident in enumerate(found, 1)}
    if len(numbers) < len(found):
        raise UsageError(f"report {report_id}: an incident is given twice")
    known = _Known(
        numbers=numbers,
        histories=histories or {},
        fleet={member: shared.id for shared in reversed(fleet) for member in shared.incidents},
        series={host.host: host.series for host in sorted(hosts, key=_name) if len(host.series.frame)},
    )
    reports = tuple(
        _host_report(host, known, MAX_POINTS if len(hosts) == 1 else QUIET_POINTS) for host in hosts
    )
    return Report(
        id=report_id,
        title=title,
        created=created,
        start=start,
        end=end,
        headline=report_headline(reports, start, end, fleet),
        hosts=reports,
        model=model,
        faults=tuple(match_faults(injected, found)),
        false_incidents=tuple(i.id for i in false_incidents(injected, found)) if injected else (),
        notes=tuple(notes),
        command=command or _command(names, start, end, model),
        fleet=tuple(fleet),
        trend=trend if trend is not None and trend.days else None,
    )


def _name(host: HostInput) -> str:
    return host.host


def _host_report(host: HostInput, known: _Known, quiet_points: int) -> HostReport:
    windows = scored_windows(host.scores, host.start, host.end)
    coverage = windows["coverage"].fill_nan(0.0).fill_null(0.0).mean() if len(windows) else None
    incidents = [_incident_report(incident, host, known) for incident in host.incidents]
    collected = host.collected or collected_of(host.series, host.sources, host.start, host.end)
    return HostReport(
        host=host.host,
        start=host.start,
        end=host.end,
        facts=host.facts,
        windows=len(windows),
        coverage=float(coverage) if isinstance(coverage, (int, float)) else None,
        gaps=gaps(windows, host.start, host.end),
        channels=collected.channels,
        sources=collected.sources,
        quarantined=tuple(host.quarantined),
        timeline=timeline(windows, MAX_POINTS if incidents else quiet_points),
        incidents=tuple(sorted(incidents, key=lambda incident: incident.number)),
    )


def collected_of(series: Series, sources: Sequence[SourceNote], start: datetime, end: datetime) -> Collected:
    """Return what was collected in all, as a series of all channels tells it.

    Parameters
    ----------
    series
        Physical values.
    sources
        What the collector could and could not read; taken from the channels where none are given.
    start, end
        The time that was judged, UTC.
    """
    channels = sum(channel.source != "derived" for channel in series.channels.values())
    return Collected(
        channels=channels or sum(note.channels for note in sources),
        sources=source_reports(series, sources, start, end),
    )


def _incident_report(incident: Incident, host: HostInput, known: _Known) -> IncidentReport:
    number = known.numbers[incident.host, incident.id]
    plots, unplotted = metric_plots(incident, host.series)
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", incident.id).strip("-")
    others = [series for name, series in known.series.items() if name != host.host]
    return IncidentReport(
        number=number,
        anchor=f"incident-{number}-{slug}" if slug else f"incident-{number}",
        incident=with_peers(incident, others),
        headline=incident_headline(incident),
        detectors=max(len(host.scores.detectors), incident.severity),
        plots=plots,
        unplotted=unplotted,
        onsets=_onsets(incident),
        picture=instance_picture(incident, host.series),
        history=known.histories.get(incident.id),
        fleet=known.fleet.get(incident.id, ""),
    )


def _onsets(incident: Incident) -> tuple[Onset, ...]:
    first: dict[str, Onset] = {}
    for metric in incident.metrics:
        seconds = metric.first_moved_s
        earlier = first.get(metric.subsystem)
        if seconds is not None and (earlier is None or seconds < earlier.seconds):
            first[metric.subsystem] = Onset(metric.subsystem, seconds, metric.metric, metric.instance)
    return tuple(sorted(first.values(), key=lambda onset: onset.seconds))


def _command(hosts: Sequence[str], start: datetime, end: datetime, model: ModelInfo) -> str:
    parts = ["reveal", "score", "--start", iso(start), "--end", iso(end)]
    if len(hosts) == 1:
        parts += ["--host", hosts[0]]
    if model.version:
        parts += ["--model", model.reference]
    return shlex.join(parts)
