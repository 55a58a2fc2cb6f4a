"""Pieces of a campaign as if they had been recorded and judged, in no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from reveal_core.incidents import CauseFinding, Incident, SubsystemShare, iso
from reveal_core.lab.campaign_plan import PiecePlan
from reveal_core.lab.faults import FAULTS
from reveal_core.timespec import parse_time
from tasks.campaign_files import PieceFolder

START = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)
KNOWN = {fault.name: fault for fault in FAULTS}


def record(piece: PiecePlan, folder: PieceFolder, *, host: str, say: Any) -> int:
    """Put a piece into its folder as `flows.campaign.record_piece` does, without recording."""
    begin = START + timedelta(hours=piece.number)
    at = begin + timedelta(seconds=piece.healthy_s)
    healthy_end, faults = at, []
    for fault in piece.faults:
        at += timedelta(seconds=fault.gap_s)
        end = at + timedelta(seconds=fault.seconds)
        faults.append(
            {
                "name": fault.name,
                "subsystem": KNOWN[fault.name].subsystem,
                "start": iso(at),
                "end": iso(end),
                "causes": list(KNOWN[fault.name].causes),
                "host": host,
                "how": "as told",
                "intensity": fault.intensity,
                "seconds": fault.seconds,
                "pace_before": 10.0,
                "pace": 5.0,
            }
        )
        at = end + timedelta(seconds=fault.control_s)
    folder.store.mkdir()
    facts = {"number": piece.number, "variant": piece.variant, "seed": piece.seed, "host": host}
    times = {"healthy_start": iso(begin), "healthy_end": iso(healthy_end), "end": iso(at)}
    skipped = [{"fault": "clock-step", "reason": "not by name"}]
    folder.finish({**facts, **times, "skipped": skipped}, faults)
    return len(faults)


def judge(folder: PieceFolder, method: Any) -> None:
    """Judge a piece as `flows.campaign_judging.judge_apart` does: all is found, 2 s late, and rightly."""
    incidents = []
    for entry in folder.facts()["faults"]:
        start = parse_time(entry["start"]) + timedelta(seconds=2)
        cause = entry["causes"][0]
        incidents.append(
            Incident(
                id=f"{entry['name']}-{entry['start']}",
                fingerprint="f",
                host=entry["host"],
                start=start,
                end=start + timedelta(seconds=9),
                severity=2,
                probability=1e-4,
                score=3.0,
                subsystem=entry["subsystem"],
                subsystems=(SubsystemShare(entry["subsystem"], 1.0),),
                metrics=(),
                causes=(CauseFinding(cause, cause, entry["subsystem"], 0.9, (), (), "", ""),),
            ).to_dict()
        )
    folder.put_judged(
        {"method": method.to_dict(), "hardware_class": "2cpu-0gpu-lab", "incidents": incidents, "report": ""}
    )
