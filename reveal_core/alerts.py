"""Which incidents somebody is told of, and which not: once each, grouped, silenced, within a limit.

A pure decision over the ledgers of the fleet and what was told before; sending is done elsewhere. What is
held back is never lost: it is in the report and in the ledger, and a notice says how much was held back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from reveal_core.incidents import OPEN, FleetIncident, iso
from reveal_core.labels import Label
from reveal_core.ledger import Entry
from reveal_core.silences import Silence

DAY = timedelta(days=1)
URGENT = ("inspect-hardware", "drain")
"""Actions that no limit holds back: a dying part does not wait for tomorrow's budget."""
LEAST_PER_DAY = 4
"""New incidents told of in a day however few hosts there are: one host with two real faults and the budget of
one a day must still tell of both."""
_FORGOTTEN = 30 * DAY
"""What was told so long ago is forgotten, even if nobody was told that it is over: its host has gone."""


@dataclass(frozen=True)
class AlertRules:
    """How much is told.

    Attributes
    ----------
    per_day
        New incidents told of within 24 hours; beyond, they are counted in one notice an hour.
    remind_s
        The same kind on the same host is told again only after so long.
    oldest_s
        What was over for longer than this is history, which a report tells and no alert.
    """

    per_day: int
    remind_s: float = 3600.0
    oldest_s: float = 3600.0


def limit_per_day(budget_per_host_day: float, hosts: int) -> int:
    """Return how many new incidents a fleet tells of in a day: its alarm budget, and a few at least.

    >>> limit_per_day(1.0, 1), limit_per_day(0.5, 100)
    (4, 50)
    """
    return max(LEAST_PER_DAY, math.ceil(budget_per_host_day * hosts))


@dataclass(frozen=True)
class Told:
    """What was told of an entry.

    Attributes
    ----------
    entry, host, fingerprint
        Which one.
    at
        When somebody was told that it began.
    group
        Key of the notice that it was told in.
    over
        Whether somebody was told that it is over.
    held
        Whether the limit held it back: it is merely counted.
    """

    entry: str
    host: str
    fingerprint: str
    at: datetime
    group: str
    over: bool = False
    held: bool = False


@dataclass(frozen=True)
class Pending:
    """A notice that a channel did not take: when it was made, and as plain values."""

    channel: str
    at: datetime
    notice: dict[str, Any]


@dataclass(frozen=True)
class AlertState:
    """What was told so far, as the store keeps it.

    Attributes
    ----------
    told
        Of the last week.
    held_told
        When it was last told how many were held back.
    pending
        Notices still to be delivered.
    """

    told: tuple[Told, ...] = ()
    held_told: datetime | None = None
    pending: tuple[Pending, ...] = ()


Status = Literal["firing", "resolved", "held"]


