"""Where an incident stands, in words: open or over, new or known, and what it belongs to."""

from __future__ import annotations

from reveal_core.formatting import counted
from reveal_core.incidents import ACTIONS, OPEN, FleetIncident
from reveal_core.report.types import IncidentReport
from reveal_core.report.words import fleet_place

_LABELS = {"real": "confirmed as real", "known": "known", "false": "labelled a false alarm"}


def standing(shown: IncidentReport) -> tuple[str, ...]:
    """Return what is known of an incident beyond its own windows, as short phrases.

    Whether it is still on, how often it came and when first, whether it comes and goes, what a person said of
    it, and why nobody was told.
    """
    phrases = ["open" if shown.incident.state == OPEN else "resolved"]
    history = shown.history
    if history is None:
        return tuple(phrases)
    if history.count > 1:
        phrases.append(f"{ordinal(history.count)} time, first on {history.first:%Y-%m-%d at %H:%M} UTC")
    else:
        phrases.append("first time")
    if history.flapping:
        phrases.append("comes and goes")
    if history.label:
        label = _LABELS.get(history.label, history.label)
        phrases.append(f"{label}: {history.label_why}" if history.label_why else label)
    if history.silenced:
        phrases.append(f"silenced: {history.silenced}")
    return tuple(phrases)


def ordinal(number: int) -> str:
    """Return a number as an ordinal.

    >>> [ordinal(n) for n in (1, 2, 3, 4, 11, 22, 113)]
    ['1st', '2nd', '3rd', '4th', '11th', '22nd', '113th']
    """
    ending = "th" if 10 <= number % 100 < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


def action_phrase(action: str) -> str:
    """Return a suggested action as it stands in a sentence; its name where it is not one of `ACTIONS`."""
    return ACTIONS.get(action, action)


def fleet_sentence(fleet: FleetIncident) -> str:
    """Return how far an incident of the fleet reaches: ``the same on 14 hosts of rack-7-*, of 50 judged``."""
    return f"the same on {fleet_place(fleet)}, of {counted(fleet.of_hosts, 'host')} judged"
