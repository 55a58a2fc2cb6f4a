"""Which hosts run which job, and when: what schedulers and people say of it, joined over imports.

Hosts that run the same jobs at the same time are peers (`reveal_core.peers`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from reveal_core.errors import UsageError
from reveal_core.incidents import iso

WORK_METRICS = (
    "perf.ipc",
    "memory.bandwidth",
    "*.memory_bandwidth",
    "*.mem_bw",
    "cpu.flops",
    "*.flops",
    "*.flops_any",
    "gpu.utilization",
    "imported.prometheus.DCGM_FI_PROF_*_ACTIVE",
    "imported.dcgmi.SMACT",
    "imported.dcgmi.TENSO",
    "imported.dcgmi.DRAMA",
)
"""Metrics of work done (shell patterns) in which hosts of a job must be alike; docs/jobs.md says why."""
LEAST_HOSTS = 4
"""Hosts that must run the same jobs to be compared: of three, one that differs cannot be told from two."""
LONGEST = timedelta(days=366)
"""A job that lasts longer is taken for a mistake in its times."""
OPEN_FOR = timedelta(days=1)
"""A job whose end nobody has told counts as running for so long after it was last seen."""


@dataclass(frozen=True)
class JobHost:
    """A host of a job, and which of its devices the job was given; none where nothing is said of them."""

    host: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """One run of a job.

    Attributes
    ----------
    id
        The scheduler's; with `start` it tells runs apart, for a job that is put back runs again.
    name
        What people call it; may be ``""``.
    start, end
        When it ran, UTC, exact to the millisecond; the end is None while nobody has told it.
    hosts
        Where, in order of name.
    source
        Who says so: ``csv``, ``slurm`` or ``kubernetes``.
    seen
        When it was last seen to run, for one whose end is not known.
    """

    id: str
    name: str
    start: datetime
    end: datetime | None
    hosts: tuple[JobHost, ...]
    source: str = ""
    seen: datetime | None = None

    @property
    def until(self) -> datetime:
        """Until when it counts as running."""
        if self.end is not None:
            return self.end
        return max(self.start, self.seen or self.start) + OPEN_FOR

    def touches(self, start: datetime, end: datetime) -> bool:
        """Tell whether it runs at any time of [``start``, ``end``)."""
        return self.start < end and self.until > start

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; times are ISO 8601 in UTC."""
        times = {name: iso(time) if (time := getattr(self, name)) else None for name in _TIMES}
        hosts = [{"host": one.host, "devices": list(one.devices)} for one in self.hosts]
        return {**asdict(self), "hosts": hosts, **times}


_TIMES = ("start", "end", "seen")


def new_job(
    where: str,
    *,
    id: str,
    name: str,
    start: datetime,
    end: datetime | None,
    hosts: Iterable[JobHost],
    source: str,
    seen: datetime,
) -> Job:
    """Return a job after a look at it; of a host that is named twice the devices are joined.

    Raises
    ------
    UsageError
        If it has no id or no host, or its times cannot be; the line begins with ``where``.
    """
    if not id:
        raise UsageError(f"{where}: a job without an id")
    devices: dict[str, dict[str, None]] = {}
    for one in hosts:
        if not one.host:
            raise UsageError(f"{where}: job {id} has a host without a name")
        devices.setdefault(one.host, {}).update(dict.fromkeys(one.devices))
    if not devices:
        raise UsageError(f"{where}: job {id} has no host")
    start, end = _to_ms(start), _to_ms(end) if end is not None else None
    if end is not None and end <= start:
        raise UsageError(f"{where}: job {id} ends ({iso(end)}) before it starts ({iso(start)})")
    if end is not None and end - start > LONGEST:
        raise UsageError(f"{where}: job {id} lasts for {(end - start).days} days; are its times right?")
    return Job(
        id=id,
        name=name,
        start=start,
        end=end,
        hosts=tuple(JobHost(host, tuple(sorted(devices[host]))) for host in sorted(devices)),
        source=source,
        seen=None if end is not None else _to_ms(seen),
    )


