"""Which hosts a store holds, and from when to when."""

from __future__ import annotations

import fnmatch
from datetime import UTC, datetime, timedelta
from functools import partial

from storage.backend import Backend
from storage.decode import EPOCH, decode_segment, to_ns
from storage.layout import LONGEST_SEGMENT, SegmentName, to_utc
from storage.segments import back, files_of_hour, host_hours, hosts_of_hour, hours, needed


def segment_span(backend: Backend, key: str) -> tuple[int, int] | None:
    """Return first and last time of a segment in ns since 1970; None if it holds none or cannot be read."""
    data = backend.read(key)
    if data is None:
        return None
    try:
        times = decode_segment(data, columns=()).frame.get_column("ts").to_physical()
    except ValueError:
        return None
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
        if host in found or start is None:
            continue
        last = needed(backend, host, start, end or datetime.max.replace(tzinfo=UTC)).segments
        spans = [span for span in (segment_span(backend, s.key) for s in last) if span is not None]
        if any(span[1] >= to_ns(start) for span in spans):
            found.add(host)
    return sorted(found)


def match_hosts(backend: Backend, pattern: str, start: datetime | None, end: datetime | None) -> list[str]:
    """Return the hosts that a glob names; see `storage.store.Store.match_hosts`."""
    return [host for host in hosts(backend, start, end) if fnmatch.fnmatchcase(host, pattern)]


def extent(backend: Backend, host: str) -> tuple[datetime, datetime] | None:
    """Return from when to when a host has telemetry; see `storage.store.Store.extent`."""
    first = _first_readable(backend, host, newest_first=False)
    last = _first_readable(backend, host, newest_first=True)
    if first is None or last is None:
        return None
    return (
        EPOCH + timedelta(microseconds=first[0] // 1000),
        EPOCH + timedelta(microseconds=last[1] // 1000 + 1),
    )


def _first_readable(backend: Backend, host: str, newest_first: bool) -> tuple[int, int] | None:
    for segments in host_hours(backend, host, newest_first):
        ordered: list[SegmentName] = sorted(segments, reverse=newest_first)
        for segment in ordered:
            span = segment_span(backend, segment.key)
            if span is not None:
                return span
    return None
