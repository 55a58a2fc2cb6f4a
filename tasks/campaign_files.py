"""A campaign's folder: its plan, and a folder for each piece with telemetry, truth and what was made of it.

Everything is plain JSON beside the telemetry, so a campaign can be stopped at any moment, gone on with, and
judged again. A piece counts once its ``piece.json`` is there, which is written last; what a stop has left of
another is removed when the campaign goes on.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.evaluate.matching import InjectedFault
from reveal_core.incidents import iso
from reveal_core.lab.campaign_plan import CampaignPlan
from reveal_core.lab.faults import FAULTS
from reveal_core.timespec import parse_time

if TYPE_CHECKING:
    from reveal_core.evaluate.campaign import CampaignFault, JudgedPiece

PLAN, PIECE, FAULT_LIST, JUDGED = "campaign.json", "piece.json", "faults.json", "judged.json"
KEPT = ("telemetry", "quarantine")
"""What stays of a piece's store when it is judged again."""


class PieceFolder:
    """The folder of one piece; ``store`` is where its telemetry is."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def number(self) -> int:
        """Which piece it is."""
        return int(self.path.name)

    @property
    def store(self) -> Path:
        """The piece's store."""
        return self.path / "store"

    def finish(self, facts: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> None:
        """Keep what was injected, and with it the piece."""
        _put(self.path / FAULT_LIST, list(faults))
        _put(self.path / PIECE, {**facts, "faults": list(faults)})

    def facts(self) -> dict[str, Any]:
        """Return what `finish` kept.

        Raises
        ------
        UsageError
            If it cannot be read.
        """
        return dict(_get(self.path / PIECE))

    def forget_results(self) -> None:
        """Remove from the store what an earlier judgement put there: it would be history to the next."""
        for child in self.store.iterdir():
            if child.name not in KEPT:
                shutil.rmtree(child) if child.is_dir() else child.unlink()
        (self.path / JUDGED).unlink(missing_ok=True)

    def put_judged(self, judged: Mapping[str, Any]) -> None:
        """Keep what was found in the piece."""
        _put(self.path / JUDGED, dict(judged))

    def judged(self) -> dict[str, Any] | None:
        """Return what was found in the piece; None if it was not judged yet."""
        path = self.path / JUDGED
        return dict(_get(path)) if path.exists() else None


class CampaignFolder:
    """The folder of a campaign."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self, plan: CampaignPlan) -> None:
        """Make the folder of a new campaign.

        Raises
        ------
        UsageError
            If it holds one already.
        UnavailableError
            If it cannot be made.
        """
        if (self.path / PLAN).exists():
            raise UsageError(f"{self.path} holds a campaign already: --resume goes on with it")
        try:
            (self.path / "pieces").mkdir(parents=True, exist_ok=True)
            _put(
                self.path / PLAN,
                {"plan": asdict(plan), "machine": machine(), "begun": iso(datetime.now(UTC))},
            )
        except OSError as error:
            raise UnavailableError(
                f"the campaign's folder {self.path} cannot be made: {error.strerror}"
            ) from error

    def content(self) -> dict[str, Any]:
        """Return the plan (as a mapping), the machine and when it was begun.

        Raises
        ------
        UsageError
            If the folder holds no campaign.
        """
        if not (self.path / PLAN).exists():
            raise UsageError(f"{self.path} holds no campaign: without --resume a new one begins")
        return dict(_get(self.path / PLAN))

    def plan(self) -> CampaignPlan:
        """Return the plan that the campaign was begun with.

        Raises
        ------
        UsageError
            If the folder holds no campaign, or one with other settings.
        """
        values = self.content().get("plan")
        try:
            lists = {name: tuple(values[name]) for name in ("faults", "variants")}
            return CampaignPlan(**{**values, **lists})
        except (TypeError, KeyError) as error:
            raise UsageError(f"{self.path / PLAN} is no plan of a campaign: {error}") from error

    def pieces(self) -> list[PieceFolder]:
        """Return the pieces that are whole, in order."""
        found = [PieceFolder(path.parent) for path in (self.path / "pieces").glob(f"*/{PIECE}")]
        return sorted(found, key=lambda piece: piece.number)

    def new_piece(self, number: int) -> PieceFolder:
        """Make the folder of a piece; what a stop has left of it is removed."""
        path = self.path / "pieces" / f"{number:03d}"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return PieceFolder(path)


def judged_piece(facts: Mapping[str, Any], incidents: Sequence[Mapping[str, Any]]) -> JudgedPiece:
    """Return a piece as figures are made of it.

    Parameters
    ----------
    facts
        What `PieceFolder.finish` kept.
    incidents
        As the contract's ``I``.
    """
    from reveal_core.evaluate.campaign import JudgedPiece
    from storage.incidents import incident_from_dict

    return JudgedPiece(
        number=int(facts["number"]),
        variant=facts["variant"],
        seed=int(facts["seed"]),
        start=parse_time(facts["healthy_end"]),
        end=parse_time(facts["end"]),
        faults=tuple(_fault(entry, facts) for entry in facts["faults"]),
        incidents=tuple(incident_from_dict(incident) for incident in incidents),
    )


def _fault(entry: Mapping[str, Any], facts: Mapping[str, Any]) -> CampaignFault:
    """Return a fault; what is right for it is what the lab says today, so that old recordings follow."""
    from reveal_core.evaluate.campaign import CampaignFault

    known = {fault.name: fault for fault in FAULTS}
    now = known.get(entry["name"])
    subsystem = now.subsystem if now else entry["subsystem"]
    causes = now.causes if now else tuple(entry["causes"])
    # A cause that counts as right brings its own fault's subsystem with it.
    others = dict.fromkeys(fault.subsystem for fault in FAULTS if fault.causes[0] in causes)
    return CampaignFault(
        truth=InjectedFault(
            name=entry["name"],
            subsystem=subsystem,
            start=parse_time(entry["start"]),
            end=parse_time(entry["end"]),
            causes=causes,
            host=facts["host"],
            begun=parse_time(entry["begun"]) if "begun" in entry else None,  # recordings of old do not tell
        ),
        piece=int(facts["number"]),
        variant=facts["variant"],
        intensity=float(entry["intensity"]),
        seconds=float(entry["seconds"]),
        how=entry["how"],
        pace_before=entry["pace_before"],
        pace=entry["pace"],
        lenient=tuple(name for name in others if name != subsystem),
    )


def machine() -> str:
    """Return the machine's size in a line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, Linux {platform.release().split('-')[0]}"


def _put(path: Path, content: Any) -> None:
    partial = path.with_suffix(".new")
    partial.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    partial.replace(path)


def _get(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read: {reason}") from error