def _to_ms(time: datetime) -> datetime:
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def merged(known: Iterable[Job], new: Iterable[Job] = ()) -> tuple[Job, ...]:
    """Return the jobs that are known after an import, by start and id; the same import again changes nothing.

    Notes
    -----
    Runs of one id and start are one: what came later holds, but for an end that is known already, which an
    older list cannot know. Of one id one run is on at a time, so a run is over when the next begins, whether
    or not anybody has told.
    """
    runs: dict[str, dict[datetime, Job]] = {}
    for job in (*known, *new):
        mine = runs.setdefault(job.id, {})
        before = mine.get(job.start)
        mine[job.start] = job if before is None else _later(before, job)
    joined: list[Job] = []
    for mine in runs.values():
        ordered = [mine[start] for start in sorted(mine)]
        for run, following in zip(ordered, (*ordered[1:], None), strict=True):
            cut = following is not None and (run.end is None or run.end > following.start)
            joined.append(replace(run, end=following.start, seen=None) if cut and following else run)
    return tuple(sorted(joined, key=lambda job: (job.start, job.id)))


def _later(before: Job, job: Job) -> Job:
    """Return what is known of a run that was told of twice."""
    if job.end is None and before.end is not None:
        return replace(job, end=before.end, seen=None)
    if job.end is None and before.seen is not None and job.seen is not None:
        return replace(job, seen=max(before.seen, job.seen))
    return job


class JobTable:
    """Looks up what runs on a host at a time.

    Parameters
    ----------
    jobs
        In any order.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._runs: dict[str, list[tuple[datetime, datetime, str]]] = {}
        for job in jobs:
            for one in job.hosts:
                self._runs.setdefault(one.host, []).append((job.start, job.until, job.id))

    def at(self, host: str, time: datetime) -> tuple[tuple[str, ...], datetime | None]:
        """Return the ids of the jobs that ran on a host just before a time, and since when just these did.

        The time is None where the table tells of no change before.
        """
        running: set[str] = set()
        since: datetime | None = None
        for start, until, name in self._runs.get(host, ()):
            if start >= time:
                continue
            if until >= time:
                running.add(name)
            changed = start if until >= time else until
            since = changed if since is None else max(since, changed)
        return tuple(sorted(running)), since

    def during(self, host: str, start: datetime, end: datetime) -> tuple[str, ...]:
        """Return the ids of the jobs that ran on a host at any time of [``start``, ``end``]."""
        runs = self._runs.get(host, ())
        return tuple(sorted({name for since, until, name in runs if since <= end and until > start}))


def label_of(ids: Sequence[str]) -> str:
    """Return how jobs are named together; ``""`` of none.

    >>> label_of(("17", "18"))
    '17, 18'
    """
    return ", ".join(ids)


def job_of_facts(facts: Mapping[str, Any]) -> str:
    """Return the id of the job that telemetry itself names in its facts; ``""`` where it names none.

    >>> job_of_facts({"job": {"id": 4711, "name": "train"}}), job_of_facts({"job": {"task": "train"}})
    ('4711', '')
    """
    job = facts.get("job")
    name = job.get("id") if isinstance(job, Mapping) else None
    return str(name).strip() if isinstance(name, str | int) and not isinstance(name, bool) else ""


def together(
    jobs: Iterable[Job], own: Mapping[str, str], hosts: Iterable[str], least: int = LEAST_HOSTS
) -> list[list[str]]:
    """Return the hosts that may be peers, apart from those that cannot: hosts that share a job, in a chain.

    Parameters
    ----------
    jobs
        Of the time that is judged.
    own
        By host the job that its telemetry names, where it names one.
    hosts
        The hosts that were judged.
    least
        Groups of fewer hosts are left out.
    """
    known = sorted(set(hosts))
    above = {host: host for host in known}

    def top(host: str) -> str:
        while above[host] != host:
            above[host] = above[above[host]]
            host = above[host]
        return host

    members = [[one.host for one in job.hosts if one.host in above] for job in jobs]
    by_facts: dict[str, list[str]] = {}
    for host in known:
        if own.get(host):
            by_facts.setdefault(own[host], []).append(host)
    for group in (*members, *by_facts.values()):
        for host in group[1:]:
            above[top(host)] = top(group[0])
    groups: dict[str, list[str]] = {}
    for host in known:
        groups.setdefault(top(host), []).append(host)
    return [group for group in groups.values() if len(group) >= least]
