"""A campaign's folder: what counts as whole, what follows the lab of today, and what is forgotten."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest

from reveal_core.errors import UsageError
from reveal_core.lab.campaign_plan import CampaignPlan
from tasks.campaign_files import JUDGED, PIECE, PLAN, CampaignFolder, judged_piece

WANTED = CampaignPlan(7, ("cpu-quota", "link-flap"), ("training", "inference"), 2, 300.0, 180.0)
FAULT = {
    "name": "data-loader-stall",
    "subsystem": "cpu",
    "start": "2026-11-30T10:06:00.000Z",
    "end": "2026-11-30T10:06:20.000Z",
    "causes": ["of-another-day"],
    "how": "as told",
    "intensity": 1.5,
    "seconds": 20.0,
    "pace_before": 10.0,
    "pace": 4.0,
}
FACTS = {
    "number": 3,
    "variant": "inference",
    "seed": 5,
    "host": "a",
    "healthy_start": "2026-11-30T10:00:00.000Z",
    "healthy_end": "2026-11-30T10:05:00.000Z",
    "end": "2026-11-30T10:20:00.000Z",
    "skipped": [],
}


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path / "new")
    folder.begin(WANTED)
    assert folder.plan() == WANTED
    assert "cores" in folder.content()["machine"]
    with pytest.raises(UsageError, match="holds a campaign already"):
        folder.begin(WANTED)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"plan": {"seed": 1}}', json.dumps({"plan": {**asdict(WANTED), "x": 1}})]
)
def test_a_damaged_plan_is_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / PLAN).write_text(content)
    with pytest.raises(UsageError, match=PLAN) as caught:
        CampaignFolder(tmp_path).plan()
    assert "\n" not in str(caught.value)


def test_a_piece_counts_once_it_is_finished(tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path)
    folder.begin(WANTED)
    first, second = folder.new_piece(0), folder.new_piece(1)
    first.finish(FACTS, [FAULT])
    (second.path / "workload.log").write_text("stopped")
    assert [piece.number for piece in folder.pieces()] == [0]
    assert folder.pieces()[0].facts()["faults"] == [FAULT]
    again = folder.new_piece(1)
    assert list(again.path.iterdir()) == []


def test_what_an_earlier_judgement_found_is_forgotten_but_not_the_telemetry(tmp_path: Path) -> None:
    piece = CampaignFolder(tmp_path).new_piece(0)
    for name in ("telemetry", "quarantine", "incidents", "scores", "reports"):
        (piece.store / name).mkdir(parents=True)
        (piece.store / name / "file").write_text("")
    (piece.store / "stray").write_text("")
    piece.put_judged({"incidents": []})
    assert piece.judged() == {"incidents": []}
    piece.forget_results()
    assert sorted(path.name for path in piece.store.iterdir()) == ["quarantine", "telemetry"]
    assert piece.judged() is None
    assert not (piece.path / JUDGED).exists()


def test_what_is_right_follows_the_lab_of_today() -> None:
    piece = judged_piece({**FACTS, "faults": [FAULT]}, [])
    (fault,) = piece.faults
    assert (fault.truth.subsystem, fault.lenient) == ("storage", ("cpu",))
    assert fault.truth.causes[0] == "data-loader-stall"
    assert (fault.slowdown, fault.variant, piece.number) == (pytest.approx(0.6), "inference", 3)
    assert fault.truth.begun is None
    begun = judged_piece({**FACTS, "faults": [{**FAULT, "begun": "2026-11-30T10:05:58.000Z"}]}, []).faults[0]
    assert begun.truth.begun == fault.truth.start - timedelta(seconds=2)
    unknown = {**FAULT, "name": "of-another-day", "subsystem": "network"}
    (fault,) = judged_piece({**FACTS, "faults": [unknown]}, []).faults
    assert (fault.truth.subsystem, fault.truth.causes, fault.lenient) == ("network", ("of-another-day",), ())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    piece = CampaignFolder(tmp_path).new_piece(0)
    (piece.path / PIECE).write_text("{")
    with pytest.raises(UsageError, match=f"{PIECE} cannot be read"):
        piece.facts()
