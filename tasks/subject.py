"""What an investigation is of, where it is told by an incident or an alert, and what to compare it with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time, without

AROUND = timedelta(seconds=60)
"""Looked at before and after an incident: what led to it, and how it ended."""
BEFORE = timedelta(hours=1)
"""How far back a healthy stretch is looked for."""
APART = timedelta(seconds=30)
"""Kept away from a known incident, and from what is investigated: incidents begin before they are seen."""
LEAST, MOST = timedelta(minutes=2), timedelta(minutes=30)
"""A baseline is at least so long, and cut to so much: the newest of it."""
ENOUGH = timedelta(minutes=10)
"""Of stretches at least so long the newest is taken; otherwise the longest."""
_HOST_LABELS = ("host", "instance", "node", "hostname")


def find_subject(
    store: str, *, incident: str | None, alert: Mapping[str, Any] | None, now: str | None = None
) -> dict[str, str]:
    """Looking up the incident.

    Parameters
    ----------
    store
        Root of the store.
    incident
        Id of an incident, or of any of its comings.
    alert
        What a webhook was sent: Reveal's own notice, or Alertmanager's; its first entry counts.
    now
        Until when an alert that is still on lasts, ISO 8601; the present if not given.

    Returns
    -------
    dict
        ``host``, ``start`` and ``end`` of the range to look at, ``incident`` (``""`` where none is known).

    Raises
    ------
    UsageError
        If the store has no such incident, or the alert does not say which host.
    UnavailableError
        If the store cannot be reached.
    """
    from storage.store import Store

    source = Store(store)
    source.check()
    told = _from_alert(alert, now) if alert is not None else {}
    wanted = incident or told.get("incident", "")
    found = source.read_incident(wanted) if wanted else None
    if found is not None:
        host, start, end = found.host, found.start, found.end
        entry = source.ledger(host).entry_of(wanted)
        if entry is not None and entry.id == wanted:  # the trouble as a whole, and of it the latest coming
            start, end = entry.start, entry.end
    elif told:
        host, start, end = told["host"], parse_time(told["start"]), parse_time(told["end"])
    else:
        raise UsageError(f"store {store} has no incident {wanted!r}")
    return {
        "host": host,
        "start": iso(start - AROUND),
        "end": iso(end + AROUND),
        "incident": found.id if found is not None else "",
    }


def _from_alert(alert: Mapping[str, Any], now: str | None) -> dict[str, str]:
    present = now or iso(datetime.now(UTC))
    entries = alert.get("entries")
    if isinstance(entries, list) and entries and isinstance(entries[0], Mapping):
        first = entries[0]
        return _told(first.get("host"), first.get("start"), first.get("end"), first.get("id"))
    alerts = alert.get("alerts")
    if isinstance(alerts, list) and alerts and isinstance(alerts[0], Mapping):
        first = alerts[0]
        labels = first.get("labels")
        labels = labels if isinstance(labels, Mapping) else {}
        host = next((labels[name] for name in _HOST_LABELS if labels.get(name)), None)
        if host is not None and "host" not in labels:
            host = str(host).rpartition(":")[0] or host  # Prometheus names a target with its port
        end = first.get("endsAt")
        # Alertmanager writes the year 1 where an alert is still on.
        over = isinstance(end, str) and not end.startswith("0001-")
        return _told(host, first.get("startsAt"), end if over else present, labels.get("incident"))
    raise UsageError(
        "this is no notice of Reveal's and none of Alertmanager's: it has neither entries nor alerts"
    )


def _told(host: Any, start: Any, end: Any, incident: Any) -> dict[str, str]:
    if not host or not isinstance(host, str):
        raise UsageError(f"the alert does not say which host: it has none of {', '.join(_HOST_LABELS)}")
    for name, time in (("start", start), ("end", end)):
        if not isinstance(time, str):
            raise UsageError(f"the alert about {host} has no {name}")
    begin, until = parse_time(start), parse_time(end)
    return {
        "host": host,
        "start": iso(begin),
        "end": iso(max(until, begin)),
        "incident": incident if isinstance(incident, str) else "",
    }


def choose_baseline(store: str, *, host: str, start: str) -> dict[str, str] | None:
    """Looking for a healthy stretch.

    Parameters
    ----------
    store
        Root of the store.
    host
        The host's label.
    start
        Beginning of what is investigated, ISO 8601.

    Returns
    -------
    dict or None
        ``start`` and ``end`` of telemetry within the hour before that no known incident touches; None where
        there are not two minutes of it.

    Raises
    ------
    UnavailableError
        If the store cannot be reached.
    """
    from storage.store import Store

    source = Store(store)
    until = parse_time(start) - APART
    extent = source.extent(host)
    if extent is None:
        return None
    since = max(extent[0], until - BEFORE)
    entries = source.read_entries([host], since, until) if since < until else []
    spans = [(e.start - APART, e.end + APART) for entry in entries for e in entry.episodes]
    free = [(a, b) for a, b in without(since, until, spans) if b - a >= LEAST]
    if not free:
        return None
    long = [span for span in free if span[1] - span[0] >= ENOUGH]
    begin, end = long[-1] if long else max(free, key=lambda span: span[1] - span[0])
    return {"start": iso(max(begin, end - MOST)), "end": iso(end)}
