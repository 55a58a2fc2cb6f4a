"""Which stretches of time were imported from a server already, and which are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reveal_core.incidents import iso

Stretch = tuple[datetime, datetime]
"""Beginning and end, aware; the end is not part of it."""


@dataclass(frozen=True)
class ImportRecord:
    """What was imported of one host from one server by one selection.

    Attributes
    ----------
    source
        Tells it from others: a digest of everything that decides which samples come.
    what
        The server and the selection, for people.
    covered
        What was imported, by time; stretches that neither overlap nor touch.
    """

    source: str
    what: str
    covered: tuple[Stretch, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain values; times to the millisecond."""
        covered = [[iso(first), iso(last)] for first, last in self.covered]
        return {"source": self.source, "what": self.what, "covered": covered}


def missing_of(covered: Sequence[Stretch], start: datetime, end: datetime) -> list[Stretch]:
    """Return what of [``start``, ``end``) no stretch covers, in order."""
    found = []
    at = start
    for first, last in sorted(covered):
        if first >= end:
            break
        if first > at:
            found.append((at, first))
        at = max(at, last)
    if at < end:
        found.append((at, end))
    return found


def joined(covered: Sequence[Stretch], start: datetime, end: datetime) -> tuple[Stretch, ...]:
    """Return the stretches with [``start``, ``end``) added, those that touch made one."""
    found: list[Stretch] = []
    for first, last in sorted([*covered, (start, end)]):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)
