"""Incidents of one stretch of time become entries of a host's ledger: joined, counted, cleared.

Pure functions: the ledger before and what was found in a stretch give the ledger after. Judging a stretch
again changes nothing, so a run that is repeated counts nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from reveal_core.incidents import OPEN, RESOLVED, SILENT, STRAGGLER, Incident
from reveal_core.ledger import Entry, Episode, Ledger, begun_by, described, joined


@dataclass(frozen=True)
class TrackingRules:
    """When incidents belong together, and when they are over; all in seconds of telemetry, not of the clock.

    Attributes
    ----------
    carry_s
        An incident that begins within this after an episode which was still on at the end of its stretch is
        that episode going on: a stretch begins with windows that reach back, so a few seconds pass.
    repeat_s
        An incident of the same fingerprint within this after the end of an entry is that entry coming again.
    clear_s
        An entry is over after this much calm.
    flap_count, flap_s
        So many comings within so long are flapping: then it is over only after ``flap_s`` of calm.
    """

    carry_s: float = 15.0
    repeat_s: float = 300.0
    clear_s: float = 60.0
    flap_count: int = 4
    flap_s: float = 600.0


RULES = TrackingRules()

MOST_EPISODES = 50
"""Episodes kept of an entry; the count goes on."""
MOST_IDS = 20
"""Incidents kept of an episode, the latest: one that lasts for days is found anew by every run."""
KEPT = timedelta(days=7)
"""An entry that has been over for longer, before the newest stretch, is handed out as past."""
_SAME_TIME = 0.5
"""Share of the shorter one that two episodes must have in common to be the same coming."""
_JUDGED_GAP = timedelta(seconds=5)
"""Stretches this close count as one: a few windows without a sample are no hole that is filled later."""
_JUDGED_KEPT = timedelta(days=40)
"""How far back it is kept which stretches were judged: a month, which trends are drawn over, and some."""


class _Draft:
    """An entry while incidents are added to it: lists in place of tuples, for a storm has many episodes."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.episodes = list(entry.episodes)
        self.count = entry.count
        self.first = entry.first
        self.end = entry.end
        self.flapping = entry.flapping
        self.touched = False

    def ids(self) -> set[str]:
        """Return the ids of the incidents that are known to belong to it."""
        return {incident for episode in self.episodes for incident in episode.incidents}

    def episode_of(self, incident: Incident) -> int | None:
        """Return the number of the episode that a known incident belongs to; None if it is kept no more."""
        found = (n for n, episode in enumerate(self.episodes) if incident.id in episode.incidents)
        return next(found, None)

    def overlapped(self, incident: Incident) -> int | None:
        """Return the number of the episode that an incident is another sight of, by its time."""
        if self.end <= incident.start:
            return None
        for number in range(len(self.episodes) - 1, -1, -1):
            episode = self.episodes[number]
            shared = min(episode.end, incident.end) - max(episode.start, incident.start)
            if shared <= timedelta(0):
                if episode.end < incident.start:
                    return None  # episodes are in order of time: those before ended earlier still
                continue
            if shared >= _SAME_TIME * min(episode.end - episode.start, incident.end - incident.start):
                return number
        return None

    def goes_on(self, incident: Incident, rules: TrackingRules) -> bool:
        """Tell whether an incident is the latest episode going on from one stretch into the next."""
        if not self.episodes or not self.episodes[-1].on:
            return False
        return timedelta(0) <= incident.start - self.episodes[-1].end <= _s(rules.carry_s)

    def repeats(self, incident: Incident, rules: TrackingRules) -> bool:
        """Tell whether an incident is this trouble coming again."""
        # What an entry began as may be the first windows of it only: its strongest sight tells what it is.
        same_cause = incident.cause != "" and incident.cause == self.entry.cause
        if incident.fingerprint != self.entry.fingerprint and not same_cause:
            return False
        patience = _s(max(rules.repeat_s, rules.flap_s) if self.flapping else rules.repeat_s)
        return self.first - patience <= incident.end and incident.start <= self.end + patience

    def extend(self, number: int, incident: Incident) -> None:
        """Let an episode reach over an incident too."""
        known = self.episodes[number]
        ids = known.incidents if incident.id in known.incidents else (*known.incidents, incident.id)
        newest = incident.end >= known.end
        self.episodes[number] = Episode(
            min(known.start, incident.start),
            max(known.end, incident.end),
            incident.state == OPEN if newest else known.on,
            ids[-MOST_IDS:],
        )
        self._in_order(number)
        self._describe(incident)

    def add(self, incident: Incident, rules: TrackingRules) -> None:
        """Add an episode."""
        self.count += 1
        episode = Episode(incident.start, incident.end, incident.state == OPEN, (incident.id,))
        self.episodes.append(episode)
        self._in_order(len(self.episodes) - 1)
        of_late = self.episodes[-rules.flap_count :]
        if len(of_late) == rules.flap_count and of_late[-1].start - of_late[0].start <= _s(rules.flap_s):
            self.flapping = True
        if len(self.episodes) > 2 * MOST_EPISODES:
            del self.episodes[:-MOST_EPISODES]
        self._describe(incident)

    def _in_order(self, number: int) -> None:
        """Put episodes in order of time again if one now begins before the one before it."""
        if number and self.episodes[number - 1].start > self.episodes[number].start:
            self.episodes.sort(key=lambda e: (e.start, e.end))

    def _describe(self, incident: Incident) -> None:
        self.touched = True
        self.first = min(self.first, incident.start)
        self.end = max(self.end, incident.end)
        if incident.score > self.entry.score:
            self.entry = described(self.entry, incident)

    def finish(self) -> Entry:
        """Return the entry; which state it is in is told by `_cleared`."""
        last = self.episodes[-1]
        return replace(
            self.entry,
            first=self.first,
            start=last.start,
            end=self.end,
            count=self.count,
            flapping=self.flapping,
            episodes=tuple(self.episodes[-MOST_EPISODES:]),
        )


