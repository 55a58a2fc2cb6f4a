"""Times and durations as people write them on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from reveal_core.errors import UsageError

FOREVER = "forever"
_LONGEST_AGE_S = 100 * 365.25 * 86400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])")


def parse_duration(text: str) -> float:
    """Return a duration in seconds.

    Parameters
    ----------
    text
        A number with a unit (``100ms``, ``30s``, ``1.5h``) or several in a row (``1h30m``).

    Raises
    ------
    UsageError
        If the text is no duration, or not longer than zero.

    Examples
    --------
    >>> parse_duration("1h30m")
    5400.0
    """
    if not re.fullmatch(rf"(?:{_PART.pattern})+", text.strip()):
        raise UsageError(f"{text!r} is not a duration: write for example 100ms, 30s, 5m or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds <= 0:
        raise UsageError(f"{text!r} is not a duration: it must be longer than zero")
    return seconds


def parse_age(text: str) -> timedelta | None:
    """Return how long something is kept; None for ever.

    Parameters
    ----------
    text
        A duration as `parse_duration` takes it (``30d``), or ``forever``.

    Raises
    ------
    UsageError
        If the text is neither, or longer than a hundred years.

    Examples
    --------
    >>> parse_age("30d")
    datetime.timedelta(days=30)
    """
    if text.strip() == FOREVER:
        return None
    seconds = parse_duration(text)
    if seconds > _LONGEST_AGE_S:
        raise UsageError(f"{text!r} is longer than a hundred years: write {FOREVER}")
    return timedelta(seconds=seconds)


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Return a time in UTC.

    Parameters
    ----------
    text
        ISO 8601 (UTC if no zone is given), ``now``, or relative to now: ``-1h``, ``-90s``, ``+4h``.
    now
        What relative times count from; the present if not given.

    Raises
    ------
    UsageError
        If the text is no time.
    """
    now = now or datetime.now(UTC)
    stripped = text.strip()
    if stripped == "now":
        return now
    if stripped.startswith(("-", "+")):
        distance = parse_duration(stripped[1:])
        try:
            return now + timedelta(seconds=distance if stripped[0] == "+" else -distance)
        except OverflowError:
            raise UsageError(f"{text!r} lies before the year 1 or after the year 9999") from None
    try:
        time = datetime.fromisoformat(stripped)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time: write ISO 8601 (2026-11-29T20:15:00Z) or relative to now (-1h)"
        ) from None
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def to_ns(time: datetime) -> int:
    """Return an aware time as ns since the epoch, exact to the microsecond that it keeps."""
    return round(time.timestamp() * 1e6) * 1000


def from_ns(ns: int) -> datetime:
    """Return a time in ns since the epoch as a datetime in UTC, cut to microseconds."""
    return _EPOCH + timedelta(microseconds=ns // 1000)


def without(
    start: datetime, end: datetime, spans: Iterable[tuple[datetime, datetime]]
) -> list[tuple[datetime, datetime]]:
    """Return what is left of a range without some spans, in order.

    >>> hours = [datetime(2026, 11, 29, hour) for hour in range(10)]
    >>> [(a.hour, b.hour) for a, b in without(hours[0], hours[9], [(hours[2], hours[4])])]
    [(0, 2), (4, 9)]
    """
    left = []
    for begin, until in sorted(spans):
        if begin > start:
            left.append((start, min(begin, end)))
        start = max(start, until)
        if start >= end:
            break
    if start < end:
        left.append((start, end))
    return left
