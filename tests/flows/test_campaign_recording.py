"""Recording a piece: the order of things, the truth that is kept, and faults that do not take effect."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import flows.campaign as recording
from reveal_core.errors import UnavailableError
from reveal_core.lab.campaign_plan import CampaignPlan, PiecePlan, PlannedFault
from reveal_core.lab.progress import Progress
from tasks.campaign_files import CampaignFolder

PLAN = CampaignPlan(0, ("cpu-quota", "link-flap"), ("training",), 2, 300.0, 180.0)
PIECE = PiecePlan(
    0,
    "training",
    11,
    0.02,
    (
        PlannedFault("cpu-quota", 0.02, 0.01, 0.7),
        PlannedFault("link-flap", 0.02, 0.01, 1.3, 0.01),
    ),
)


class Lab:
    """Stands in for the processes of a piece."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.steps = 0
        self.broken = ""

    def companion(self, name: str) -> Any:
        def check() -> None:
            if name == self.broken:
                raise UnavailableError(f"the {name} ended with code 1")

        return SimpleNamespace(
            name=name, log=f"{name}.log", check=check, stop=lambda *_: self.told.append(f"stop {name}")
        )

    def workload(self, folder: Path, seed: int, variant: str) -> Any:
        self.told.append(f"workload {seed} {variant}")
        return self.companion("workload")

    def collector(self, folder: Path, store: Path, *, host: str, segment_s: float, flow: bool) -> Any:
        assert flow is False
        (store / "telemetry").mkdir(parents=True)
        (store / "telemetry/a.parquet").write_bytes(b"")
        self.told.append(f"collector {host}")
        return self.companion("collector")

    def injector(self, folder: Path) -> Any:
        found = self.companion("injector")
        found.begin = lambda name, seconds, intensity: self.told.append(f"{name} {seconds} {intensity}")
        found.result = self.result
        return found

    def result(self, patience_s: float) -> dict[str, Any]:
        name, seconds, _ = self.told[-1].split()
        if name == "link-flap":
            raise UnavailableError("this fault needs root")
        start, end = "2026-11-30T10:00:00.000Z", "2026-11-30T10:00:10.000Z"
        return {"name": name, "start": start, "end": end, "how": f"{seconds} s of it", "pace": 4.0}

    def progress(self) -> Progress:
        self.steps += 10
        return Progress(self.steps, "train", 0.0)


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    lab = Lab()
    state = SimpleNamespace(progress=lab.progress, transport="namespaces")
    for name, value in (
        ("start_workload", lab.workload),
        ("start_collector", lab.collector),
        ("Injector", lab.injector),
        ("find_workload", lambda: state),
        ("clean_up", lambda: ["ended the competitor spin (process 5)"]),
        ("SETTLE_S", 0.01),
        ("BEFORE_S", 0.01),
        ("STEP_S", 0.01),
    ):
        monkeypatch.setattr(recording, name, value)
    return lab


def test_a_piece_keeps_what_took_effect_and_why_the_rest_did_not(lab: Lab, tmp_path: Path) -> None:
    folder = CampaignFolder(tmp_path).new_piece(0)
    said: list[str] = []
    assert recording.record_piece(PIECE, folder, host="a", say=said.append) == 1
    facts = folder.facts()
    assert facts["skipped"] == [{"fault": "link-flap", "reason": "this fault needs root"}]
    assert (facts["number"], facts["variant"], facts["seed"], facts["host"]) == (0, "training", 11, "a")
    assert facts["healthy_start"] < facts["healthy_end"] < facts["end"]
    (fault,) = facts["faults"]
    assert (fault["name"], fault["intensity"], fault["seconds"]) == ("cpu-quota", 0.7, 0.01)
    assert (fault["subsystem"], fault["causes"], fault["pace"]) == ("cpu", ["cpu-quota"], 4.0)
    assert fault["pace_before"] > 0
    assert facts["healthy_end"] < fault["begun"] < facts["end"]
    assert lab.told[:3] == ["workload 11 training", "collector a", "cpu-quota 0.01 0.7"]
    assert set(lab.told[4:]) == {"stop collector", "stop injector", "stop workload"}
    assert said[0] == "left over from before: ended the competitor spin (process 5)"
    assert any("link-flap: not injected: this fault needs root" in line for line in said)


@pytest.mark.parametrize("name", ["workload", "collector", "injector"])
def test_what_ends_by_itself_ends_the_piece_and_leaves_none(lab: Lab, tmp_path: Path, name: str) -> None:
    campaign = CampaignFolder(tmp_path)
    campaign.begin(PLAN)
    lab.broken = name
    with pytest.raises(UnavailableError, match=f"the {name} ended"):
        recording.record_campaign(
            campaign, PLAN, 2, host="a", say=lambda _: None, after=lambda _: pytest.fail("it is not whole")
        )
    assert campaign.pieces() == []
    assert {"stop collector", "stop injector", "stop workload"} <= set(lab.told)


def test_a_campaign_goes_on_until_its_faults_are_there(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = CampaignFolder(tmp_path)
    campaign.begin(PLAN)
    monkeypatch.setattr(
        recording,
        "plan_piece",
        lambda plan, number, most: PiecePlan(number, "training", number, 0.01, PIECE.faults),
    )
    judged: list[int] = []
    recording.record_campaign(
        campaign, PLAN, 3, host="a", say=lambda _: None, after=lambda piece: judged.append(piece.number)
    )
    # one of a piece's two faults takes effect
    assert judged == [0, 1, 2]
    assert recording.injected(campaign.pieces()) == 3


def test_a_campaign_of_which_nothing_takes_effect_ends(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = CampaignFolder(tmp_path)
    campaign.begin(PLAN)
    monkeypatch.setattr(
        recording,
        "plan_piece",
        lambda plan, number, most: PiecePlan(number, "training", 1, 0.01, PIECE.faults[1:]),
    )
    with pytest.raises(UnavailableError, match="no fault of piece 0 could be injected"):
        recording.record_campaign(campaign, PLAN, 1, host="a", say=lambda _: None, after=lambda _: None)
