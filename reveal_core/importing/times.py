"""Times as logs write them, in UTC: with a zone, without one, and on the days when clocks are changed."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.types import NO_TIME, Ints
from reveal_core.timespec import to_ns

UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60 * 1_000_000_000,
    "h": 3600 * 1_000_000_000,
}
"""Units of times that are numbers."""
ISO = "iso"

_NAIVE_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_STEP_NS = 15 * UNITS_NS["m"]
"""Clocks are changed at whole quarters of an hour, so within one the offset is the same."""
_BACK_NS = 15 * UNITS_NS["m"]
"""A local time that lies this far behind the row before has come a second time; less is disorder."""
FIRST_NS, LAST_NS = to_ns(datetime(1971, 1, 1, tzinfo=UTC)), to_ns(datetime(2200, 1, 1, tzinfo=UTC))
"""A time before the one, or not before the other, is a mistake of its unit or a damaged file."""
IMPOSSIBLE = "rows of a time before 1971 or after 2199; is its unit right?"

_LONGEST_S = 1e12
_PLAIN = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


def parse_zone(text: str) -> tzinfo:
    """Return a zone: a name of the tz database (``Europe/London``, ``UTC``) or an offset (``+01:00``).

    Raises
    ------
    UsageError
        If there is no such zone.
    """
    offset = _OFFSET.fullmatch(text.strip())
    if offset is not None:
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if span < timedelta(hours=24):
            return timezone(span if offset[1] == "+" else -span)
    try:
        return ZoneInfo(text.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"--timezone {text!r} is no zone: write a name such as Europe/London, or an offset such as +01:00"
        ) from None


def seconds_after(origin_ns: int, seconds: float) -> int:
    """Return the time, ns, so many seconds after another; `LAST_NS`, which is none, if that cannot be."""
    return origin_ns + round(seconds * 1e9) if abs(seconds) < _LONGEST_S else LAST_NS


class LocalClock:
    """Brings local times to UTC, in the order of a file.

    In the hour that comes twice when clocks go back, the order of rows tells the first pass from the second:
    a time that lies a quarter of an hour or more behind the row before belongs to the second. Where a file
    begins in that hour, the pass is taken that joins on to the first time after it; where nothing tells,
    the first.

    Parameters
    ----------
    zone
        The zone.
    findings
        Is told of times that cannot be.
    """

    def __init__(self, zone: tzinfo, findings: Findings) -> None:
        self.zone = zone
        self.findings = findings
        self._offsets: dict[int, tuple[int, int]] = {}
        self._last: int | None = None

    def to_utc(self, local_ns: Ints) -> Ints:
        """Return times in UTC; `NO_TIME` for one that its zone leaves out.

        Parameters
        ----------
        local_ns
            Local times as if they were UTC, ns since 1970, in the order of the file; `NO_TIME` stays.
        """
        told = local_ns != NO_TIME
        steps, where = np.unique(np.where(told, local_ns, 0) // _STEP_NS, return_inverse=True)
        pairs = np.array([self._offset(int(step)) for step in steps], dtype=np.int64).reshape(-1, 2)
        early, late = pairs[where, 0], pairs[where, 1]
        utc = np.where(told, local_ns - early, NO_TIME)
        twice = told & (early > late)
        never = told & (early < late)
        if never.any():
            utc[never] = NO_TIME
            self.findings.skip(
                f"rows of a time that clocks in {self.zone} skip; is the zone right?", count=int(never.sum())
            )
        if twice.any():
            self._choose(local_ns, utc, twice, early - late)
        known = utc[utc != NO_TIME]
        if len(known):
            self._last = int(known[-1])
        return utc

    def _offset(self, step: int) -> tuple[int, int]:
        if step not in self._offsets:
            time = _NAIVE_EPOCH + timedelta(minutes=15 * step)
            pair = []
            for fold in (0, 1):
                offset = time.replace(tzinfo=self.zone, fold=fold).utcoffset() or timedelta()
                pair.append(offset // _MICROSECOND * 1000)
            self._offsets[step] = pair[0], pair[1]
        return self._offsets[step]

    def _choose(self, local_ns: Ints, utc: Ints, twice: np.ndarray, shift: Ints) -> None:
        """Move times of the hour that comes twice to its second pass where the order of rows says so."""
        rows = np.flatnonzero(utc != NO_TIME)
        last = self._last
        if last is None and twice[rows[0]]:
            sure = rows[~twice[rows]]
            until = int(sure[0]) if len(sure) else len(utc)
            run = rows[rows < until]
            jumps = np.flatnonzero(np.diff(local_ns[run]) <= -_BACK_NS)
            apart = len(sure) and utc[until] - utc[run[-1]] > shift[run[-1]] // 2
            if apart and not len(jumps):
                utc[run] += shift[run]
                rows = rows[rows >= until]
        doubtful = 0
        for row in rows:
            if twice[row]:
                if last is not None and utc[row] <= last - _BACK_NS:
                    utc[row] += shift[row]
                else:
                    doubtful += 1
            last = int(utc[row])
        if doubtful:
            self.findings.note(
                f"{self.findings.where}: times of the hour that comes twice in {self.zone} are "
                "taken for its first pass, unless the order of the rows says otherwise"
            )


class Times:
    """Parses the times of a column, row by row in the order of a file.

    Parameters
    ----------
    form
        ``iso`` (also with ``/`` in the date), a unit of `UNITS_NS` for numbers, or a pattern of ``strptime``.
    zone
        Of times without one; None if nothing was said.
    findings
        Is told of times that are none.
    origin_ns
        What numbers count from.
    """

    def __init__(self, form: str, zone: tzinfo | None, findings: Findings, origin_ns: int = 0) -> None:
        if form != ISO and form not in UNITS_NS and "%" not in form:
            raise UsageError(
                f"time format {form!r} is not known: iso, {', '.join(UNITS_NS)}, or a strptime pattern"
            )
        self.form = form
        self.zone = zone
        self.findings = findings
        self.origin_ns = origin_ns
        self._clock = LocalClock(zone, findings) if zone is not None else None

    def ns(self, texts: Sequence[str | None], lines: Sequence[int] | None = None) -> Ints:
        """Return times as ns since 1970 in UTC, `NO_TIME` for those that are none.

        Parameters
        ----------
        texts
            As they stand in the file.
        lines
            Their lines, for messages.

        Raises
        ------
        UsageError
            If a time has no zone and none was given.
        """
        if self.form in UNITS_NS:
            return self.within(self._numbers(texts, lines), lines)
        plain = self._at_once(texts) if self._clock is not None else None
        if plain is not None and self._clock is not None:
            return self.within(self._clock.to_utc(plain), lines)
        local = np.full(len(texts), NO_TIME, dtype=np.int64)
        aware = np.full(len(texts), NO_TIME, dtype=np.int64)
        for row, text in enumerate(texts):
            try:
                time = self._parse(text)
                if time.tzinfo is None:
                    local[row] = (time - _NAIVE_EPOCH) // _MICROSECOND * 1000
                else:
                    aware[row] = to_ns(time)
            except (ValueError, OverflowError):
                self._bad(text, lines, row)
        if (local != NO_TIME).any():
            if self._clock is None:
                first = texts[int(np.flatnonzero(local != NO_TIME)[0])]
                raise UsageError(
                    f"{self.findings.where}: the time {first!r} has no zone: say which with --timezone "
                    "(for example --timezone Europe/London, or UTC)"
                )
            moved = self._clock.to_utc(local)
            aware = np.where(local != NO_TIME, moved, aware)
        return self.within(aware, lines)

    def _at_once(self, texts: Sequence[str | None]) -> Ints | None:
        """Return local times as if they were UTC, if all are written alike and without a zone; else None."""
        if self.form != ISO or not texts:
            return None
        length = len(texts[0] or "")
        for text in texts:
            if (
                text is None
                or len(text) != length
                or length < 19
                or text[10] not in " T"
                or text[4] != "-"
                or text[7] != "-"
            ):
                return None
        if not _PLAIN.fullmatch(texts[0] or ""):
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # numpy warns of a zone, and would go on
                found: Ints = np.array(texts, dtype="datetime64[us]").astype(np.int64)
        except (ValueError, UserWarning, DeprecationWarning):
            return None
        # What is far from the present does not fit into ns, and is told one by one.
        near = found.min() >= FIRST_NS // 1000 and found.max() < LAST_NS // 1000
        return found * 1000 if near else None

    def _parse(self, text: str | None) -> datetime:
        stripped = (text or "").strip()
        if self.form != ISO:
            return datetime.strptime(stripped, self.form)
        if len(stripped) > 9 and stripped[4] == "/":
            stripped = stripped.replace("/", "-", 2)
        if len(stripped) < 10:
            raise ValueError("no date")
        return datetime.fromisoformat(stripped)

    def _numbers(self, texts: Sequence[str | None], lines: Sequence[int] | None) -> Ints:
        unit = UNITS_NS[self.form]
        found = np.full(len(texts), NO_TIME, dtype=np.int64)
        for row, text in enumerate(texts):
            stripped = (text or "").strip()
            try:
                # Whole numbers exactly; a float cannot hold ns since 1970.
                whole, _, fraction = stripped.partition(".")
                if whole.isdigit() and (fraction.isdigit() or not fraction):
                    part = int(fraction) * unit // 10 ** len(fraction) if fraction else 0
                    number = int(whole) * unit + part
                else:
                    number = round(float(stripped) * unit)
                found[row] = number + self.origin_ns
            except (ValueError, OverflowError):
                self._bad(text, lines, row)
        return found

    def within(self, found: Ints, lines: Sequence[int] | None = None) -> Ints:
        """Return times with `NO_TIME` in place of those that cannot be."""
        wrong = (found != NO_TIME) & ((found < FIRST_NS) | (found >= LAST_NS))
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            self.findings.skip(
                IMPOSSIBLE,
                line=lines[row] if lines is not None else None,
                count=int(wrong.sum()),
            )
            found = np.where(wrong, NO_TIME, found)
        return found

    def _bad(self, text: str | None, lines: Sequence[int] | None, row: int) -> None:
        self.findings.skip(
            "rows whose time is none",
            line=lines[row] if lines is not None else None,
            detail=text or "(nothing)",
        )
