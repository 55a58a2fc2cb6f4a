"""Which hosts a store holds, and from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import polars as pl

from storage.backend import Backend
from storage.decode import EPOCH, decode_file, decode_segment, to_ns
from storage.layout import LONGEST_SEGMENT, SegmentName, floor_hour, to_utc
from storage.segments import (
    LISTINGS,
    back,
    files_of_hour,
    host_hours,
    hosts_of_hour,
    hours,
    needed,
    restless,
)


@dataclass(frozen=True)
class SegmentHead:
    """What a segment says without its samples: first and last time, ns since 1970, and its host's facts."""

    first_ns: int
    last_ns: int
    facts: dict[str, Any]


def segment_head(backend: Backend, key: str) -> SegmentHead | None:
    """Return the head of a segment; None if it holds no sample or cannot be read."""
    data = backend.read(key)
    return _head_of(data) if data is not None else None


def _head_of(data: bytes) -> SegmentHead | None:
    try:
        segment = decode_segment(data, columns=())
    except ValueError:
        return None
    span = _span(segment.frame)
    return SegmentHead(*span, segment.facts) if span is not None else None


def _span(frame: pl.DataFrame) -> tuple[int, int] | None:
    times = frame.get_column("ts").to_physical()
    return (int(times.min()), int(times.max())) if len(times) else None  # type: ignore[arg-type]


def hosts(backend: Backend, start: datetime | None = None, end: datetime | None = None) -> list[str]:
    """Return the hosts that have telemetry in [start, end), sorted; see `storage.store.Store.hosts`."""
    low = None if start is None else back(to_utc(start), LONGEST_SEGMENT)
    found: set[str] = set()
    spilling: dict[str, None] = {}
    for hour in sorted(hours(backend, low, end), reverse=True):
        unknown = [host for host in hosts_of_hour(backend, hour) if host not in found]
        listings = backend.each(partial(files_of_hour, backend, hour), unknown)
        for host, listing in zip(unknown, listings, strict=True):
            begun = [s for s in listing.segments if end is None or s.start < to_utc(end)]
            if any(start is None or s.start >= to_utc(start) for s in begun):
                found.add(host)
            elif begun:
                spilling[host] = None
    # These hosts began no segment in the range; one that began before it may still reach into it.
    for host in spilling:
        if host not in found and start is not None and _reaches(backend, host, start, end):
            found.add(host)
    return sorted(found)


def _reaches(backend: Backend, host: str, start: datetime, end: datetime | None) -> bool:
    """Tell whether a host has samples of [start, end) that can be read."""
    until = end or datetime.max.replace(tzinfo=UTC)
    low, high = to_ns(start), to_ns(until)
    gone: set[SegmentName] = set()
    for _ in range(LISTINGS):
        before = len(gone)
        for name in needed(backend, host, start, until).segments:
            data = backend.read(name.key)
            if data is None:
                gone.add(name)
            elif any(first < high and last >= low for first, last in _part_spans(name, data)):
                return True
        if len(gone) == before:
            return False
    raise restless(backend, host)


def _part_spans(name: SegmentName, data: bytes) -> list[tuple[int, int]]:
    try:
        file = decode_file(data, name, columns=())
    except ValueError:
        return []
    return [span for _, segment in file.parts if (span := _span(segment.frame)) is not None]


def extents(backend: Backend, hosts: Sequence[str]) -> list[tuple[datetime, datetime] | None]:
    """Return from when to when hosts have telemetry; see `storage.store.Store.extent`."""
    every = hours(backend)
    return backend.each(partial(_extent, backend, every), hosts)


def extent(backend: Backend, host: str) -> tuple[datetime, datetime] | None:
    """Return from when to when a host has telemetry; see `storage.store.Store.extent`."""
    return _extent(backend, hours(backend), host)


def _extent(backend: Backend, every: Sequence[datetime], host: str) -> tuple[datetime, datetime] | None:
    first = _first_readable(backend, host, every, newest_first=False)
    last = _first_readable(backend, host, every, newest_first=True)
    if first is None or last is None:
        return None
    return (
        EPOCH + timedelta(microseconds=first.first_ns // 1000),
        EPOCH + timedelta(microseconds=last.last_ns // 1000 + 1),
    )


def _first_readable(
    backend: Backend, host: str, every: Sequence[datetime], *, newest_first: bool
) -> SegmentHead | None:
    for segments in host_hours(backend, host, every, newest_first):
        hour = floor_hour(segments[0].start)
        gone: set[SegmentName] = set()
        for _ in range(LISTINGS):
            before = len(gone)
            head = _edge(backend, segments, gone, newest_first)
            if head is not None:
                return head
            if len(gone) == before:
                break
            segments = files_of_hour(backend, hour, host).segments  # merged, or removed, since it was listed
        else:
            raise restless(backend, host)
    return None


def _edge(
    backend: Backend, segments: Sequence[SegmentName], gone: set[SegmentName], newest_first: bool
) -> SegmentHead | None:
    """Return the head of the first segment that can be read; None, too, if one was gone, which is noted."""
    if newest_first:
        ordered = sorted(segments, key=lambda name: (name.last_start, name), reverse=True)
    else:
        ordered = sorted(segments)
    for name in ordered:
        data = backend.read(name.key)
        if data is None and name not in gone:
            gone.add(name)
            return None
        head = _head_of(data) if data is not None else None
        if head is not None:
            return head
    return None
