"""``reveal lab campaign`` on the command line: its document, stopping and going on, judging again."""

from __future__ import annotations

import json
from pathlib import Path

import campaign_samples
import pytest

from flows.cli import main
from tasks.campaign_files import PIECE, CampaignFolder
from tasks.tracking import Tracking

BEGIN = ["lab", "campaign", "--dir", "c", "--faults", "cpu-contention,page-fault-storm,switch-storm"]
CONTRACT = {"fault", "slowdown", "detected", "delay_s", "subsystem_rank", "cause_rank", "false_incidents"}


@pytest.fixture(autouse=True)
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    monkeypatch.chdir(tmp_path)
    if "fitted_store" not in request.fixturenames:  # a run in MLflow takes seconds, and one test looks at it
        monkeypatch.setattr("tasks.campaign_tracking.log_campaign", lambda _uri, _document: {"run_id": "r"})
    monkeypatch.setattr("flows.campaign.free_lab", lambda: None)
    monkeypatch.setattr("flows.campaign.record_piece", campaign_samples.record)
    monkeypatch.setattr("flows.campaign_judging.judge_apart", campaign_samples.judge)
    return tmp_path / "c"


def test_the_document_is_the_contracts(
    campaign: Path, fitted_store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    line = [*BEGIN, "--runs", "5", "--piece-faults", "2", "--variants", "training,inference", "--seed", "4"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fitted_store.tracking_uri)
    Path("q.md").write_text("# Quality\n\n<!-- lab campaign -->\nold\n<!-- /lab campaign -->\n\nmore\n")
    assert main([*line, "--markdown", "q.md", "--json"]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert set(document) == {"runs", "summary", "pieces", "skipped", "campaign", "mlflow"}
    assert all(set(run) >= CONTRACT for run in document["runs"])
    assert [run["piece"] for run in document["runs"]] == [0, 0, 1, 1, 2]
    assert [piece["variant"] for piece in document["pieces"]] == ["training", "inference", "training"]
    assert document["summary"]["all"] == {
        "injected": 5,
        "detected": 5,
        "recall": 1.0,
        "median_delay_s": 2.0,
        "median_slowdown": 0.5,
        "subsystem_first": 1.0,
        "subsystem_first_lenient": 1.0,
        "cause_first": 1.0,
        "cause_first_strict": 1.0,
        "cause_in_three": 1.0,
    }
    assert document["summary"]["false_incidents"] == 0
    assert document["summary"]["machine"] == document["campaign"]["machine"]
    assert document["campaign"]["plan"]["seed"] == 4
    assert "piece 2" in captured.err
    run = Tracking(fitted_store.tracking_uri).client.get_run(document["mlflow"]["run_id"])
    assert document["mlflow"]["experiment"] == "reveal/campaign/2cpu-0gpu-lab"
    assert run.data.metrics["all_injected"] == 5
    assert run.data.params["campaign.piece_faults"] == "2"
    text = Path("q.md").read_text()
    assert text.startswith("# Quality\n\n<!-- lab campaign -->\n5 real faults in 3 recordings")
    assert text.endswith("<!-- /lab campaign -->\n\nmore\n")
    assert "clock-step was not injected: not by name" in text
    assert main(["lab", "campaign", "--dir", "c", "--resume", "--runs", "5"]) == 0
    assert "faults injected" in capsys.readouterr().out


def test_a_stop_loses_the_piece_that_ran_and_nothing_else(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def stopped(piece, folder, **more) -> int:
        if piece.number == 2:
            (folder.path / "workload.log").write_text("half a piece")
            raise KeyboardInterrupt
        return campaign_samples.record(piece, folder, **more)

    with monkeypatch.context() as patch:
        patch.setattr("flows.campaign.record_piece", stopped)
        assert main([*BEGIN, "--runs", "6", "--piece-faults", "2", "--json"]) == 130
    assert capsys.readouterr().out == ""
    kept = {path: path.read_bytes() for path in campaign.glob(f"pieces/*/{PIECE}")}
    assert len(kept) == 2
    assert (campaign / "pieces/002/workload.log").exists()
    assert main(["lab", "campaign", "--dir", "c", "--resume", "--runs", "6", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["runs"]) == 6
    assert {path: path.read_bytes() for path in kept} == kept
    assert not (campaign / "pieces/002/workload.log").exists()
    assert main(["lab", "campaign", "--dir", "c", "--resume", "--runs", "7", "--json"]) == 0
    more = json.loads(capsys.readouterr().out)["runs"]
    assert (len(more), more[:6]) == (7, document["runs"])
    # as if it had never been stopped
    assert main([*BEGIN[:3], "whole", *BEGIN[4:], "--runs", "6", "--piece-faults", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == document["runs"]


def test_recorded_pieces_are_judged_again_with_another_method(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert main([*BEGIN, "--runs", "3", "--piece-faults", "2", "--json"]) == 0
    seen = []

    def judge(folder, method) -> None:
        seen.append((folder.number, method.profile))
        campaign_samples.judge(folder, method)

    def never(*_args, **_options) -> int:
        raise AssertionError("nothing is recorded")

    monkeypatch.setattr("flows.campaign_judging.judge_apart", judge)
    monkeypatch.setattr("flows.campaign.record_piece", never)
    capsys.readouterr()
    assert main(["lab", "campaign", "--dir", "c", "--judge-only", "--profile", "paper", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["campaign"]["method"]["profile"] == "paper"
    assert seen == [(0, "paper"), (1, "paper")]
    # going on with the usual method finds these judgements stale, and a second time not
    for expected in ([(0, "default"), (1, "default")], []):
        seen.clear()
        assert main(["lab", "campaign", "--dir", "c", "--resume", "--runs", "3"]) == 0
        assert seen == expected


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("--faults nonsense", 2, "--faults: there is no 'nonsense'"),
        ("--faults cpu-contention,cpu-contention", 2, "--faults needs different names"),
        ("--variants gaming", 2, "there is no 'gaming'; there are training, checkpoints, inference"),
        ("--control 5s", 2, "--control 5 s is too short"),
        ("--healthy 10s", 2, "--healthy 10 s is too short: at least 60 s"),
        ("--healthy never", 2, "'never' is not a duration"),
        ("--profile nonsense", 2, "nonsense"),
        ("--resume", 2, "holds no campaign"),
        ("--judge-only", 2, "holds no campaign"),
        ("--resume --seed 3 --faults x", 2, "leave out --faults and --seed"),
        ("--judge-only --runs 3", 2, "leave out --runs"),
    ],
)
def test_bad_input_is_one_line(line: str, code: int, said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["lab", "campaign", "--dir", "c", *line.split()]) == code
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert said in captured.err


def test_a_folder_with_a_campaign_is_not_begun_anew(campaign: Path, capsys: pytest.CaptureFixture) -> None:
    assert main([*BEGIN, "--runs", "1"]) == 0
    before = CampaignFolder(campaign).content()
    assert main([*BEGIN, "--runs", "1"]) == 2
    assert "--resume goes on with it" in capsys.readouterr().err
    assert CampaignFolder(campaign).content() == before
