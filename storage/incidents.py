"""Incidents at rest: one JSON file each, under the day on which it began."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from typing import Any

from reveal_core.errors import UsageError
from reveal_core.incidents import CauseFinding, Incident, MetricEvidence, SubsystemShare
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import INCIDENTS, date_part, incident_key, parse_date_part, quote_name, to_utc
from storage.quarantine import put_aside
from storage.segments import back

LOOK_BACK = timedelta(days=2)
"""An incident that began longer than this before a range is not looked for in it."""

_LISTS = ("evidence", "against", "commands", "checks", "same_signals")


def put_incident(backend: Backend, incident: Incident) -> str:
    """Store an incident, replacing an earlier state of the same; return its key."""
    key = incident_key(incident.id, incident.start)
    backend.write(key, to_json(incident.to_dict()))
    return key


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _time(text: str) -> datetime:
    return to_utc(datetime.fromisoformat(text))


def _known(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what a newer version may have added: its incidents stay readable while hosts are updated."""
    names = {field.name for field in fields(kind)}
    return {name: value for name, value in data.items() if name in names}


def _evidence(data: Mapping[str, Any]) -> MetricEvidence:
    numbers = {name: _number(data[name]) for name in ("value", "normal_low", "normal_high", "share")}
    return MetricEvidence(
        **{**_known(MetricEvidence, data), **numbers, "stands_for": tuple(data.get("stands_for", ()))}
    )


def _cause(data: Mapping[str, Any]) -> CauseFinding:
    lists = {name: tuple(data[name]) for name in _LISTS if name in data}
    return CauseFinding(**{**_known(CauseFinding, data), **lists, "confidence": _number(data["confidence"])})


def incident_from_dict(data: Mapping[str, Any]) -> Incident:
    """Return the incident that `Incident.to_dict` was called on; times are exact to the millisecond.

    Raises
    ------
    ValueError
        If the mapping is no incident.
    """
    try:
        return Incident(
            **{
                **_known(Incident, data),
                "start": _time(data["start"]),
                "end": _time(data["end"]),
                "probability": _number(data["probability"]),
                "score": _number(data["score"]),
                "subsystems": tuple(
                    SubsystemShare(s["name"], _number(s["share"])) for s in data["subsystems"]
                ),
                "metrics": tuple(_evidence(metric) for metric in data["metrics"]),
                "causes": tuple(_cause(cause) for cause in data.get("causes", ())),
                "detectors": {name: _number(value) for name, value in data.get("detectors", {}).items()},
            }
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an incident: {error}") from error


def read_incidents(
    backend: Backend, start: datetime, end: datetime, host: str | None = None
) -> list[Incident]:
    """Return the incidents that touch [start, end), by start; see `storage.store.Store.read_incidents`."""
    start, end = to_utc(start), to_utc(end)
    if start >= end:
        raise UsageError(f"the time range from {start.isoformat()} to {end.isoformat()} is empty")
    first = back(start, LOOK_BACK).astimezone(UTC).date()
    days = [
        day
        for day in (parse_date_part(name) for name in backend.names(INCIDENTS))
        if day is not None and first <= day <= end.date()
    ]
    folders = [f"{INCIDENTS}/{date_part(day)}" for day in days]
    listed = backend.each(backend.names, folders)
    keys = [
        f"{f}/{n}" for f, names in zip(folders, listed, strict=True) for n in names if n.endswith(".json")
    ]
    incidents = []
    for key, data in zip(keys, backend.each(backend.read, keys), strict=True):
        incident = _decoded(backend, key, data)
        if (
            incident is not None
            and incident.start < end
            and incident.end >= start
            and host in (None, incident.host)
        ):
            incidents.append(incident)
    return sorted(incidents, key=lambda incident: (incident.start, incident.host, incident.id))


def read_incident(backend: Backend, incident_id: str) -> Incident | None:
    """Return an incident by its id; see `storage.store.Store.read_incident`.

    An id begins with the time at which the incident began, which says under which day it lies; other days
    are looked at only where it does not.
    """
    for day in _likely_days(backend, incident_id):
        key = f"{INCIDENTS}/{date_part(day)}/{quote_name(incident_id)}.json"
        data = backend.read(key)
        if data is not None:
            return _decoded(backend, key, data)
    return None


def _likely_days(backend: Backend, incident_id: str) -> Iterator[date]:
    """Yield the day that an incident's id tells, then all others, which are listed only if need be."""
    told = None
    with contextlib.suppress(ValueError):
        told = datetime.strptime(incident_id[:8], "%Y%m%d").date()
        yield told
    for day in map(parse_date_part, backend.names(INCIDENTS)):
        if day is not None and day != told:
            yield day


def _decoded(backend: Backend, key: str, data: bytes | None) -> Incident | None:
    if data is None:
        return None
    try:
        return incident_from_dict(json.loads(data))
    except (ValueError, RecursionError) as error:
        put_aside(backend, key, data, str(error))
        return None
