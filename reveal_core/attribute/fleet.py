"""The same trouble on several hosts at once is one of the fleet: a switch, a power feed, a roll-out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from reveal_core.incidents import STRAGGLER, FleetIncident, Incident
from reveal_core.titles import lower_first, metric_title

TOGETHER = timedelta(seconds=60)
"""Incidents of one kind that begin within this after one another began together."""
MANY_HOSTS = 20
"""From so many hosts on, two at once may be chance: with one false alarm per host and day, a thousand hosts
have two of the same kind within a minute several times a day."""
_LEAST = (2, 3)
"""Hosts that make an incident of the fleet, below and from `MANY_HOSTS` hosts on."""
_SHARE = 0.8
"""Share of the hosts of a name pattern that must be struck for the pattern to say where it is."""


def fleet_incidents(incidents: Iterable[Incident], hosts: Sequence[str]) -> tuple[FleetIncident, ...]:
    """Return the incidents that several hosts share, in order of time.

    Parameters
    ----------
    incidents
        Of all hosts, in any order.
    hosts
        All hosts that were judged in the same time.

    Notes
    -----
    Incidents are of one kind if they have the same likeliest cause, or without one the same subsystem and
    foremost metric; stragglers if they are in the same job too. They began together if each began within
    `TOGETHER` after the one before.
    """
    kinds: dict[tuple[str, str], list[Incident]] = {}
    for incident in incidents:
        kinds.setdefault(_kind(incident), []).append(incident)
    least = _LEAST[len(set(hosts)) >= MANY_HOSTS]
    found = [
        _fleet_incident(group, hosts)
        for members in kinds.values()
        for group in _together(members)
        if len({incident.host for incident in group}) >= least
    ]
    return tuple(sorted(found, key=lambda f: (f.start, f.id)))


def _kind(incident: Incident) -> tuple[str, str]:
    if incident.cause == STRAGGLER:
        return STRAGGLER, incident.job
    if incident.causes:
        return "cause", incident.cause
    return incident.subsystem, incident.metrics[0].metric if incident.metrics else ""


def _together(members: Iterable[Incident]) -> list[list[Incident]]:
    groups: list[list[Incident]] = []
    last: datetime | None = None
    for incident in sorted(members, key=lambda i: (i.start, i.host, i.id)):
        if last is None or incident.start - last > TOGETHER:
            groups.append([])
        groups[-1].append(incident)
        last = incident.start
    return groups


def _fleet_incident(group: Sequence[Incident], hosts: Sequence[str]) -> FleetIncident:
    struck = tuple(sorted({incident.host for incident in group}))
    first = group[0]
    worst = max(group, key=lambda i: (i.score, i.id))
    subsystems = [incident.subsystem for incident in group]
    if first.causes:
        title = first.causes[0].title
    elif first.metrics:
        title = f"Unusual: {lower_first(metric_title(first.metrics[0].metric))}"
    else:
        title = "Unknown trouble"
    return FleetIncident(
        # Of its first member, which no later run changes; the others may grow more.
        id=f"fleet-{first.id}",
        subsystem=max(sorted(set(subsystems)), key=subsystems.count) if subsystems else worst.subsystem,
        cause=first.cause,
        title=title,
        hosts=struck,
        of_hosts=len(set(hosts) | set(struck)),
        where=common_name(struck, hosts),
        start=first.start,
        end=max(incident.end for incident in group),
        incidents=tuple(incident.id for incident in group),
    )


def common_name(struck: Sequence[str], hosts: Sequence[str]) -> str:
    """Return the pattern of names that tells struck hosts from others; ``""`` where none does.

    Sites name hosts after where they stand, so a shared beginning is most often a rack, a row or a pool.

    Examples
    --------
    >>> hosts = [f"rack{rack}-node{node}" for rack in (1, 2) for node in range(4)]
    >>> common_name(hosts[:4], hosts)
    'rack1-*'
    >>> common_name([hosts[0], hosts[4]], hosts)
    ''
    """
    prefix = _shared_beginning(min(struck), max(struck))
    # A name is cut at its parts: "node1" is no place that node10 to node19 have in common.
    while prefix and prefix[-1].isalnum():
        prefix = prefix[:-1]
    if not prefix:
        return ""
    alike = {host for host in {*hosts, *struck} if host.startswith(prefix)}
    if len(alike) == len({*hosts, *struck}) or len(struck) < _SHARE * len(alike):
        return ""
    return f"{prefix}*"


def _shared_beginning(first: str, last: str) -> str:
    """Return the beginning that two names share; of the least and the greatest, all between share it too."""
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((n for n, (a, b) in pairs if a != b), min(len(first), len(last)))]
