"""A report as short Markdown: for a Prefect artifact, a chat message or a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reveal_core.evaluate.matching import FaultMatch
from reveal_core.formatting import (
    UNKNOWN,
    counted,
    format_band,
    format_duration,
    format_number,
    format_time,
    format_value,
)
from reveal_core.incidents import OPEN, FleetIncident
from reveal_core.report.attention import matters, told_at_length
from reveal_core.report.charts import trend_sentence
from reveal_core.report.standing import action_phrase, standing
from reveal_core.report.strips import picture_sentence
from reveal_core.report.types import IncidentReport, Report
from reveal_core.report.words import fleet_place, quantity, subsystem_name

MAX_SECTIONS = 10
"""Incidents that are told at length."""
MAX_ROWS = 100
"""Rows of the table; the full report has all incidents."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def render_markdown(report: Report) -> str:
    """Return a report as Markdown: headline, table by what deserves attention, evidence and fix of each."""
    lines = [f"# {escape(report.headline)}", ""]
    found = matters(report)
    if found:
        head = [
            "#",
            "Began (UTC)",
            "Lasted",
            "Host",
            "Subsystem",
            "Most likely cause",
            "Detectors agree",
            "State",
        ]
        rows = [
            _fleet_row(report, matter.fleet, matter.members)
            if matter.fleet
            else _row(report, matter.members[0])
            for matter in found[:MAX_ROWS]
        ]
        lines += [*_table(head, rows), ""]
        if len(found) > MAX_ROWS:
            lines += [f"{counted(len(found) - MAX_ROWS, 'more row')} in the full report.", ""]
    at_length = told_at_length(found, MAX_SECTIONS)
    for shown in at_length:
        lines += _section(shown)
    if len(report.incidents) > len(at_length):
        lines += [
            f"{counted(len(report.incidents) - len(at_length), 'more incident')} in the full report.",
            "",
        ]
    if report.faults:
        found_faults = sum(match.found for match in report.faults)
        lines += [
            "## Injected faults",
            "",
            f"{found_faults} of {len(report.faults)} found; "
            f"{counted(len(report.false_incidents), 'false incident')}.",
            "",
            *_table(
                ["Fault", "Onset (UTC)", "Incident", "Delay", "Subsystem", "Cause"],
                [_fault_row(match) for match in report.faults],
            ),
            "",
        ]
    coverage = (
        "no telemetry" if report.coverage is None else f"{100 * report.coverage:.1f} % of samples there"
    )
    lines += [
        f"{counted(report.windows, 'window')} scored on {counted(len(report.hosts), 'host')}, {coverage}; "
        f"model {escape(report.model.reference)}, profile {escape(report.model.profile)}.",
        "",
    ]
    lines += [trend_sentence(report.trend), ""] if report.trend else []
    lines += [f"- {escape(note)}" for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is, on one line: no pipe breaks a table, no tag is a tag."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _row(report: Report, shown: IncidentReport) -> list[str]:
    incident = shown.incident
    day = report.start.date() != report.end.date()
    return [
        str(shown.number),
        format_time(incident.start, day=day, decimals=1),
        format_duration((incident.end - incident.start).total_seconds()),
        escape(incident.host),
        escape(subsystem_name(incident.subsystem)),
        escape(incident.causes[0].title) if incident.causes else "unknown",
        f"{incident.severity} of {shown.detectors}",
        escape(", ".join(standing(shown))),
    ]


def _fleet_row(report: Report, fleet: FleetIncident, members: Sequence[IncidentReport]) -> list[str]:
    day = report.start.date() != report.end.date()
    severity = max((shown.incident.severity for shown in members), default=0)
    numbers = ", ".join(str(shown.number) for shown in members[:5])
    still_open = sum(shown.incident.state == OPEN for shown in members)
    return [
        numbers + (" …" if len(members) > 5 else ""),
        format_time(fleet.start, day=day, decimals=1),
        format_duration((fleet.end - fleet.start).total_seconds()),
        f"**{escape(fleet_place(fleet))}**",
        escape(subsystem_name(fleet.subsystem)) or UNKNOWN,
        escape(fleet.title),
        f"up to {severity}" if members else UNKNOWN,
        f"{still_open} open" if still_open else "resolved",
    ]


def _section(shown: IncidentReport) -> list[str]:
    incident = shown.incident
    lines = [f"## {shown.number}. {escape(shown.headline)}", ""]
    ran = f", job {escape(incident.job)}" if incident.job else ""
    lines += [f"{escape(incident.host)}{ran}: {escape(', '.join(standing(shown)))}.", ""]
    if incident.causes:
        cause = incident.causes[0]
        lines += [f"**{escape(cause.title)}** ({100 * cause.confidence:.0f} % confidence)", ""]
        lines += [f"- for: {escape(sentence)}" for sentence in cause.evidence]
        lines += [f"- against: {escape(sentence)}" for sentence in cause.against]
        lines += [f"- note: {escape(cause.caveat)}"] if cause.caveat else []
        action = f" ({escape(action_phrase(cause.action))})" if cause.action else ""
        lines += ["", f"What to do{action}: {escape(cause.fix)}", ""]
        lines += [*_code(cause.commands), ""] if cause.commands else []
    else:
        lines += ["No entry of the cause catalogue fits.", ""]
    if shown.picture:
        lines += [escape(picture_sentence(shown.picture)), ""]
    with_peers = any(metric.peers for metric in incident.metrics[:5])
    rows = [
        [
            escape(" ".join(filter(None, [m.metric, m.instance, f"({quantity(m)})" if quantity(m) else ""]))),
            escape(format_value(m.value, m.unit)),
            escape(format_band(m.normal_low, m.normal_high, m.unit)),
            *([escape(format_band(m.peers_low, m.peers_high, m.unit))] if with_peers else []),
        ]
        for m in incident.metrics[:5]
    ]
    head = ["Metric", "Value", "Normal", *(["Peers"] if with_peers else [])]
    return [*lines, *_table(head, rows), ""] if rows else lines


def _code(commands: Sequence[str]) -> list[str]:
    text = "\n".join(commands)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return [f"{fence}sh", text, fence]


def _fault_row(match: FaultMatch) -> list[str]:
    head = [escape(match.fault.name), format_time(match.fault.start, decimals=1)]
    if match.incident is None or match.delay_s is None:
        return [*head, "**missed**", UNKNOWN, UNKNOWN, UNKNOWN]
    causes = match.incident.causes
    return [
        *head,
        "found",
        f"{format_number(round(match.delay_s, 1))} s",
        f"{escape(match.incident.subsystem)} ({'right' if match.subsystem_right else 'wrong'})",
        f"{escape(causes[0].id) if causes else 'unknown'} ({'right' if match.cause_right else 'wrong'})",
    ]
