"""Hosts whose telemetry does not come: an incident of its own kind, for which no window can speak."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime

from reveal_core.attribute.causes import Term
from reveal_core.attribute.matching import Signal, Signals, rank_causes
from reveal_core.attribute.tracking import enter
from reveal_core.formatting import format_duration
from reveal_core.incidents import OPEN, RESOLVED, SILENT, Incident, MetricEvidence, SubsystemShare, iso
from reveal_core.ledger import Ledger
from reveal_core.windows import HOST_COVERAGE

_FAR = -100.0
"""Excursion of what is missing altogether: as far as any signal counts."""


def silent_incident(host: str, last: datetime, now: datetime, *, patience_s: float) -> Incident:
    """Return the incident of a host that is silent; it has the same id as long as the silence lasts.

    Parameters
    ----------
    host
        Which.
    last
        Time of its last sample, UTC.
    now
        Until when it is known to be silent, UTC.
    patience_s
        Silence that is none yet, s. The score of the incident is its length over this.
    """
    quiet_s = (now - last).total_seconds()

    def word(term: Term, _signal: Signal) -> str:
        return f"{term.says} after {iso(last)}, for {format_duration(quiet_s)} now"

    causes = rank_causes(Signals([Signal(HOST_COVERAGE, "value", "level", _FAR, 0)], {HOST_COVERAGE}), word)
    subsystem = causes[0].subsystem
    key = hashlib.sha256(f"{host}|{subsystem}|{SILENT}".encode()).hexdigest()[:16]
    return Incident(
        id=f"{last:%Y%m%dT%H%M%S}-{host}-{key[:6]}",
        fingerprint=key,
        host=host,
        start=last,
        end=now,
        severity=1,
        probability=0.0,
        score=quiet_s / patience_s,
        subsystem=subsystem,
        subsystems=(SubsystemShare(subsystem, 1.0),),
        metrics=(
            MetricEvidence(
                metric=HOST_COVERAGE,
                instance="",
                subsystem=subsystem,
                unit="",
                value=0.0,
                normal_low=1.0,
                normal_high=1.0,
                direction="down",
                share=1.0,
                first_moved_s=0.0,
                role="cause",
            ),
        ),
        causes=causes[:1],
        state=OPEN,
    )


def note_silence(ledger: Ledger, incident: Incident) -> Ledger:
    """Return a host's ledger with a silence in it, which is on until telemetry has been judged again."""
    known = enter(ledger, [incident])
    entries = (
        replace(entry, state=OPEN, cleared=None) if entry.has(incident.id) else entry
        for entry in known.entries
    )
    return replace(known, entries=tuple(entries))


def end_silence(ledger: Ledger, now: datetime) -> Ledger:
    """Return the ledger of a host that is not waited for any longer: its silence is over, not its absence."""
    entries = (
        replace(entry, state=RESOLVED, cleared=now)
        if entry.cause == SILENT and entry.state == OPEN
        else entry
        for entry in ledger.entries
    )
    return replace(ledger, entries=tuple(entries))
