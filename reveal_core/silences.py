"""Silences and maintenance windows: when, and of what, nobody wants to be told."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any, Literal

from reveal_core.incidents import iso

Every = Literal["", "day", "week"]
EVERY: dict[str, timedelta] = {"day": timedelta(days=1), "week": timedelta(days=7)}


@dataclass(frozen=True)
class Silence:
    """A stretch of time in which matching incidents are recorded, and told to nobody.

    Attributes
    ----------
    id
        Its name in the store.
    host, subsystem, cause
        Shell patterns; ``*`` matches everything, ``""`` as a cause one that is not known.
    start, end
        From when to when, UTC; of a repeated one the first time.
    every
        ``"day"`` or ``"week"`` for a maintenance window that comes again; ``""`` for once.
    why, by
        The reason, and who made it.
    """

    id: str
    host: str
    subsystem: str
    cause: str
    start: datetime
    end: datetime
    every: Every = ""
    why: str = ""
    by: str = ""

    def covers(self, time: datetime) -> bool:
        """Tell whether a time lies within it, or within one of its repetitions."""
        if time < self.start:
            return False
        since = time - self.start
        if self.every:
            since %= EVERY[self.every]
        return since < self.end - self.start

    def matches(self, host: str, subsystem: str, cause: str, time: datetime) -> bool:
        """Tell whether an incident that begins at a time is one that nobody wants to be told of."""
        return (
            self.covers(time)
            and fnmatchcase(host, self.host)
            and fnmatchcase(subsystem, self.subsystem)
            and fnmatchcase(cause, self.cause)
        )

    def over(self, now: datetime) -> bool:
        """Tell whether it will never cover anything again."""
        return not self.every and self.end <= now

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; times are ISO 8601 in UTC."""
        return {**asdict(self), "start": iso(self.start), "end": iso(self.end)}
