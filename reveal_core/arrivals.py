"""What has arrived of a host's telemetry and was not judged yet, told by the names of its segments.

Time alone cannot tell it: a segment that was held up for an hour lies before what was judged meanwhile. An
agent numbers its segments, so what was judged is a few runs of numbers, and what is new is the rest. It
begins with 0 again when it is started anew, also within a boot, so a run knows from when to when it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Judged = tuple[str, int, datetime, datetime]
"""Boot, number, start and end of a segment that was judged."""

MOST_RUNS = 200
"""Runs of numbers that are remembered of a host, the latest; a start of an agent and a loss make one each."""
_JOIN = timedelta(seconds=10)
"""New segments this close are judged as one stretch."""
_ADJACENT = timedelta(seconds=2)
"""So soon an agent begins its next segment; one that was started anew has not come that far by then."""


@dataclass(frozen=True)
class Numbers:
    """Segments of one agent whose numbers follow each other without a hole.

    Attributes
    ----------
    boot
        Of which boot.
    first, last
        Their numbers.
    since, until
        When the first of them begins and the last ends, UTC. One agent at a time samples a host, so what
        begins in between with one of these numbers is one of them.
    """

    boot: str
    first: int
    last: int
    since: datetime
    until: datetime

    def has(self, boot: str, number: int, start: datetime) -> bool:
        """Tell whether a segment is one of them."""
        return boot == self.boot and self.first <= number <= self.last and self.since <= start < self.until

    def goes_on_with(self, other: Numbers) -> bool:
        """Tell whether others are the next ones of the same agent."""
        follows = (other.boot, other.first) == (self.boot, self.last + 1)
        return follows and self.since < other.since <= self.until + _ADJACENT


@dataclass(frozen=True)
class Watermark:
    """How far a host's telemetry has been judged.

    Attributes
    ----------
    until
        When the newest segment that was judged ends, UTC.
    seen
        The segments that were judged, by time.
    """

    until: datetime
    seen: tuple[Numbers, ...] = ()

    def has(self, boot: str, number: int, start: datetime) -> bool:
        """Tell whether a segment was judged."""
        return any(run.has(boot, number, start) for run in self.seen)

    def after(self, segments: Iterable[Judged]) -> Watermark:
        """Return it after more segments were judged."""
        new = [Numbers(boot, number, number, start, end) for boot, number, start, end in segments]
        runs: list[Numbers] = []
        for run in sorted([*self.seen, *new], key=lambda run: (run.since, run.boot, run.first)):
            before = runs[-1] if runs else None
            if before is not None and before.has(run.boot, run.first, run.since):
                continue  # judged twice, by two runs at once
            if before is not None and before.goes_on_with(run):
                runs[-1] = Numbers(run.boot, before.first, run.last, before.since, run.until)
            else:
                runs.append(run)
        until = max([self.until, *(run.until for run in new)])
        return Watermark(until, tuple(runs[-MOST_RUNS:]))


@dataclass(frozen=True, order=True)
class Arrival:
    """A segment that is in the store.

    Attributes
    ----------
    start, end
        Of its samples, UTC. The end of one that was judged does not matter.
    boot, number
        Its name.
    new
        Whether it was not judged yet.
    facts
        Its host's facts, where it was read to learn when it ends; None where it was not.
    """

    start: datetime
    end: datetime
    boot: str
    number: int
    new: bool
    facts: Mapping[str, Any] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class NewStretch:
    """Time whose telemetry is to be judged.

    Attributes
    ----------
    start, end
        Of the samples that are new, UTC.
    precedes, follows
        Whether telemetry joins on right before and right after it: windows that reach across are then judged,
        too, again if they were judged without what has come now.
    segments
        The segments that are new in it.
    facts
        The host's facts, where one of them was read; else None.
    """

    start: datetime
    end: datetime
    precedes: bool
    follows: bool
    segments: tuple[Judged, ...]
    facts: Mapping[str, Any] | None = None


def new_stretches(arrivals: Iterable[Arrival], longest: timedelta) -> list[NewStretch]:
    """Return the time that new segments cover, in order, cut where it is longer than what is judged at once.

    Parameters
    ----------
    arrivals
        All segments of a host within reach, in any order.
    longest
        A stretch holds at most this, or a single segment.
    """
    ordered = sorted(arrivals)
    groups: list[list[Arrival]] = []
    end: datetime | None = None
    for arrival in (one for one in ordered if one.new):
        near = end is not None and arrival.start - end <= _JOIN
        if not near or arrival.end - groups[-1][0].start > longest:
            groups.append([])
        groups[-1].append(arrival)
        end = arrival.end if end is None or not near else max(end, arrival.end)
    return [_stretch(group, ordered) for group in groups]


def _stretch(group: Sequence[Arrival], every: Sequence[Arrival]) -> NewStretch:
    end = max(arrival.end for arrival in group)
    mine = set(group)
    others = [one for one in every if one not in mine]
    return NewStretch(
        start=group[0].start,
        end=end,
        precedes=any(_joins(one, group[0]) for one in others),
        follows=any(_joins(group[-1], one) for one in others),
        segments=tuple((one.boot, one.number, one.start, one.end) for one in group),
        facts=next((one.facts for one in reversed(group) if one.facts is not None), None),
    )


def _joins(one: Arrival, other: Arrival) -> bool:
    """Tell whether a segment is followed by another without a gap; of one that was judged, numbers tell."""
    if not one.start < other.start:
        return False
    return (one.boot, one.number + 1) == (other.boot, other.number) or (
        one.new and other.start - one.end <= _ADJACENT
    )