def follow(
    ledger: Ledger,
    found: Iterable[Incident],
    start: datetime,
    end: datetime,
    rules: TrackingRules = RULES,
) -> Ledger:
    """Return a host's ledger after a stretch of its telemetry has been judged.

    Parameters
    ----------
    ledger
        Before.
    found
        Incidents of the stretch, all of the ledger's host.
    start, end
        The stretch, UTC: of the windows that had telemetry. Only what was judged can be found to be over.
    rules
        When incidents belong together.

    Raises
    ------
    ValueError
        If an incident is of another host.
    """
    known = enter(ledger, found, rules)
    # Calm windows of one host say nothing of how it stands among its peers.
    entries = tuple(
        entry if entry.cause == STRAGGLER else _cleared(entry, start, end, rules) for entry in known.entries
    )
    judged = joined(ledger.judged, (start, end), _JUDGED_GAP)
    latest = judged[-1][1]
    return Ledger(
        ledger.host, tuple(stretch for stretch in judged if stretch[1] >= latest - _JUDGED_KEPT), entries
    )


def enter(ledger: Ledger, found: Iterable[Incident], rules: TrackingRules = RULES) -> Ledger:
    """Return a host's ledger with incidents joined to its entries, whose states stay as they were.

    Parameters
    ----------
    ledger
        Before.
    found
        Incidents, all of the ledger's host.
    rules
        When incidents belong together.

    Raises
    ------
    ValueError
        If an incident is of another host.
    """
    drafts = [_Draft(entry) for entry in ledger.entries]
    known = {incident: draft for draft in drafts for incident in draft.ids()}
    for incident in sorted(found, key=lambda i: (i.start, i.end, i.id)):
        if incident.host != ledger.host:
            raise ValueError(f"incident {incident.id} is of {incident.host}, the ledger of {ledger.host}")
        known[incident.id] = _enter(drafts, known.get(incident.id), incident, rules)
    entries = [draft.finish() if draft.touched else draft.entry for draft in drafts]
    return replace(ledger, entries=tuple(sorted(entries, key=lambda e: (e.first, e.id))))


def _sight(one: Entry | Incident) -> tuple[str, str]:
    """Return what an incident was seen by: one is no other sight of what was seen by something else.

    Most are seen in windows; that telemetry does not come, and that a host is out of step with the others of
    a job, is seen apart from them.
    """
    if one.cause == STRAGGLER:
        return STRAGGLER, one.job
    return (SILENT if one.cause == SILENT else ""), ""


def _enter(drafts: list[_Draft], known: _Draft | None, incident: Incident, rules: TrackingRules) -> _Draft:
    """Add an incident to the entry that it belongs to, a new one if there is none, and return that."""
    if known is not None:
        number = known.episode_of(incident)
        if number is not None:
            known.extend(number, incident)
        return known
    sight = _sight(incident)
    alike = [draft for draft in drafts if _sight(draft.entry) == sight]
    for draft in alike:
        number = draft.overlapped(incident)
        if number is not None:
            draft.extend(number, incident)
            return draft
    for draft in alike:
        if draft.goes_on(incident, rules):
            draft.extend(len(draft.episodes) - 1, incident)
            return draft
    again = [draft for draft in alike if draft.repeats(incident, rules)]
    if again:
        draft = max(again, key=lambda draft: draft.end)
        draft.add(incident, rules)
        return draft
    drafts.append(_Draft(begun_by(incident)))
    drafts[-1].touched = True
    return drafts[-1]


def _cleared(entry: Entry, start: datetime, end: datetime, rules: TrackingRules) -> Entry:
    """Return an entry in the state that it has after a stretch: over after enough calm, open before."""
    calm = _s(rules.flap_s if entry.flapping else rules.clear_s)
    due = entry.end + calm
    if entry.cleared is not None and entry.cleared >= due:
        return entry
    # Calm counts where it was judged: a host whose telemetry stopped has not been found to be well.
    if start <= due <= end or (entry.end < start and end >= due):
        return replace(entry, state=RESOLVED, cleared=max(due, start))
    if entry.end > end:
        return entry  # an old stretch was judged again: it knows nothing of what came later
    return replace(entry, state=OPEN, cleared=None)


def settle(ledger: Ledger) -> tuple[Ledger, tuple[Entry, ...]]:
    """Return a ledger without the entries that are long over, and these."""
    if not ledger.judged:
        return ledger, ()
    limit = ledger.judged[-1][1] - KEPT
    past = tuple(e for e in ledger.entries if e.state == RESOLVED and e.end < limit)
    if not past:
        return ledger, ()
    return replace(ledger, entries=tuple(e for e in ledger.entries if e not in past)), past


def _s(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)
