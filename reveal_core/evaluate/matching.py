"""Which injected fault was found by which incident, and which incidents were false.

Shared by reports of lab runs and by campaigns, so that both count alike. The rule: a fault is found when an
incident *begins* at it. An overlap would flatter an alarm that is always on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reveal_core.incidents import Incident

EARLY_S = 1.0
"""An incident may begin this much before the onset: windows reach back."""
LATE_S = 10.0
"""An incident that begins later than this after the onset has not found the fault."""


@dataclass(frozen=True)
class InjectedFault:
    """A fault that the lab injected: the truth that incidents are held against.

    Attributes
    ----------
    name, subsystem
        The fault's name in the lab, and the subsystem that it strikes.
    start, end
        When it took effect and when it was undone, UTC.
    causes
        Ids of the cause catalogue that are right for it; its own name where none are given.
    host
        The host that it struck; ``""`` matches incidents of any host.
    begun
        When the lab began to prepare it, UTC, where that is known: starting processes and making files is
        seen too, before the fault is on.
    """

    name: str
    subsystem: str
    start: datetime
    end: datetime
    causes: tuple[str, ...] = ()
    host: str = ""
    begun: datetime | None = None

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From when to when the fault explains an incident that begins: `false_incidents` counts the rest."""
        earliest = self.start - timedelta(seconds=EARLY_S)
        return (
            earliest if self.begun is None else min(self.begun, earliest),
            max(self.end, self.start + timedelta(seconds=LATE_S)),
        )

    @property
    def right_causes(self) -> tuple[str, ...]:
        """Ids of causes that count as right."""
        return self.causes or (self.name,)


@dataclass(frozen=True)
class FaultMatch:
    """What became of one injected fault.

    Attributes
    ----------
    fault
        The fault.
    incident
        The incident that begins at it; None where the fault was missed. All that follows is then None too.
    delay_s
        Seconds from the fault's onset to the incident's start; negative where the incident begins first.
    subsystem_right, cause_right
        Whether the incident's first subsystem, and its first cause, are the fault's.
    subsystem_rank, cause_rank
        The place of the right subsystem and of the first right cause, from 1; None where it is not named.
    """

    fault: InjectedFault
    incident: Incident | None
    delay_s: float | None = None
    subsystem_right: bool | None = None
    cause_right: bool | None = None
    subsystem_rank: int | None = None
    cause_rank: int | None = None

    @property
    def found(self) -> bool:
        """Whether an incident begins at the fault."""
        return self.incident is not None


def match_faults(injected: Sequence[InjectedFault], incidents: Sequence[Incident]) -> list[FaultMatch]:
    """Match every fault with the incident that begins at it.

    A fault is found when an incident of its host begins from `EARLY_S` before to `LATE_S` after its onset.
    Each incident finds one fault at most; faults take incidents in order of time, which finds as many as can
    be found.

    Parameters
    ----------
    injected
        In any order.
    incidents
        In any order, of any hosts.

    Returns
    -------
    list of FaultMatch
        One per fault, in order of onset.
    """
    left = sorted(incidents, key=lambda incident: (incident.start, incident.id))
    matches = []
    for fault in sorted(injected, key=lambda fault: (fault.start, fault.name)):
        latest = fault.start + timedelta(seconds=LATE_S)
        first = next((i for i in left if _concerns(fault, i) and _earliest(fault) <= i.start <= latest), None)
        if first is None:
            matches.append(FaultMatch(fault, None))
            continue
        left.remove(first)
        matches.append(_match(fault, first))
    return matches


def false_incidents(injected: Sequence[InjectedFault], incidents: Sequence[Incident]) -> list[Incident]:
    """Return the incidents that no fault explains, in order of time.

    An incident that begins within a fault's span is never false, also where another incident had found that
    fault before: from where its preparation began, or `EARLY_S` before its onset, to its end, or to `LATE_S`
    after its onset.
    """
    return [
        incident
        for incident in sorted(incidents, key=lambda i: (i.start, i.id))
        if not any(
            _concerns(fault, incident) and fault.span[0] <= incident.start <= fault.span[1]
            for fault in injected
        )
    ]


def _concerns(fault: InjectedFault, incident: Incident) -> bool:
    return fault.host in ("", incident.host)


def _earliest(fault: InjectedFault) -> datetime:
    return fault.start - timedelta(seconds=EARLY_S)


def _match(fault: InjectedFault, incident: Incident) -> FaultMatch:
    ranking = [share.name for share in incident.subsystems]
    causes = [cause.id for cause in incident.causes]
    right = set(fault.right_causes)
    return FaultMatch(
        fault=fault,
        incident=incident,
        delay_s=(incident.start - fault.start).total_seconds(),
        subsystem_right=incident.subsystem == fault.subsystem,
        cause_right=bool(causes) and causes[0] in right,
        subsystem_rank=ranking.index(fault.subsystem) + 1 if fault.subsystem in ranking else None,
        cause_rank=next((place for place, cause in enumerate(causes, 1) if cause in right), None),
    )
