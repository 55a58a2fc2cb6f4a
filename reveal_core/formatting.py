"""Numbers, times and names as people read them."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_BYTES = ((1e15, "P"), *((factor, prefix) for factor, prefix in _DECIMAL))
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
_PREFIXED = {"B", "Hz", "W", "J", "bit"}
_NEVER_SCALED = {"%", "°C"}
_BARE = {"", "1", "ratio", "share", "index", "count", "state", "bool"}
_PLAIN_BELOW = 1e5
"""Numbers without an SI unit are written out up to here: 12,400 reads better than 12.4 k."""
UNKNOWN = "–"


def scale_for(magnitude: float, unit: str) -> tuple[float, str]:
    """Return the factor and the unit in which a value of this magnitude reads best.

    Parameters
    ----------
    magnitude
        The largest absolute value that is to be shown, in ``unit``.
    unit
        As the metric catalogue writes it: ``B/s``, ``us``, ``%``, ``/s``, ``packets/s``; ``""`` and ``1`` for
        none.

    Returns
    -------
    factor, unit
        ``value * factor`` is in the returned unit.

    Examples
    --------
    >>> scale_for(1.2e6, "B/s")
    (1e-06, 'MB/s')
    """
    base, slash, per = unit.partition("/")
    if base in _SECONDS:
        seconds = magnitude * _SECONDS[base]
        best = next((name for name in ("s", "ms", "us") if seconds >= _SECONDS[name]), "ns")
        if seconds == 0:
            best = "us" if base == "µs" else base
        return _SECONDS[base] / _SECONDS[best], ("µs" if best == "us" else best) + slash + per
    known, symbol = _split_prefix(base)
    if symbol in _PREFIXED:
        size = magnitude * known
        factor, prefix = next(((f, p) for f, p in _BYTES if size >= f), (1.0, ""))
        if size < 1.0 and known != 1.0:
            factor, prefix = known, base[: len(base) - len(symbol)]
        return known / factor, prefix + symbol + slash + per
    if magnitude >= _PLAIN_BELOW and math.isfinite(magnitude) and base not in _NEVER_SCALED:
        factor, prefix = next((f, p) for f, p in _DECIMAL if magnitude >= f)
        counted_in = "" if base in _BARE else f" {base}"
        return 1 / factor, f"{prefix}{counted_in}{slash}{per}"
    return 1.0, slash + per if base in _BARE else unit


def _split_prefix(base: str) -> tuple[float, str]:
    prefixes = {"k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1024.0, "m": 1e-3, "u": 1e-6}
    for length in (2, 1):
        if base[:length] in prefixes and base[length:] in _PREFIXED:
            return prefixes[base[:length]], base[length:]
    return 1.0, base


def format_number(value: float | None) -> str:
    """Return a number with three significant digits, thousands separated; ``–`` if it is not known.

    >>> format_number(12345.6), format_number(0.01234), format_number(2.0)
    ('12,346', '0.0123', '2')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-4 or size >= 1e15:
        return f"{value:.2g}"
    digits = max(0, 2 - math.floor(math.log10(size)))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_value(value: float | None, unit: str) -> str:
    """Return a value with its unit, scaled so that it reads well.

    Parameters
    ----------
    value
        In ``unit``; None, NaN and infinities are not known.
    unit
        As the metric catalogue writes it.

    Examples
    --------
    >>> format_value(1.2e6, "B/s"), format_value(310, "/s"), format_value(43.2, "%")
    ('1.2 MB/s', '310 /s', '43.2 %')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    factor, shown = scale_for(abs(value), unit)
    return f"{format_number(value * factor)} {shown}".rstrip()


def format_band(low: float | None, high: float | None, unit: str) -> str:
    """Return a normal band in one unit: ``0 to 2 /s``; ``3 ms`` where both ends read the same.

    >>> format_band(900e3, 1.3e6, "B/s")
    '0.9 to 1.3 MB/s'
    """
    ends = [end for end in (low, high) if end is not None and math.isfinite(end)]
    if low is None or high is None or len(ends) < 2:
        return UNKNOWN
    largest = max(abs(low), abs(high))
    factor, shown = scale_for(largest, unit)
    # What rounding errors leave of a zero must not read as a bound.
    first, last = (format_number(end * factor if abs(end) > 1e-6 * largest else 0.0) for end in (low, high))
    text = first if first == last else f"{first} to {last}"
    return f"{text} {shown}".rstrip()


def format_duration(seconds: float) -> str:
    """Return a length of time in at most two units.

    >>> format_duration(0.8), format_duration(9), format_duration(252), format_duration(7260)
    ('0.8 s', '9 s', '4 min 12 s', '2 h 1 min')
    """
    if seconds < 59.95:
        return f"{format_number(round(seconds, 1))} s"
    whole = round(seconds)
    for size, unit, smaller, small_unit in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {small_unit}" if rest else "")
    raise AssertionError("unreachable: a minute or more")


def format_probability(probability: float) -> str:
    """Return a tail probability as odds: how many healthy windows would show one this strange.

    >>> format_probability(0.0001), format_probability(0.4), format_probability(0.0)
    ('1 in 10,000', '1 in 2.5', 'less than 1 in 10 million')
    """
    if not math.isfinite(probability):
        return UNKNOWN
    if probability < 1e-7:
        return "less than 1 in 10 million"
    return f"1 in {_odds(1 / probability)}"


def _odds(odds: float) -> str:
    if odds < 10:
        return format_number(round(odds, 1))
    step = 10 ** max(0, math.floor(math.log10(odds)) - 1)
    return f"{round(odds / step) * step:,}"


def format_time(time: datetime, *, day: bool = False, decimals: int = 0) -> str:
    """Return a time of day in UTC, with its date if asked for.

    Parameters
    ----------
    time
        With a time zone; one without counts as UTC.
    day
        Whether to put the date before it.
    decimals
        Digits of the second, 0 to 3; cut, not rounded, so that no time lies ahead.
    """
    utc = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    text = utc.strftime("%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S")
    return text + (f".{utc.microsecond:06d}"[: decimals + 1] if decimals else "")


def format_range(start: datetime, end: datetime) -> str:
    """Return a range of time in UTC: the date once, twice where it spans days; seconds where it is short.

    >>> format_range(datetime(2026, 11, 29, 20, 15, tzinfo=UTC), datetime(2026, 11, 29, 20, 19, tzinfo=UTC))
    '2026-11-29 20:15:00 to 20:19:00 UTC'
    """
    same_day = start.date() == end.date()
    return f"{format_time(start, day=True)} to {format_time(end, day=not same_day)} UTC"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: ``1 incident``, ``1,200 incidents``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
