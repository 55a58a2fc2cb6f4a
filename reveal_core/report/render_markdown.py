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
from reveal_core.report.types import IncidentReport, Report
from reveal_core.report.words import quantity, subsystem_name

MAX_SECTIONS = 10
"""Incidents that are told at length; the table lists all."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def render_markdown(report: Report) -> str:
    """Return a report as Markdown: headline, table of incidents, then evidence and fix of each."""
    lines = [f"# {escape(report.headline)}", ""]
    if report.incidents:
        rows = [_row(report, incident) for incident in report.incidents]
        head = ["#", "Began (UTC)", "Lasted", "Host", "Subsystem", "Most likely cause", "Detectors agree"]
        lines += [*_table(head, rows), ""]
    for incident in report.incidents[:MAX_SECTIONS]:
        lines += _section(incident)
    if len(report.incidents) > MAX_SECTIONS:
        lines += [f"{counted(len(report.incidents) - MAX_SECTIONS, 'more incident')} in the full report.", ""]
    if report.faults:
        found = sum(match.found for match in report.faults)
        lines += [
            "## Injected faults",
            "",
            f"{found} of {len(report.faults)} found; "
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
    ]


def _section(shown: IncidentReport) -> list[str]:
    incident = shown.incident
    lines = [f"## {shown.number}. {escape(shown.headline)}", ""]
    if incident.causes:
        cause = incident.causes[0]
        lines += [f"**{escape(cause.title)}** ({100 * cause.confidence:.0f} % confidence)", ""]
        lines += [f"- for: {escape(sentence)}" for sentence in cause.evidence]
        lines += [f"- against: {escape(sentence)}" for sentence in cause.against]
        lines += [f"- note: {escape(cause.caveat)}"] if cause.caveat else []
        lines += ["", f"What to do: {escape(cause.fix)}", ""]
        lines += [*_code(cause.commands), ""] if cause.commands else []
    else:
        lines += ["No entry of the cause catalogue fits.", ""]
    rows = [
        [
            escape(" ".join(filter(None, [m.metric, m.instance, f"({quantity(m)})" if quantity(m) else ""]))),
            format_value(m.value, m.unit),
            format_band(m.normal_low, m.normal_high, m.unit),
        ]
        for m in incident.metrics[:5]
    ]
    return [*lines, *_table(["Metric", "Value", "Normal"], rows), ""] if rows else lines


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
