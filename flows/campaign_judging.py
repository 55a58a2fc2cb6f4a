"""A campaign's pieces judged: fitted on their healthy beginning, scored on the rest, as a schedule would."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from reveal_core.incidents import Incident
from tasks.campaign_files import CampaignFolder, PieceFolder


@dataclass(frozen=True)
class Method:
    """What pieces are judged with: a profile, settings of it to replace, a seed, and the code's version."""

    profile: str
    overrides: Mapping[str, Any]
    seed: int
    version: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "profile": self.profile,
            "overrides": dict(self.overrides),
            "seed": self.seed,
            "version": self.version,
        }


def judge_apart(folder: PieceFolder, method: Method) -> None:
    """Judge a piece in a process of its own, so that nothing of the work is left when the next one records.

    Raises
    ------
    UsageError
        If the piece holds too little telemetry, or there is no such profile or setting.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        pool.submit(judge_quietly, str(folder.path), method.to_dict()).result()


def judge_quietly(path: str, method: dict[str, Any]) -> None:
    """Judge a piece; whatever a library prints goes to standard error, where a document is not spoiled."""
    with redirect_stdout(sys.stderr):
        judge_piece(path, method)


def judge_piece(path: str, method: dict[str, Any]) -> None:
    """Fit a model on a piece's healthy stretch, score the rest, and keep the incidents in the piece's folder.

    Model and runs go to a database in the piece's folder: a campaign of many pieces is one run elsewhere.

    Parameters
    ----------
    path
        The piece's folder.
    method
        `Method.to_dict`.
    """
    from flows.environment import prepare_environment
    from flows.pipelines import fit_detectors, score_fleet
    from tasks.runner import DirectRunner

    prepare_environment()
    folder = PieceFolder(Path(path))
    folder.forget_results()
    facts = folder.facts()
    places: dict[str, Any] = {
        "store": str(folder.store),
        "tracking_uri": f"sqlite:///{folder.path / 'mlflow.db'}",
        "host": facts["host"],
    }
    (model,) = fit_detectors(
        DirectRunner(),
        **places,
        start=facts["healthy_start"],
        end=facts["healthy_end"],
        profile=method["profile"],
        overrides=method["overrides"],
        seed=method["seed"],
        promote=False,
    )
    document = score_fleet(
        DirectRunner(),
        **places,
        start=facts["healthy_end"],
        end=facts["end"],
        model=f"{model['model']}/{model['version']}",
        injected=facts["faults"],
        title=f"Campaign, piece {facts['number']}",
    )
    known = [field.name for field in fields(Incident)]
    folder.put_judged(
        {
            "method": method,
            "hardware_class": model["hardware_class"],
            "features": model["features"],
            "threshold_rule": model["threshold_rule"],
            # What a report adds to them, curves above all, is in the report.
            "incidents": [{name: one[name] for name in known} for one in document["incidents"]],
            "report": document["report"],
        }
    )


def judge_stale(folder: CampaignFolder, method: Method, say: Callable[[str], None], *, anew: bool) -> None:
    """Judge the pieces that were not judged with this method, or all.

    Parameters
    ----------
    folder
        The campaign.
    method
        What to judge with.
    say
        Told what happens.
    anew
        Whether pieces that were judged with the same method are judged again.
    """
    pieces = folder.pieces()
    for place, piece in enumerate(pieces, 1):
        judged = piece.judged()
        if anew or judged is None or judged["method"] != method.to_dict():
            say(f"judging piece {piece.number} ({place} of {len(pieces)})")
            judge_apart(piece, method)
