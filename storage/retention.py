"""Which hours of telemetry are due: to be removed, down-sampled or merged, and which must wait."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from reveal_core.importing.assemble import BOOT as IMPORTED
from reveal_core.incidents import iso
from reveal_core.ledger import Ledger, joined
from reveal_core.retention import Retention
from reveal_core.timespec import from_ns
from storage.backend import Backend
from storage.compaction import Judged, plan_groups
from storage.files import StoredFile, files_below
from storage.hosts import segment_head
from storage.layout import LONGEST_SEGMENT, TELEMETRY, hour_parts, parse_host_part
from storage.ledgers import read_ledger
from storage.rewriting import StoredSegment, stored_segments
from storage.segments import hours

HOUR = timedelta(hours=1)
SLIVER = timedelta(minutes=1)
"""So much that no run has judged keeps an hour from nothing: the first seconds after a start never are."""
_HOSTS_TOLD = 20

Action = Literal["remove", "downsample", "compact"]
Stretch = tuple[datetime, datetime]


@dataclass(frozen=True, order=True)
class HourWork:
    """What is due with the segments of a host that begin in an hour."""

    hour: datetime
    host: str
    action: Action


def due(
    stored: Sequence[StoredSegment], hour: datetime, now: datetime, retention: Retention
) -> tuple[Action | None, bool]:
    """Return what the age of an hour asks for, and whether that waits until the hour was judged.

    What waits does so no longer than ``retention.unjudged``. Down-sampled telemetry waits for nothing: it is
    too coarse to be judged. The age of telemetry that was imported counts from when it was written here, for
    nobody imports what is past its age to see it go.
    """
    # What begins in an hour may reach into the next.
    times = [one.written for one in stored if one.name.boot == IMPORTED]
    since = max([hour + HOUR + LONGEST_SEGMENT, *times])
    raw = any(not one.name.downsampled for one in stored)
    actions: tuple[tuple[Action, timedelta | None], ...] = (
        ("remove", retention.telemetry),
        ("downsample", retention.raw if raw else None),
    )
    for action, age in actions:
        if age is not None and since <= now - age:
            over = retention.unjudged is not None and since <= now - age - retention.unjudged
            return action, raw and not over
    return None, False


def unjudged(ledger: Ledger, start: datetime, end: datetime) -> list[Stretch]:
    """Return the stretches of [start, end) that no run has judged.

    What comes before all that was judged counts as judged, if anything was: no run goes back there, and
    ledgers forget what was judged long ago.
    """
    if not ledger.judged:
        return [(start, end)]
    holes = []
    at = max(start, ledger.judged[0][0])
    for since, until in ledger.judged:
        if since > at and at < end:
            holes.append((at, min(since, end)))
        at = max(at, until)
    if at < end:
        holes.append((at, end))
    return holes


def shared(one: Iterable[Stretch], other: Iterable[Stretch]) -> timedelta:
    """Return how long both of two sets of stretches last together; those of a set do not touch each other."""
    others = list(other)
    parts = (
        min(until, end) - max(since, start)
        for since, until in one
        for start, end in others
        if max(since, start) < min(until, end)
    )
    return sum(parts, timedelta(0))


def waits(backend: Backend, ledger: Ledger, hour: datetime, stored: Sequence[StoredSegment]) -> bool:
    """Tell whether telemetry that was collected in an hour was not judged yet."""
    holes = unjudged(ledger, hour, hour + HOUR + LONGEST_SEGMENT)
    if sum((end - start for start, end in holes), timedelta(0)) <= SLIVER:
        return False
    if not ledger.judged:
        return True
    # Most holes are those of the telemetry itself: a host that was down.
    there: tuple[Stretch, ...] = ()
    for one in stored:
        head = None if one.name.downsampled else segment_head(backend, one.name.key)
        if head is not None:
            there = joined(there, (from_ns(head.first_ns), from_ns(head.last_ns)), timedelta(0))
    return shared(holes, there) > SLIVER


def plan_telemetry(
    backend: Backend, wanted: Callable[[str], bool], retention: Retention, now: datetime, judged: Judged
) -> tuple[list[HourWork], list[str]]:
    """Return what is due with the telemetry of hosts, in order of time, and what is kept beyond its age.

    Parameters
    ----------
    backend
        The store.
    wanted
        Tells by its name whether a host is looked at.
    retention
        How long what is kept.
    now
        What ages count from.
    judged
        Which segments may be merged with each other; see `storage.compaction.plan_groups`.

    Raises
    ------
    UnavailableError
        If the store cannot be listed or read.
    """
    work: list[HourWork] = []
    waiting: list[tuple[HourWork, list[StoredSegment]]] = []
    for hour in hours(backend, end=now - HOUR):
        for host, files in _by_host(files_below(backend, f"{TELEMETRY}/{hour_parts(hour)}")):
            if not wanted(host):
                continue
            stored = stored_segments(files)
            action, must_wait = due(stored, hour, now, retention)
            if action is not None and must_wait:
                waiting.append((HourWork(hour, host, action), stored))
            elif action is not None:
                work.append(HourWork(hour, host, action))
            elif _compactable(stored, hour, now, retention, judged):
                work.append(HourWork(hour, host, "compact"))
    hosts = sorted({item.host for item, _ in waiting})
    ledgers = dict(zip(hosts, backend.each(partial(read_ledger, backend), hosts), strict=True))
    kept: dict[str, list[datetime]] = {}
    for item, stored in waiting:
        if not waits(backend, ledgers[item.host], item.hour, stored):
            work.append(item)
            continue
        kept.setdefault(item.host, []).append(item.hour)
        if _compactable(stored, item.hour, now, retention, judged):
            work.append(HourWork(item.hour, item.host, "compact"))
    return sorted(work), _told(kept, retention)


def _by_host(files: Iterable[StoredFile]) -> Iterable[tuple[str, list[StoredFile]]]:
    """Return the files of an hour by host; telemetry/date=…/hour=…/host=…/file."""
    found: dict[str, list[StoredFile]] = {}
    for file in files:
        parts = file.key.split("/")
        host = parse_host_part(parts[3]) if len(parts) == 5 else None
        if host is not None:
            found.setdefault(host, []).append(file)
    return found.items()


def _compactable(
    stored: Sequence[StoredSegment], hour: datetime, now: datetime, retention: Retention, judged: Judged
) -> bool:
    after = retention.compact_after
    return after is not None and hour + HOUR <= now - after and bool(plan_groups(stored, judged))


def _told(kept: dict[str, list[datetime]], retention: Retention) -> list[str]:
    """Return a line for each of the first hosts whose telemetry waits, and one for the others."""
    until = "until one has" if retention.unjudged is None else f"{_text(retention.unjudged)} longer at most"
    lines = []
    for host, times in sorted(kept.items()):
        count = "1 hour" if len(times) == 1 else f"{len(times)} hours"
        lines.append(
            f"{host}: telemetry of {count} from {iso(min(times))} on is past its age, but no run has judged "
            f"it; it stays {until}"
        )
    if len(lines) > _HOSTS_TOLD:
        lines[_HOSTS_TOLD:] = [f"{len(lines) - _HOSTS_TOLD} more hosts have telemetry that waits likewise"]
    return lines


def _text(span: timedelta) -> str:
    """Return a span as people write it.

    >>> _text(timedelta(days=7)), _text(timedelta(hours=36))
    ('7d', '36h')
    """
    seconds = span.total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds / length:g}{unit}"
    return f"{seconds:g}s"
