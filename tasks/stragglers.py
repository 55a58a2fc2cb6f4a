"""The stage after comparing the hosts of a job: who is out of step is an incident until it no longer is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from reveal_core.incidents import OPEN, RESOLVED, STRAGGLER
from reveal_core.timespec import parse_time
from tasks.peers import range_of
from tasks.planning import NEWEST

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from reveal_core.ledger import Ledger
    from reveal_core.odd_hosts import Straggler
    from storage.store import Store

GIVEN_UP = timedelta(days=1)
"""A straggler that was not compared for so long is no open incident any more."""


@cache
def _stragglers() -> TypeAdapter[list[Straggler]]:
    from pydantic import TypeAdapter

    from reveal_core.odd_hosts import Straggler

    return TypeAdapter(list[Straggler])


def note_stragglers(
    store: str,
    *,
    scored: list[dict[str, Any]],
    running: dict[str, str],
    compared: list[dict[str, Any]],
    span_s: float,
) -> dict[str, list[str]]:
    """Noting stragglers.

    What was found is an incident of its host until comparisons no longer name it; and incidents that windows
    show are told the job that the host ran.

    Parameters
    ----------
    store
        Root of the store.
    scored
        Hosts that were scored, as `tasks.peers.find_peers` takes them, each with ``incidents`` (ids).
    running
        From `tasks.peers.find_peers`.
    compared
        From `tasks.peers.compare_peers`, of every group.
    span_s
        As `tasks.peers.find_peers` takes it.

    Returns
    -------
    dict
        By host the ids of its incidents as a straggler that were found, or are still on.

    Raises
    ------
    UnavailableError
        If the store cannot be reached or written.
    """
    from reveal_core.attribute.stragglers import end_straggler, note_straggler, straggler_incident
    from reveal_core.peers import patience
    from storage.store import Store

    target = Store(store)
    found: dict[str, list[tuple[Straggler, float]]] = {}
    judged: dict[str, tuple[str, datetime]] = {}
    for part in compared:
        for one in _stragglers().validate_python(part["stragglers"]):
            found.setdefault(one.host, []).append((one, part["threshold"]))
        judged |= {one["host"]: (one["job"], parse_time(one["until"])) for one in part["judged"]}
    ends = {item["host"]: parse_time(item["end"]) for item in scored}
    before = target.stragglers()
    after: dict[str, tuple[str, ...]] = {}
    ids: dict[str, list[str]] = {}
    for host in sorted({*found, *before}):
        known = ledger = target.ledger(host)
        for one, threshold in sorted(found.get(host, ()), key=lambda pair: pair[0].start):
            incident = straggler_incident(one, ledger, threshold=threshold)
            ids.setdefault(host, []).append(incident.id)
            if any(entry.has(incident.id) and entry.end > incident.end for entry in ledger.entries):
                continue  # an old stretch was judged again, and more is known of it by now
            target.put_incident(incident)
            ledger = note_straggler(ledger, incident)
        on = {one.job for one, _ in found.get(host, ()) if one.on}
        for job, end in _open(ledger).items():
            over = _over_at(host, job, end, on, judged, running, ends, patience(span_s))
            if over is not None:
                ledger = end_straggler(ledger, job, over)
        if ledger != known:
            _close(target, known, ledger)
            target.put_ledger(ledger)
        after[host] = tuple(sorted(_open(ledger)))
        if host in ends and host not in ids:
            ids[host] = _still_on(target, ledger)
    kept = {host: jobs for host, jobs in after.items() if jobs}
    if kept != before:
        target.put_stragglers(kept)
    _name_jobs(target, scored)
    return {host: list(dict.fromkeys(mine)) for host, mine in ids.items()}


def _open(ledger: Ledger) -> dict[str, datetime]:
    """Return the jobs in which a host is out of step, with the end of what was found last."""
    return {
        entry.job: entry.end for entry in ledger.entries if entry.cause == STRAGGLER and entry.state == OPEN
    }


def _still_on(target: Store, ledger: Ledger) -> list[str]:
    """Return the incidents of a host that this run does not name and that are not over yet."""
    names = [
        entry.episodes[-1].incidents[-1]
        for entry in ledger.entries
        if entry.cause == STRAGGLER and entry.state == OPEN
    ]
    return [name for name in names if target.read_incident(name) is not None]


def _over_at(
    host: str,
    job: str,
    end: datetime,
    on: Iterable[str],
    judged: Mapping[str, tuple[str, datetime]],
    running: Mapping[str, str],
    ends: Mapping[str, datetime],
    calm: timedelta,
) -> datetime | None:
    """Return when a straggler was found to be none any more; None if it was not.

    It is over when comparisons in the same job have not named it for a while, when the host runs the job no
    longer, and when nobody compared it for a day.
    """
    if job in on:
        return None
    if host in judged and judged[host][0] == job:
        return judged[host][1] if judged[host][1] - end >= calm else None
    if host in ends and running.get(host) != job:
        return ends[host]
    now = max(ends.values())
    return now if now - end > GIVEN_UP else None


def _close(target: Store, before: Ledger, after: Ledger) -> None:
    """Let the incidents of entries that are over now say so themselves."""
    states = {entry.id: entry.state for entry in before.entries}
    for entry in after.entries:
        if entry.state != RESOLVED or states.get(entry.id) != OPEN or not entry.episodes[-1].incidents:
            continue
        incident = target.read_incident(entry.episodes[-1].incidents[-1])
        if incident is not None and incident.state == OPEN:
            target.put_incident(replace(incident, state=RESOLVED))


def _name_jobs(target: Store, scored: Sequence[Mapping[str, Any]]) -> None:
    """Tell incidents that windows show, and their entries, the job that the host ran meanwhile."""
    from reveal_core.jobtable import JobTable, label_of

    struck = [item for item in scored if item["incidents"]]
    if not struck:
        return
    start, end = range_of(struck)
    table = JobTable(target.jobs(start - NEWEST, end))
    for item in struck:
        ledger = known = target.ledger(item["host"])
        for incident in filter(None, map(target.read_incident, item["incidents"])):
            ids = table.during(item["host"], incident.start, incident.end)
            label = label_of(ids) or item["job"]
            if not label or incident.cause == STRAGGLER:
                continue
            if incident.job != label:
                target.put_incident(replace(incident, job=label))
            entries = (
                replace(entry, job=label) if entry.has(incident.id) and entry.cause != STRAGGLER else entry
                for entry in ledger.entries
            )
            ledger = replace(ledger, entries=tuple(entries))
        if ledger != known:
            target.put_ledger(ledger)
