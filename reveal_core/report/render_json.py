"""A report as one JSON document: the output of ``reveal score`` and the store's ``report.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any

from reveal_core.evaluate.matching import FaultMatch
from reveal_core.incidents import iso
from reveal_core.report.attention import by_attention
from reveal_core.report.types import HostReport, IncidentReport, Report, Trend


def report_dict(report: Report) -> dict[str, Any]:
    """Return a report as plain JSON values.

    The contract's keys are ``report`` (the id), ``model`` (``name/version``), ``windows`` (their number),
    ``hosts`` (their names), ``incidents`` and ``quarantined``. NaN and infinities become null, so the
    document is valid JSON.
    """
    attention = {shown.number: place for place, shown in enumerate(by_attention(report.incidents), 1)}
    document = {
        "report": report.id,
        "title": report.title,
        "headline": report.headline,
        "created": report.created,
        "start": report.start,
        "end": report.end,
        "model": report.model.reference,
        "windows": report.windows,
        "coverage": report.coverage,
        "hosts": [host.host for host in report.hosts],
        "incidents": [_incident(shown, attention[shown.number]) for shown in report.incidents],
        "fleet": [asdict(fleet) for fleet in report.fleet],
        "trend": _trend(report.trend),
        "quarantined": [name for host in report.hosts for name in host.quarantined],
        "host_details": [_host(host) for host in report.hosts],
        "model_details": dict(vars(report.model)),
        "injected": [_fault(match) for match in report.faults],
        "false_incidents": list(report.false_incidents),
        "notes": list(report.notes),
        "command": report.command,
    }
    return {key: plain(value) for key, value in document.items()}


def _incident(shown: IncidentReport, attention: int) -> dict[str, Any]:
    return {
        **shown.incident.to_dict(),
        "number": shown.number,
        "attention": attention,
        "headline": shown.headline,
        "detectors_total": shown.detectors,
        "moved_first": [asdict(onset) for onset in shown.onsets],
        "history": asdict(shown.history) if shown.history else None,
        "fleet": shown.fleet or None,
        "levels": [
            {
                "metric": plot.metric,
                "instance": plot.instance,
                "quantity": plot.quantity,
                "unit": plot.unit,
                **asdict(plot.levels),
            }
            for plot in shown.plots
        ],
        "instances": asdict(shown.picture) if shown.picture else None,
    }


def _trend(trend: Trend | None) -> dict[str, Any] | None:
    if trend is None:
        return None
    days = zip(trend.days, trend.counts, trend.host_days, strict=True)
    return {
        "budget": trend.budget,
        "days": [
            {"day": day, "incidents": count, "host_days": host_days, "allowed": trend.budget * host_days}
            for day, count, host_days in days
        ],
    }


def _host(host: HostReport) -> dict[str, Any]:
    return {
        "host": host.host,
        "start": host.start,
        "end": host.end,
        "windows": host.windows,
        "coverage": host.coverage,
        "gaps": [{"start": start, "end": end} for start, end in host.gaps],
        "channels": host.channels,
        "sources": [asdict(source) for source in host.sources],
        "quarantined": list(host.quarantined),
        "facts": dict(host.facts),
    }


def _fault(match: FaultMatch) -> dict[str, Any]:
    incident = match.incident
    return {
        "fault": match.fault.name,
        "host": match.fault.host,
        "subsystem": match.fault.subsystem,
        "causes": list(match.fault.right_causes),
        "start": match.fault.start,
        "end": match.fault.end,
        "found": match.found,
        "incident": incident.id if incident else None,
        "delay_s": match.delay_s,
        "found_subsystem": incident.subsystem if incident else None,
        "found_cause": incident.causes[0].id if incident and incident.causes else None,
        "subsystem_right": match.subsystem_right,
        "subsystem_rank": match.subsystem_rank,
        "cause_right": match.cause_right,
        "cause_rank": match.cause_rank,
    }


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: times as ISO 8601, no NaN, keys as text.

    Settings and host facts come from elsewhere, so anything may be in them; what JSON has no form for becomes
    text.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return [plain(item) for item in items]
    if hasattr(value, "tolist"):  # NumPy's numbers and arrays
        return plain(value.tolist())
    return str(value)
