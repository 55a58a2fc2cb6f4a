"""Finding telemetry segments by listing: which hosts and hours there are, which files a range needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reveal_core.errors import UnavailableError
from storage.backend import Backend
from storage.layout import (
    LONGEST_SEGMENT,
    TELEMETRY,
    SegmentName,
    date_part,
    floor_hour,
    host_folder,
    hour_parts,
    parse_date_part,
    parse_host_part,
    parse_hour_part,
    parse_segment_key,
    to_utc,
)

LISTINGS = 20
"""How often files are listed anew because one of them was gone when it was to be read."""
_FIRST_HOURS, _MOST_HOURS = 2, 32
"""Hours of a host that are listed at once: few at first, for most often the newest are asked for."""


@dataclass(frozen=True)
class Listing:
    """Files of one host that a time range needs.

    Attributes
    ----------
    segments
        Sorted by time.
    misnamed
        Keys of Parquet files whose name is no segment's.
    """

    segments: list[SegmentName]
    misnamed: list[str]


def back(time: datetime, span: timedelta) -> datetime:
    """Return a time moved back, at the earliest the beginning of the calendar."""
    earliest = datetime.min.replace(tzinfo=UTC)
    return time - span if time - earliest > span else earliest


def hours(backend: Backend, start: datetime | None = None, end: datetime | None = None) -> list[datetime]:
    """Return the hours that hold telemetry of any host and touch [start, end), sorted."""
    low = floor_hour(start) if start is not None else None
    high = to_utc(end) if end is not None else None
    days = [
        day
        for day in (parse_date_part(name) for name in backend.names(TELEMETRY))
        if day is not None and (low is None or day >= low.date()) and (high is None or day <= high.date())
    ]
    listed = backend.each(lambda day: backend.names(f"{TELEMETRY}/{date_part(day)}"), days)
    found = [
        datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
        for day, names in zip(days, listed, strict=True)
        for hour in map(parse_hour_part, names)
        if hour is not None
    ]
    return sorted(hour for hour in found if (low is None or hour >= low) and (high is None or hour < high))


def hosts_of_hour(backend: Backend, hour: datetime) -> list[str]:
    """Return the hosts that have a folder in an hour; the folder may be empty."""
    names = backend.names(f"{TELEMETRY}/{hour_parts(hour)}")
    return [host for host in map(parse_host_part, names) if host is not None]


def files_of_hour(backend: Backend, hour: datetime, host: str) -> Listing:
    """Return the files of one host in one hour's partition."""
    folder = host_folder(hour, host)
    keys = [f"{folder}/{name}" for name in backend.names(folder) if name.endswith(".parquet")]
    parsed = [(key, parse_segment_key(key)) for key in keys]
    return Listing(
        segments=sorted(name for _, name in parsed if name is not None),
        misnamed=[key for key, name in parsed if name is None],
    )


def host_hours(
    backend: Backend, host: str, every: Sequence[datetime], newest_first: bool = False
) -> Iterator[list[SegmentName]]:
    """Yield the segments of every hour in which the host has some, oldest or newest hour first.

    Parameters
    ----------
    backend, host
        Whose segments, and where.
    every
        The hours that hold telemetry of any host, from `hours`: listed once for all hosts that are asked for.
    newest_first
        In which order.
    """
    ordered = sorted(every, reverse=newest_first)
    first, count = 0, _FIRST_HOURS
    while first < len(ordered):
        for listing in backend.each(
            lambda hour: files_of_hour(backend, hour, host), ordered[first : first + count]
        ):
            if listing.segments:
                yield listing.segments
        first, count = first + count, min(2 * count, _MOST_HOURS)


def needed(backend: Backend, host: str, start: datetime, end: datetime) -> Listing:
    """Return the files of one host that may hold samples of [start, end).

    A segment that begins before ``start`` may reach into the range. Of those, the ones whose successor (same
    boot, next number) also begins before ``start`` are left out: an agent begins a segment only when it has
    ended the one before.
    """
    start, end = to_utc(start), to_utc(end)
    earliest = back(start, LONGEST_SEGMENT)
    listings = backend.each(lambda hour: files_of_hour(backend, hour, host), hours(backend, earliest, end))
    segments = [s for listing in listings for s in listing.segments if earliest <= s.start < end]
    # A name holds milliseconds, so what is named like the start may begin up to 1 ms after it.
    latest = {
        (s.boot, s.sequence): s.start for s in segments if s.start <= back(start, timedelta(milliseconds=1))
    }
    kept = [s for s in segments if latest.get((s.boot, s.last_sequence + 1), earliest) <= s.last_start]
    return Listing(segments=sorted(kept), misnamed=[key for listing in listings for key in listing.misnamed])


def restless(backend: Backend, host: str) -> UnavailableError:
    """Return the error of a reader whose files are gone each time that it comes to read them."""
    return UnavailableError(
        f"store {backend.shown}: the files of host {host!r} change faster than they can be read"
    )
