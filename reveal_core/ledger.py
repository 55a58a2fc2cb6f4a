"""What became of a host's incidents over all runs that saw them: a ledger, one entry for each trouble.

Scoring finds incidents in a stretch of time. The same trouble shows in many stretches: it goes on from one
run to the next, comes back, or comes and goes by the second. The ledger of a host joins these to one *entry*
with a count, which is what a person is told of, once, and what is cleared when it is over.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from reveal_core.incidents import OPEN, History, Incident, iso


@dataclass(frozen=True)
class Episode:
    """One coming of a trouble.

    Attributes
    ----------
    start, end
        When it was on, UTC.
    on
        Whether it was still on at the end of the stretch in which it was last seen.
    incidents
        Ids of the incidents that it was found as: several where it went on from one run to the next.
    """

    start: datetime
    end: datetime
    on: bool = False
    incidents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A trouble of a host: incidents of one kind that follow each other.

    Attributes
    ----------
    id
        Of its first incident.
    fingerprint, host
        What it is (`reveal_core.incidents.Incident.fingerprint`) and where.
    subsystem, cause, title, action, metrics
        As its strongest incident was explained: subsystem, id and title of the likeliest cause and what that
        suggests to do (``""`` where no cause is known), and the metrics that moved furthest.
    first, start, end
        When it came the first time, and from when to when its latest episode was on.
    count
        How often it came.
    state
        `reveal_core.incidents.OPEN` until it is cleared, then `RESOLVED`.
    cleared
        When it was found to be over; None while it is open.
    flapping
        Whether it came so often in a short time that it is not over until it stays away for longer.
    severity, score, probability
        Of its strongest incident.
    strongest
        Id of that incident.
    episodes
        Its latest comings, in order of time.
    job
        Id of the job that the host ran meanwhile, several with commas; ``""`` where none is known.
    """

    id: str
    fingerprint: str
    host: str
    subsystem: str
    cause: str
    title: str
    action: str
    metrics: tuple[str, ...]
    first: datetime
    start: datetime
    end: datetime
    count: int
    state: str
    cleared: datetime | None
    flapping: bool
    severity: int
    score: float
    probability: float
    strongest: str
    episodes: tuple[Episode, ...]
    job: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; times are ISO 8601 in UTC."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain

    def has(self, incident: str) -> bool:
        """Tell whether an incident is one of its comings, as far as these are kept."""
        return self.id == incident or any(incident in episode.incidents for episode in self.episodes)

    def history(self, incident: str) -> History:
        """Return what is to be said of one of its incidents.

        The count is that of the episode which the incident belongs to: a report of yesterday does not speak
        of today.
        """
        earlier = self.count - len(self.episodes)
        place = next(
            (n for n, episode in enumerate(self.episodes, 1) if incident in episode.incidents),
            len(self.episodes),
        )
        return History(count=earlier + place, first=self.first, flapping=self.flapping)


def begun_by(incident: Incident) -> Entry:
    """Return the entry of a trouble that an incident is the first sight of."""
    episode = Episode(incident.start, incident.end, incident.state == OPEN, (incident.id,))
    entry = Entry(
        id=incident.id,
        fingerprint=incident.fingerprint,
        host=incident.host,
        subsystem=incident.subsystem,
        cause="",
        title="",
        action="",
        metrics=(),
        first=incident.start,
        start=incident.start,
        end=incident.end,
        count=1,
        state=OPEN,
        cleared=None,
        flapping=False,
        severity=0,
        score=0.0,
        probability=1.0,
        strongest=incident.id,
        episodes=(episode,),
    )
    return described(entry, incident)


def described(entry: Entry, incident: Incident) -> Entry:
    """Return an entry that is told as an incident was explained."""
    cause = incident.causes[0] if incident.causes else None
    return replace(
        entry,
        subsystem=incident.subsystem,
        cause=cause.id if cause else "",
        title=cause.title if cause else "",
        action=cause.action if cause else "",
        metrics=tuple(dict.fromkeys(metric.metric for metric in incident.metrics))[:3],
        severity=max(entry.severity, incident.severity),
        score=incident.score if math.isfinite(incident.score) else 0.0,
        probability=min(entry.probability, incident.probability),
        strongest=incident.id,
        job=incident.job or entry.job,
    )


@dataclass(frozen=True)
class Ledger:
    """The ledger of a host.

    Attributes
    ----------
    host
        Whose.
    judged
        The stretches that were judged, in order of time, none touching another.
    entries
        Its troubles, by the time when each came first.
    """

    host: str
    judged: tuple[tuple[datetime, datetime], ...] = ()
    entries: tuple[Entry, ...] = field(default=())

    def entry_of(self, incident: str) -> Entry | None:
        """Return the entry that an incident belongs to; None if there is none, or it is long past."""
        return next((entry for entry in reversed(self.entries) if entry.has(incident)), None)

    def judged_s(self, start: datetime, end: datetime) -> float:
        """Return how many seconds of a range were judged."""
        return sum(
            max(0.0, (min(until, end) - max(since, start)).total_seconds()) for since, until in self.judged
        )


def joined(
    stretches: tuple[tuple[datetime, datetime], ...], new: tuple[datetime, datetime], gap: timedelta
) -> tuple[tuple[datetime, datetime], ...]:
    """Return stretches of time with another one added; those closer than ``gap`` become one."""
    merged: list[tuple[datetime, datetime]] = []
    for since, until in sorted([*stretches, new]):
        if merged and since - merged[-1][1] <= gap:
            merged[-1] = merged[-1][0], max(merged[-1][1], until)
        else:
            merged.append((since, until))
    return tuple(merged)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
