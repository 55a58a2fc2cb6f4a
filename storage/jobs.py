"""Jobs at rest, and what is kept to compare their hosts with each other.

Jobs that are over lie in one file for each day that they touch, so a question about an hour reads a day or
two; those whose end nobody has told lie in a file of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from functools import cache

from pydantic import TypeAdapter

from reveal_core.jobtable import Job, merged
from reveal_core.work import Work
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import (
    JOBS,
    OPEN_JOBS,
    STRAGGLERS,
    jobs_key,
    parse_date_part,
    to_utc,
    work_key,
)
from storage.typed import read_typed

_DAY = timedelta(days=1)
_MOMENT = timedelta(microseconds=1)


@cache
def _jobs() -> TypeAdapter[tuple[Job, ...]]:
    return TypeAdapter(tuple[Job, ...])


@cache
def _work() -> TypeAdapter[Work]:
    return TypeAdapter(Work)


@cache
def _stragglers() -> TypeAdapter[dict[str, tuple[str, ...]]]:
    return TypeAdapter(dict[str, tuple[str, ...]])


def _read(backend: Backend, keys: Sequence[str]) -> list[tuple[Job, ...]]:
    return backend.each(lambda key: read_typed(backend, key, _jobs()) or (), keys)


def _stored_days(backend: Backend) -> list[date]:
    names = backend.names(JOBS)
    days = (parse_date_part(name.removesuffix(".json")) for name in names)
    return [day for day in days if day is not None]


def read_jobs(backend: Backend, start: datetime | None, end: datetime | None) -> list[Job]:
    """Return the jobs that ran at any time of a range; see `storage.store.Store.jobs`."""
    since = to_utc(start) if start is not None else datetime.min.replace(tzinfo=UTC)
    until = to_utc(end) if end is not None else datetime.max.replace(tzinfo=UTC)
    days = [day for day in _stored_days(backend) if since.date() <= day <= until.date()]
    found = _read(backend, [OPEN_JOBS, *map(jobs_key, days)])
    every = merged(job for jobs in found for job in jobs)
    return [job for job in every if job.touches(since, until)]


def put_jobs(backend: Backend, jobs: Sequence[Job]) -> list[str]:
    """Store jobs beside those that are known; see `storage.store.Store.put_jobs`.

    Files of days are written before that of the jobs that are not over: after a kill in between a job may lie
    in both, and its end, which one of them knows, holds.
    """
    ids = {job.id for job in jobs}
    stored = set(_stored_days(backend))
    files: dict[date, tuple[Job, ...]] = {}

    def load(days: Iterable[date]) -> None:
        wanted = sorted(set(days) - set(files))
        there = [day for day in wanted if day in stored]
        files.update(zip(there, _read(backend, [jobs_key(day) for day in there]), strict=True))
        files.update({day: () for day in wanted if day not in stored})

    (open_jobs,) = _read(backend, [OPEN_JOBS])
    running = {(job.id, job.start) for job in open_jobs}
    # What ran before and still does is in no file of a day; lists of all that runs come every few minutes.
    changed = [job for job in jobs if job.end is not None or (job.id, job.start) not in running]
    load(day for job in changed for day in _days(job))
    # A run may end where another begins, on a day that nothing given speaks of: days are read until all that
    # these runs touch are, as the file of a day that was not read would lose what it holds of them.
    while True:
        same = [job for some in files.values() for job in some if job.id in ids]
        before = merged((*same, *(job for job in open_jobs if job.id in ids)))
        after = merged(before, jobs)
        over = [job for job in after if job.end is not None]
        missing = {day for job in (*same, *over) for day in _days(job)} - set(files)
        if not missing:
            break
        load(missing)
    keys = []
    for day, known in sorted(files.items()):
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        others = [job for job in known if job.id not in ids]
        mine = [job for job in over if job.touches(begin, begin + _DAY)]
        content = _ordered([*others, *mine])
        if content != known:
            keys.append(_put(backend, jobs_key(day), content))
    still = [job for job in after if job.end is None]
    content = _ordered([*(job for job in open_jobs if job.id not in ids), *still])
    if content != open_jobs:
        keys.append(_put(backend, OPEN_JOBS, content))
    return keys


def _days(job: Job) -> list[date]:
    """Return the days that a job touches, as far as it is known."""
    last = (job.end - _MOMENT if job.end is not None else max(job.start, job.seen or job.start)).date()
    first = job.start.date()
    return [first + n * _DAY for n in range((last - first).days + 1)]


def _ordered(jobs: Iterable[Job]) -> tuple[Job, ...]:
    return tuple(sorted(dict.fromkeys(jobs), key=lambda job: (job.start, job.id)))


def _put(backend: Backend, key: str, jobs: Sequence[Job]) -> str:
    backend.write(key, to_json([asdict(job) for job in jobs]))
    return key


def read_stragglers(backend: Backend) -> dict[str, tuple[str, ...]]:
    """Return which hosts are out of step at present, and in which jobs."""
    return read_typed(backend, STRAGGLERS, _stragglers()) or {}


def put_stragglers(backend: Backend, stragglers: Mapping[str, Sequence[str]]) -> str:
    """Store which hosts are out of step at present; return the key."""
    backend.write(
        STRAGGLERS, to_json({host: list(jobs) for host, jobs in sorted(stragglers.items()) if jobs})
    )
    return STRAGGLERS


def read_work(backend: Backend, host: str) -> Work | None:
    """Return what is known of what a host did lately; None if nothing is."""
    return read_typed(backend, work_key(host), _work())


def put_work(backend: Backend, work: Work) -> str:
    """Store what a host did lately in place of what was known; return the key."""
    key = work_key(work.host)
    backend.write(key, to_json(asdict(work)))
    return key