@dataclass(frozen=True)
class Notice:
    """One message.

    Attributes
    ----------
    status
        ``firing``: it began (and may be over already); ``resolved``: what was told of is over; ``held``: so
        many more incidents than the limit allows.
    group
        What it is about: id of a fleet incident, or a host; ``""`` for ``held``.
    title
        In one line.
    entries
        Of the ledgers, those that need most attention first.
    fleet
        The fleet incident, if it is of one.
    """

    status: Status
    group: str
    title: str
    entries: tuple[Entry, ...]
    fleet: FleetIncident | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; times are ISO 8601 in UTC."""
        return {
            "status": self.status,
            "group": self.group,
            "title": self.title,
            "entries": [entry.to_dict() for entry in self.entries],
            "fleet": self.fleet.to_dict() if self.fleet is not None else None,
        }


@dataclass(frozen=True)
class Decision:
    """What to tell now, the state after it, and why nobody is told of the others, by entry."""

    notices: tuple[Notice, ...]
    state: AlertState
    silent: Mapping[str, str] = field(default_factory=dict)


def decide(
    entries: Iterable[Entry],
    fleet: Sequence[FleetIncident],
    labels: Mapping[tuple[str, str], Label],
    silences: Sequence[Silence],
    state: AlertState,
    now: datetime,
    rules: AlertRules,
) -> Decision:
    """Return what to tell of the entries of a fleet.

    Parameters
    ----------
    entries
        Of all ledgers that a run touched.
    fleet
        Fleet incidents of the same run: their members are told of together.
    labels
        The newest label of each (host, fingerprint).
    silences
        In force or not.
    state
        After the run before.
    now
        UTC.
    rules
        How much is told.
    """
    known = {told.entry: told for told in state.told}
    silent: dict[str, str] = {}
    new: list[Entry] = []
    over: list[Entry] = []
    for entry in sorted(entries, key=_urgency):
        told = known.get(entry.id)
        if told is not None:
            if entry.state != OPEN and not told.over and not told.held:
                over.append(entry)
            continue
        why = _why_silent(entry, labels, silences, state, now, rules)
        if why:
            silent[entry.id] = why
        else:
            new.append(entry)
    allowed, held = _within_limit(new, state, now, rules)
    silent |= dict.fromkeys((e.id for e in held), f"more than {rules.per_day} new incidents in a day")
    groups = _grouped(allowed, fleet)
    notices = [_began(group, members, fleet) for group, members in groups.items()]
    notices += [_ended(group, members, fleet) for group, members in _by_told(over, known).items()]
    ended = {entry.id for entry in over}
    after = [
        *(replace(told, over=told.over or told.entry in ended) for told in state.told),
        # What is over when it is told of needs no second notice.
        *(_told(e, now, group, over=e.state != OPEN) for group, members in groups.items() for e in members),
        *(_told(e, now, "", held=True) for e in held),
    ]
    kept = tuple(t for t in after if now - t.at < (7 * DAY if t.over or t.held else _FORGOTTEN))
    counted, held_told = _held_since(kept, state.held_told, now, rules)
    if counted:
        title = f"{counted} more {'incident' if counted == 1 else 'incidents'} than the limit of a day allows"
        notices.append(Notice("held", "", f"{title}: see the report", tuple(held)))
    return Decision(tuple(notices), AlertState(kept, held_told, state.pending), silent)


def _told(entry: Entry, now: datetime, group: str, *, over: bool = False, held: bool = False) -> Told:
    return Told(entry.id, entry.host, entry.fingerprint, now, group, over, held)


def _held_since(
    told: Iterable[Told], before: datetime | None, now: datetime, rules: AlertRules
) -> tuple[int, datetime | None]:
    """Return how many held back are to be told of now, 0 if it is too soon, and when it was last told."""
    count = sum(t.held and (before is None or t.at > before) for t in told)
    due = before is None or now - before >= timedelta(seconds=rules.remind_s)
    return (count, now) if count and due else (0, before)


def _urgency(entry: Entry) -> tuple[bool, bool, float, datetime, str]:
    return entry.action not in URGENT, entry.state != OPEN, -entry.score, entry.first, entry.id


def _why_silent(
    entry: Entry,
    labels: Mapping[tuple[str, str], Label],
    silences: Sequence[Silence],
    state: AlertState,
    now: datetime,
    rules: AlertRules,
) -> str:
    quiet = why_quiet(entry, labels, silences)
    if quiet:
        return quiet
    if now - entry.end > timedelta(seconds=rules.oldest_s):
        return "it was over long before it was found"
    for told in state.told:
        same = told.host == entry.host and told.fingerprint == entry.fingerprint
        if same and not told.held and now - told.at < timedelta(seconds=rules.remind_s):
            return f"the same was told of at {iso(told.at)}"
    return ""


def why_quiet(entry: Entry, labels: Mapping[tuple[str, str], Label], silences: Sequence[Silence]) -> str:
    """Return why nobody wants to be told of an entry, by a label or a silence; ``""`` if they do."""
    label = labels.get((entry.host, entry.fingerprint))
    if label is not None and label.quiets:
        return f"labelled {label.verdict} by {label.by}" + (f": {label.why}" if label.why else "")
    for silence in silences:
        if silence.matches(entry.host, entry.subsystem, entry.cause, entry.start):
            return f"silenced by {silence.by}" + (f": {silence.why}" if silence.why else "")
    return ""


def _within_limit(
    new: Sequence[Entry], state: AlertState, now: datetime, rules: AlertRules
) -> tuple[list[Entry], list[Entry]]:
    """Return entries to tell of and entries to hold back; urgent ones are told of in any case."""
    left = rules.per_day - sum(not told.held and now - told.at < DAY for told in state.told)
    allowed: list[Entry] = []
    held: list[Entry] = []
    for entry in new:
        if left > 0 or entry.action in URGENT:
            allowed.append(entry)
            left -= 1
        else:
            held.append(entry)
    return allowed, held


def _grouped(entries: Sequence[Entry], fleet: Sequence[FleetIncident]) -> dict[str, list[Entry]]:
    """Return entries by fleet incident, or else by host, in the order given."""
    group_of = {incident: one.id for one in fleet for incident in one.incidents}
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        ids = (entry.id, *(incident for episode in entry.episodes for incident in episode.incidents))
        group = next((group_of[i] for i in ids if i in group_of), entry.host)
        groups.setdefault(group, []).append(entry)
    return groups


def _by_told(entries: Sequence[Entry], known: Mapping[str, Told]) -> dict[str, list[Entry]]:
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(known[entry.id].group, []).append(entry)
    return groups


def _began(group: str, entries: Sequence[Entry], fleet: Sequence[FleetIncident]) -> Notice:
    one = next((f for f in fleet if f.id == group), None)
    return Notice("firing", group, _title(entries, one), tuple(entries), one)


def _ended(group: str, entries: Sequence[Entry], fleet: Sequence[FleetIncident]) -> Notice:
    one = next((f for f in fleet if f.id == group), None)
    return Notice("resolved", group, f"Over: {_title(entries, one)}", tuple(entries), one)


def _title(entries: Sequence[Entry], fleet: FleetIncident | None) -> str:
    """Return what a notice is about, in one line."""
    if fleet is not None:
        where = f" of {fleet.where}" if fleet.where else ""
        return f"{fleet.title} on {len(fleet.hosts)} hosts{where}"
    hosts = sorted({entry.host for entry in entries})
    place = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    rest = len(entries) - 1
    more = f", and {rest} more" if rest else ""
    return f"{described(entries[0])} on {place}{more}"


def described(entry: Entry) -> str:
    """Return what an entry is, in words: its likeliest cause, or what moved where none is known."""
    return described_parts(entry.title, entry.subsystem, entry.metrics)


def described_parts(title: str, subsystem: str, metrics: Sequence[str]) -> str:
    """Return what something is, in words, from its cause's title, or else what moved.

    >>> described_parts("", "network", ("tcp.RetransSegs",))
    'Unknown network anomaly: tcp.RetransSegs moved'
    """
    if title:
        return title
    return f"Unknown {subsystem} anomaly" + (f": {metrics[0]} moved" if metrics else "")
