"""What became of a campaign's faults: found or not, how late, and whether rightly explained.

A campaign injects real faults into a workload, piece by piece; each piece is a recording that was judged by a
model of its own healthy beginning. Counting is `reveal_core.evaluate.matching`'s: a fault is found when an
incident *begins* at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from reveal_core.evaluate.matching import (
    FaultMatch,
    InjectedFault,
    false_incidents,
    match_faults,
)
from reveal_core.incidents import Incident, iso

HARMFUL = 0.2
"""A fault that slows the workload by so much or more is harmful."""


@dataclass(frozen=True)
class CampaignFault:
    """A fault that was injected, and what a campaign knows of it.

    Attributes
    ----------
    truth
        Name, subsystem, time and right causes; the first of these is its own.
    piece, variant
        The recording that it belongs to, and the workload's variant.
    intensity, seconds
        As planned; 1 is the usual strength.
    how
        What was done, in words.
    pace_before, pace
        Steps a second of the workload before the fault and while it was on; None where they are not known.
    lenient
        Other subsystems that count as right, because a host's signals cannot tell; ``()`` for most.
    """

    truth: InjectedFault
    piece: int
    variant: str
    intensity: float
    seconds: float
    how: str = ""
    pace_before: float | None = None
    pace: float | None = None
    lenient: tuple[str, ...] = ()

    @property
    def slowdown(self) -> float | None:
        """Share by which the workload was slower, 1 where it stood still; None where it is not known."""
        if self.pace is None or not self.pace_before:
            return None
        return 1.0 - self.pace / self.pace_before


@dataclass(frozen=True)
class JudgedPiece:
    """A recording of a campaign with the incidents that the method found in it.

    Attributes
    ----------
    number, variant, seed
        Which one.
    start, end
        Range that was judged, UTC.
    faults, incidents
        What was injected, and what was found.
    """

    number: int
    variant: str
    seed: int
    start: datetime
    end: datetime
    faults: tuple[CampaignFault, ...]
    incidents: tuple[Incident, ...]

    def healthy_hours(self) -> float:
        """Return the judged time without a fault, in hours; a fault takes its whole span."""
        spans = sorted(fault.truth.span for fault in self.faults)
        seconds, at = 0.0, self.start
        for begin, until in spans:
            seconds += max(0.0, (min(begin, self.end) - at).total_seconds())
            at = max(at, until)
        return (seconds + max(0.0, (self.end - at).total_seconds())) / 3600.0


@dataclass(frozen=True)
class CampaignRun:
    """One fault of a campaign and what became of it; fields as ``reveal lab campaign --json`` names them.

    ``subsystem_found`` and ``cause_found`` are what the incident names first, ``""`` for none;
    ``subsystem_rank`` and ``cause_rank`` the place of the right ones. ``subsystem_right`` is strict,
    ``subsystem_lenient`` counts what a host's signals cannot tell; ``cause_strict`` counts the fault's own
    cause only. ``false_incidents`` are those between this fault and the next. What depends on an incident is
    None where the fault was missed.
    """

    fault: str
    subsystem: str
    piece: int
    variant: str
    intensity: float
    seconds: float
    onset: str
    how: str
    slowdown: float | None
    harmful: bool
    detected: bool
    delay_s: float | None
    subsystem_found: str
    subsystem_rank: int | None
    subsystem_right: bool | None
    subsystem_lenient: bool | None
    cause_found: str
    cause_rank: int | None
    cause_strict: bool | None
    false_incidents: int
    incident: str | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def judge_pieces(pieces: Sequence[JudgedPiece]) -> tuple[list[CampaignRun], list[dict[str, Any]]]:
    """Return what became of every fault, and a line on each piece.

    Returns
    -------
    list of CampaignRun
        In order of pieces and onsets.
    list of dict
        ``piece``, ``variant``, ``seed``, ``start``, ``end``, ``faults``, ``healthy_hours``, and
        ``false_incidents``: each with ``id``, ``start``, ``subsystem`` and ``cause``.
    """
    runs: list[CampaignRun] = []
    lines = []
    for piece in pieces:
        truths = [fault.truth for fault in piece.faults]
        wrong = false_incidents(truths, piece.incidents)
        matches = {match.fault: match for match in match_faults(truths, piece.incidents)}
        faults = sorted(piece.faults, key=lambda fault: fault.truth.start)
        ends = [fault.truth.start for fault in faults[1:]] + [piece.end]
        for fault, until in zip(faults, ends, strict=True):
            after = sum(fault.truth.start <= incident.start < until for incident in wrong)
            runs.append(_run(fault, matches[fault.truth], after))
        lines.append(
            {
                "piece": piece.number,
                "variant": piece.variant,
                "seed": piece.seed,
                "start": iso(piece.start),
                "end": iso(piece.end),
                "faults": len(piece.faults),
                "healthy_hours": round(piece.healthy_hours(), 4),
                "false_incidents": [
                    {"id": one.id, "start": iso(one.start), "subsystem": one.subsystem, "cause": one.cause}
                    for one in wrong
                ],
            }
        )
    return runs, lines


def _run(fault: CampaignFault, match: FaultMatch, false_after: int) -> CampaignRun:
    incident = match.incident
    slowdown = None if fault.slowdown is None else round(fault.slowdown, 3)
    allowed = (fault.truth.subsystem, *fault.lenient)
    return CampaignRun(
        fault=fault.truth.name,
        subsystem=fault.truth.subsystem,
        piece=fault.piece,
        variant=fault.variant,
        intensity=round(fault.intensity, 3),
        seconds=round(fault.seconds, 1),
        onset=iso(fault.truth.start),
        how=fault.how,
        slowdown=slowdown,
        harmful=slowdown is not None and slowdown >= HARMFUL,
        detected=match.found,
        delay_s=None if match.delay_s is None else round(match.delay_s, 3),
        subsystem_found=incident.subsystem if incident else "",
        subsystem_rank=match.subsystem_rank,
        subsystem_right=match.subsystem_right,
        subsystem_lenient=incident.subsystem in allowed if incident else None,
        cause_found=incident.cause if incident else "",
        cause_rank=match.cause_rank,
        cause_strict=incident.cause == fault.truth.right_causes[0] if incident else None,
        false_incidents=false_after,
        incident=incident.id if incident else None,
    )
