"""Segments as they arrive, and how far those of each host have been judged."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache

from pydantic import TypeAdapter

from reveal_core.arrivals import Arrival, Watermark
from reveal_core.timespec import from_ns
from storage.backend import Backend
from storage.documents import to_json
from storage.hosts import segment_head
from storage.layout import LONGEST_SEGMENT, WATERMARKS, SegmentName, to_utc
from storage.segments import files_of_hour, hosts_of_hour, hours
from storage.typed import read_typed

_SAMPLE = timedelta(microseconds=1)
"""What lies just after the last sample of a segment, for ranges that end there."""


@cache
def _watermarks() -> TypeAdapter[dict[str, Watermark]]:
    return TypeAdapter(dict[str, Watermark])


def read_watermarks(backend: Backend) -> dict[str, Watermark]:
    """Return how far each host has been judged; see `storage.store.Store.watermarks`."""
    return read_typed(backend, WATERMARKS, _watermarks()) or {}


def put_watermarks(backend: Backend, watermarks: Mapping[str, Watermark]) -> str:
    """Store how far each host has been judged; return the key."""
    plain = {
        host: {"until": mark.until, "seen": [vars(run) for run in mark.seen]}
        for host, mark in sorted(watermarks.items())
    }
    backend.write(WATERMARKS, to_json(plain))
    return WATERMARKS


def arrivals(
    backend: Backend, pattern: str, since: datetime, until: datetime, watermarks: Mapping[str, Watermark]
) -> dict[str, list[Arrival]]:
    """Return the segments of each host that begin in a range; see `storage.store.Store.arrivals`."""
    since, until = to_utc(since), to_utc(until)
    folders = [
        (hour, host)
        for hour in hours(backend, since, until)
        for host in hosts_of_hour(backend, hour)
        if fnmatchcase(host, pattern)
    ]
    names: dict[str, list[SegmentName]] = {}
    for listing in backend.each(lambda folder: files_of_hour(backend, *folder), folders):
        for name in listing.segments:
            # What is thinned out was there before it was.
            if since <= name.start < until and not name.downsampled:
                names.setdefault(name.host, []).append(name)
    new = _new(backend, names, watermarks)
    return {
        host: [new.get(name.key) or _known(name) for name in sorted(found)]
        for host, found in sorted(names.items())
    }


def _known(name: SegmentName) -> Arrival:
    return Arrival(name.start, name.start, name.boot, name.sequence, new=False)


def _new(
    backend: Backend, names: Mapping[str, list[SegmentName]], watermarks: Mapping[str, Watermark]
) -> dict[str, Arrival]:
    """Return the segments that are new, by key.

    An agent begins a segment when it has ended the one before, so the next one's name tells when it ends;
    only where there is no next one is the file read.
    """
    ends: dict[str, tuple[SegmentName, datetime]] = {}
    unknown: list[SegmentName] = []
    for host, found in names.items():
        starts: dict[tuple[str, int], list[datetime]] = {}
        for name in sorted(found):
            starts.setdefault((name.boot, name.sequence), []).append(name.start)
        mark = watermarks.get(host)
        for name in found:
            if mark is not None and mark.has(name.boot, name.sequence, name.start):
                continue
            following = starts.get((name.boot, name.sequence + 1), ())
            near = [start for start in following if name.start < start <= name.start + LONGEST_SEGMENT]
            if near:
                ends[name.key] = name, near[0]
            else:
                unknown.append(name)
    new = {
        key: Arrival(name.start, end, name.boot, name.sequence, new=True) for key, (name, end) in ends.items()
    }
    heads = backend.each(lambda name: segment_head(backend, name.key), unknown)
    for name, head in zip(unknown, heads, strict=True):
        # One that cannot be read is planned all the same: whoever reads it moves it to quarantine.
        end = from_ns(head.last_ns) + _SAMPLE if head is not None else name.start + timedelta(seconds=1)
        facts = head.facts if head is not None else None
        new[name.key] = Arrival(name.start, end, name.boot, name.sequence, new=True, facts=facts)
    return new
