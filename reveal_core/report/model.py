"""Building a report from what was found: the one model behind HTML, JSON and Markdown."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime

from reveal_core.errors import UsageError
from reveal_core.evaluate.matching import FaultMatch as FaultMatch
from reveal_core.evaluate.matching import InjectedFault as InjectedFault
from reveal_core.evaluate.matching import false_incidents as false_incidents
from reveal_core.evaluate.matching import match_faults as match_faults
from reveal_core.incidents import Incident, iso
from reveal_core.report.plots import gaps, metric_plots, scored_windows, source_reports, timeline
from reveal_core.report.types import HostInput as HostInput
from reveal_core.report.types import HostReport, IncidentReport, Onset
from reveal_core.report.types import ModelInfo as ModelInfo
from reveal_core.report.types import Report as Report
from reveal_core.report.types import SourceNote as SourceNote
from reveal_core.report.words import incident_headline, report_headline


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
) -> Report:
    """Build a report of one or more hosts.

    Parameters
    ----------
    report_id, title, created
        What the report is called, and when it was made (UTC).
    start, end
        The time that was judged, UTC.
    hosts
        What was found on each.
    model
        The model that scored.
    injected
        Faults that the lab injected, if it did.
    notes
        Sentences that a reader must know, such as a provisional threshold.
    command
        The command that makes this report again; ``reveal score`` on the default store if not given.

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
    reports = tuple(_host_report(host, numbers) for host in hosts)
    return Report(
        id=report_id,
        title=title,
        created=created,
        start=start,
        end=end,
        headline=report_headline(reports, start, end),
        hosts=reports,
        model=model,
        faults=tuple(match_faults(injected, found)),
        false_incidents=tuple(i.id for i in false_incidents(injected, found)) if injected else (),
        notes=tuple(notes),
        command=command or _command(names, start, end, model),
    )


def _host_report(host: HostInput, numbers: Mapping[tuple[str, str], int]) -> HostReport:
    windows = scored_windows(host.scores, host.start, host.end)
    coverage = windows["coverage"].fill_nan(0.0).fill_null(0.0).mean() if len(windows) else None
    incidents = [_incident_report(numbers[i.host, i.id], i, host) for i in host.incidents]
    return HostReport(
        host=host.host,
        start=host.start,
        end=host.end,
        facts=host.facts,
        windows=len(windows),
        coverage=float(coverage) if isinstance(coverage, (int, float)) else None,
        gaps=gaps(windows, host.start, host.end),
        channels=sum(channel.source != "derived" for channel in host.series.channels.values()),
        sources=source_reports(host.series, host.sources, host.start, host.end),
        quarantined=tuple(host.quarantined),
        timeline=timeline(windows),
        incidents=tuple(sorted(incidents, key=lambda incident: incident.number)),
    )


def _incident_report(number: int, incident: Incident, host: HostInput) -> IncidentReport:
    plots, unplotted = metric_plots(incident, host.series)
    slug = re.sub(r"[^A-Za-z0-9_-]+", "-", incident.id).strip("-")
    return IncidentReport(
        number=number,
        anchor=f"incident-{number}-{slug}" if slug else f"incident-{number}",
        incident=incident,
        headline=incident_headline(incident),
        detectors=max(len(host.scores.detectors), incident.severity),
        plots=plots,
        unplotted=unplotted,
        onsets=_onsets(incident),
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
