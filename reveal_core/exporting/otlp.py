"""Incidents as OTLP logs and scores of hosts as OTLP metrics, in the protocol's JSON encoding.

Fields are in lowerCamelCase and 64-bit integers are strings, as the protocol says
(https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding). Everything is a function of what the store
holds: no time is the present's, so the same export gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import polars as pl

from reveal_core.alerts import URGENT, described
from reveal_core.exporting.fleet import UNKNOWN, ratios
from reveal_core.incidents import OPEN, Incident, iso
from reveal_core.ledger import Entry
from reveal_core.timespec import to_ns

SCOPE = "reveal"
EVENT = "reveal.incident"
"""Name of the event that a log record of an incident is."""
SCORE, COVERAGE = "reveal.host.score", "reveal.host.coverage"
MOST_RECORDS = 200
"""Log records of a request: each holds some kilobytes, and collectors bound what they take at once."""
MOST_POINTS = 5000
"""Data points of a request."""
_WARN, _ERROR = (13, "WARN"), (17, "ERROR")
"""Severity numbers and texts of the log data model."""

Change = Literal["opened", "resolved"]


@dataclass(frozen=True)
class Told:
    """A change of an incident that becomes a log record.

    Attributes
    ----------
    at
        When it happened.
    change
        Whether it began or was found to be over.
    entry
        The incident over all runs.
    incident
        Its strongest window's explanation; None where that is gone.
    """

    at: datetime
    change: Change
    entry: Entry
    incident: Incident | None = None


@dataclass(frozen=True)
class Step:
    """Scores of a host over a step of time.

    Attributes
    ----------
    end
        When the step ends, ns since 1970.
    score
        Highest score over threshold of a window that begins in it; None where none has one.
    coverage
        Mean share of the samples due that came.
    """

    end: int
    score: float | None
    coverage: float


def changes(entries: Iterable[Entry], start: datetime, end: datetime) -> list[tuple[datetime, Change, Entry]]:
    """Return what happened to incidents in [``start``, ``end``), in order; adjoining ranges share nothing."""
    found: list[tuple[datetime, Change, Entry]] = []
    for entry in entries:
        if start <= entry.first < end:
            found.append((entry.first, "opened", entry))
        if entry.state != OPEN and entry.cleared is not None and start <= entry.cleared < end:
            found.append((entry.cleared, "resolved", entry))
    return sorted(found, key=lambda one: (one[0], one[2].host, one[2].id, one[1]))


def steps_of(frame: pl.DataFrame, step_ns: int) -> list[Step]:
    """Return scores of a host by step, in order; steps without a window are left out.

    Parameters
    ----------
    frame
        ``start``, ``coverage``, ``fused`` and ``threshold`` of windows.
    step_ns
        Length of a step, ns; steps lie on multiples of it since 1970.
    """
    number = pl.col("start").to_physical() // step_ns
    highest = ratios(frame).group_by(number=number).agg(pl.col("ratio").max())
    mean = frame.group_by(number=number).agg(pl.col("coverage").mean()).sort("number")
    found: list[Step] = []
    for row in mean.join(highest, on="number", how="left").sort("number").iter_rows(named=True):
        coverage = row["coverage"]
        if coverage is not None and math.isfinite(coverage):
            found.append(Step((row["number"] + 1) * step_ns, row["ratio"], coverage))
    return found


def log_requests(told: Iterable[Told], version: str) -> list[dict[str, Any]]:
    """Return changes of incidents as requests of the logs service, in the order given."""
    every = list(told)
    return [
        {
            "resourceLogs": [
                {
                    "resource": _resource(host),
                    "scopeLogs": [
                        {"scope": _scope(version), "logRecords": [_record(one) for one in of_host]}
                    ],
                }
                for host, of_host in _by_host(every[first : first + MOST_RECORDS]).items()
            ]
        }
        for first in range(0, len(every), MOST_RECORDS)
    ]


def metric_requests(host: str, steps: Sequence[Step], version: str) -> list[dict[str, Any]]:
    """Return the scores of a host as requests of the metrics service, in order of time."""
    found: list[dict[str, Any]] = []
    for first in range(0, len(steps), MOST_POINTS // 2):
        some = steps[first : first + MOST_POINTS // 2]
        scores = [_point(step.end, step.score) for step in some if step.score is not None]
        coverages = [_point(step.end, step.coverage) for step in some]
        metrics = [
            _gauge(SCORE, "Highest score over threshold of the step; an alarm from 1 on", scores),
            _gauge(COVERAGE, "Samples that came, of those due", coverages),
        ]
        metrics = [metric for metric in metrics if metric["gauge"]["dataPoints"]]
        scope = {"scope": _scope(version), "metrics": metrics}
        found.append({"resourceMetrics": [{"resource": _resource(host), "scopeMetrics": [scope]}]})
    return found


def count_of(request: Mapping[str, Any]) -> int:
    """Return how many log records or data points a request holds."""
    logs = sum(
        len(scope["logRecords"]) for one in request.get("resourceLogs", ()) for scope in one["scopeLogs"]
    )
    points = sum(
        len(metric["gauge"]["dataPoints"])
        for one in request.get("resourceMetrics", ())
        for scope in one["scopeMetrics"]
        for metric in scope["metrics"]
    )
    return logs + points


def _by_host(told: Iterable[Told]) -> dict[str, list[Told]]:
    found: dict[str, list[Told]] = {}
    for one in told:
        found.setdefault(one.entry.host, []).append(one)
    return found


def _resource(host: str) -> dict[str, Any]:
    return {"attributes": [_attribute("service.name", "reveal"), _attribute("host.name", host)]}


def _scope(version: str) -> dict[str, Any]:
    return {"name": SCOPE, "version": version}


def _gauge(name: str, description: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": name, "description": description, "unit": "1", "gauge": {"dataPoints": points}}


def _point(end: int, value: float) -> dict[str, Any]:
    return {"timeUnixNano": str(end), "asDouble": value}


def _record(told: Told) -> dict[str, Any]:
    entry = told.entry
    number, text = _ERROR if entry.action in URGENT else _WARN
    if told.change == "resolved":
        number, text = 9, "INFO"
    word = "" if told.change == "opened" else "Over: "
    at = str(to_ns(told.at))
    return {
        "timeUnixNano": at,
        "observedTimeUnixNano": at,
        "severityNumber": number,
        "severityText": text,
        "eventName": EVENT,
        "body": {"stringValue": f"{word}{described(entry)} on {entry.host}"},
        "attributes": [_attribute(key, value) for key, value in _told_of(told).items() if value is not None],
    }


def _told_of(told: Told) -> dict[str, Any]:
    """Return what is told of an incident by attribute; None for what is not known."""
    entry = told.entry
    resolved = told.change == "resolved"
    cause = told.incident.causes[0] if told.incident is not None and told.incident.causes else None
    return {
        "reveal.incident.id": entry.id,
        "reveal.incident.fingerprint": entry.fingerprint,
        "reveal.incident.state": told.change,
        "reveal.incident.start": iso(entry.first),
        "reveal.incident.end": iso(entry.end) if resolved else None,
        "reveal.incident.count": entry.count if resolved else None,
        "reveal.incident.subsystem": entry.subsystem,
        "reveal.incident.cause": entry.cause or UNKNOWN,
        "reveal.incident.title": described(entry),
        "reveal.incident.action": entry.action or None,
        "reveal.incident.severity": entry.severity,
        "reveal.incident.score": _finite(entry.score),
        "reveal.incident.probability": _finite(entry.probability),
        "reveal.incident.metrics": list(entry.metrics) or None,
        "reveal.incident.confidence": _finite(cause.confidence) if cause is not None else None,
        "reveal.incident.evidence": list(cause.evidence) or None if cause is not None else None,
        "reveal.incident.fix": cause.fix or None if cause is not None else None,
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _attribute(key: str, value: str | int | float | list[str]) -> dict[str, Any]:
    if isinstance(value, list):
        return {"key": key, "value": {"arrayValue": {"values": [{"stringValue": one} for one in value]}}}
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value}}
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    return {"key": key, "value": {"doubleValue": value}}
