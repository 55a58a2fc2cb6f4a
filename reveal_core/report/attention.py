"""What deserves attention first: the one rule by which pages and lists order incidents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reveal_core.incidents import OPEN, FleetIncident
from reveal_core.report.types import IncidentReport, Report

MAX_AT_LENGTH = 50
"""Incidents that a page tells at length; the rest are rows."""
MEMBERS_AT_LENGTH = 3
"""Members of one incident of the fleet that a page tells at length: they tell the same."""
_ASKS = {"drain": 3, "inspect-hardware": 3, "change-configuration": 2, "check-application": 1, "ignore": 0}
"""How much a suggested action asks for."""
_UNKNOWN = 1
"""An unknown cause asks as much as an application: somebody must look."""
Rank = tuple[bool, bool, bool, int, int, int, int]


@dataclass(frozen=True)
class Matter:
    """What somebody may have to see to: an incident of one host, or one that several hosts share.

    ``members`` are its incidents in this report, in order of attention: one where ``fleet`` is None, and none
    where an incident of the fleet has no member in this report.
    """

    fleet: FleetIncident | None
    members: tuple[IncidentReport, ...]

    @property
    def open(self) -> int:
        """Members that are still on."""
        return sum(member.incident.state == OPEN for member in self.members)


def rank(shown: IncidentReport) -> Rank:
    """Return the key by which incidents are ordered: what deserves attention most has the smallest.

    In this order: what nobody has set aside (labelled ``known`` or ``false``, or silenced) goes before what
    somebody has; open before resolved; what several hosts share before what one has alone; more detectors
    that agree before fewer; a score twice as high before a lower one; an action that asks for more (take out
    of service and inspect, then change the configuration, then check the application or find the cause, then
    nothing); and at last the earlier before the later. Scores count in doublings, so that of incidents about
    equally strange the one with more to do goes first.
    """
    incident = shown.incident
    action = incident.causes[0].action if incident.causes else ""
    return (
        set_aside(shown),
        incident.state != OPEN,
        not shown.fleet,
        -incident.severity,
        -round(math.log2(incident.score)) if 0 < incident.score < math.inf else 0,
        -_ASKS.get(action, _UNKNOWN),
        shown.number,
    )


def set_aside(shown: IncidentReport) -> bool:
    """Return whether somebody has said that an incident needs no attention."""
    history = shown.history
    return history is not None and (history.label in ("known", "false") or bool(history.silenced))


def by_attention(incidents: Sequence[IncidentReport]) -> list[IncidentReport]:
    """Return incidents, those that deserve attention most first."""
    return sorted(incidents, key=rank)


def matters(report: Report) -> tuple[Matter, ...]:
    """Return everything a report has to tell, by what deserves attention, each incident once.

    An incident of the fleet stands where its foremost member would stand.
    """
    ordered = by_attention(report.incidents)
    found = [Matter(None, (shown,)) for shown in ordered if not shown.fleet]
    members: dict[str, list[IncidentReport]] = {}
    for shown in ordered:
        if shown.fleet:
            members.setdefault(shown.fleet, []).append(shown)
    shared = [Matter(fleet, tuple(members.get(fleet.id, ()))) for fleet in report.fleet]
    found += [matter for matter in shared if matter.members]
    found.sort(key=lambda matter: rank(matter.members[0]))
    return (*found, *(matter for matter in shared if not matter.members))


def told_at_length(found: Sequence[Matter], most: int = MAX_AT_LENGTH) -> list[IncidentReport]:
    """Return the incidents that are worth a section of their own, in order of attention."""
    chosen = [
        shown for matter in found for shown in matter.members[: MEMBERS_AT_LENGTH if matter.fleet else 1]
    ]
    return chosen[:most]
