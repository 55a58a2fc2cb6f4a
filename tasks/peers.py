"""The stages of comparing the hosts of a job: who are peers, and who is out of step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from reveal_core.errors import NoTelemetryError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.planning import NEWEST, WARM_UP

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from reveal_core.jobtable import Job
    from reveal_core.work import Range, Work
    from storage.store import Store

_SPARE_S = 3600.0
"""Minutes are kept for so much longer than hosts are compared over: telemetry may come late."""


@cache
def _jobs() -> TypeAdapter[list[Job]]:
    from pydantic import TypeAdapter

    from reveal_core.jobtable import Job

    return TypeAdapter(list[Job])


def find_peers(store: str, *, scored: list[dict[str, Any]], span_s: float) -> dict[str, Any]:
    """Looking for peers.

    Parameters
    ----------
    store
        Root of the store, with the table of jobs.
    scored
        Hosts that were scored: ``host``, ``start``, ``end``, and ``job``, the id of the job that their
        telemetry itself names, ``""`` where it names none.
    span_s
        Time over which hosts are compared, s.

    Returns
    -------
    dict
        ``groups``: hosts that may be peers, apart from those that cannot, each with ``hosts`` (of ``scored``)
        and ``jobs`` (plain); ``running``: by host the jobs that it runs at its end, ``""`` for none;
        ``known``: whether any job is, or anything is open of one; and ``notes``.

    Raises
    ------
    UnavailableError
        If the store cannot be reached.
    """
    from reveal_core.jobtable import JobTable, label_of, together
    from reveal_core.peers import needed
    from storage.store import Store

    source = Store(store)
    start, end = range_of(scored)
    jobs = source.jobs(needed(start, end, span_s)[0], end)
    table = JobTable(jobs)
    by_host = {item["host"]: item for item in scored}
    own = {host: item["job"] for host, item in by_host.items() if item["job"]}
    groups = []
    for hosts in together([job for job in jobs if job.touches(start, end)], own, by_host):
        members = set(hosts)
        mine = [job.to_dict() for job in jobs if any(one.host in members for one in job.hosts)]
        groups.append({"hosts": [by_host[host] for host in hosts], "jobs": mine})
    notes = []
    if jobs and not own and not any(one.host in by_host for job in jobs for one in job.hosts):
        notes.append(
            f"Jobs are known in this time, but on none of the hosts that were scored: jobs name "
            f"{jobs[0].hosts[0].host}, telemetry names {min(by_host)}."
        )
    return {
        "groups": groups,
        "running": {
            host: label_of(table.at(host, parse_time(item["end"]))[0]) or item["job"]
            for host, item in by_host.items()
        },
        "known": bool(jobs or own or source.stragglers()),
        "notes": notes,
    }


def range_of(items: Sequence[Mapping[str, Any]]) -> tuple[datetime, datetime]:
    """Return when the first of some ranges begins and the last ends."""
    return min(parse_time(item["start"]) for item in items), max(parse_time(item["end"]) for item in items)


def compare_peers(
    store: str,
    *,
    hosts: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
    metrics: list[str],
    span_s: float,
    threshold: float,
    effect: float,
) -> dict[str, Any]:
    """Comparing peers.

    Parameters
    ----------
    store
        Root of the store, where work of hosts is read and kept.
    hosts, jobs
        A group from `find_peers`.
    metrics
        Of work done, as shell patterns.
    span_s, threshold, effect
        As `reveal_core.peers.PeerRules` has them.

    Returns
    -------
    dict
        ``stragglers`` (plain `reveal_core.odd_hosts.Straggler`), ``judged`` (each ``host``, ``job`` and
        ``until``: its newest comparison), and ``threshold``.

    Raises
    ------
    UnavailableError
        If the store cannot be reached or written.
    """
    from reveal_core.jobtable import JobTable
    from reveal_core.peers import PeerRules, compare_hosts, needed
    from storage.store import Store

    target = Store(store)
    start, end = range_of(hosts)
    need = needed(start, end, span_s)
    known = target.works([item["host"] for item in hosts])
    found = compare_hosts(
        [_work(target, item, one, metrics, need, span_s) for item, one in zip(hosts, known, strict=True)],
        JobTable(_jobs().validate_python(jobs)),
        {item["host"]: item["job"] for item in hosts if item["job"]},
        start,
        end,
        PeerRules(span_s=span_s, threshold=threshold, effect=effect),
    )
    return {
        "stragglers": [
            {**asdict(one), "start": iso(one.start), "end": iso(one.end)} for one in found.stragglers
        ],
        "judged": [{**asdict(one), "until": iso(one.until)} for one in found.judged],
        "threshold": threshold,
    }


def _work(
    target: Store,
    item: Mapping[str, Any],
    known: Work | None,
    metrics: Sequence[str],
    need: Range,
    span_s: float,
) -> Work:
    """Return what a host did over the time that is needed; only what is new in it is read."""
    from reveal_core.work import MINUTE, Work, chosen_by, floor_minute, joined, to_look_at, work_of

    fresh = floor_minute(parse_time(item["start"])), floor_minute(parse_time(item["end"])) + MINUTE
    wanted = to_look_at(known, metrics, need, fresh)
    if wanted is None and known is not None:
        return known
    since, last = wanted or need
    found = Work(item["host"], tuple(metrics), since, (last - since) // MINUTE)
    while since < last:  # hour by hour: days of the counters of all cores at once would not fit into memory
        until = min(since + NEWEST, last)
        try:
            read = target.read_telemetry(item["host"], since - WARM_UP, until, columns=chosen_by(metrics))
            found = joined(found, work_of(read.telemetry, metrics, since, until))
        except NoTelemetryError:
            pass  # the minutes are known to hold nothing
        since = until
    if known is not None and wanted != need:
        found = joined(known, found)
    if known is None or known.patterns != found.patterns or found.last >= known.last:
        target.put_work(found.latest(round((span_s + _SPARE_S) / 60.0)))
    return found
