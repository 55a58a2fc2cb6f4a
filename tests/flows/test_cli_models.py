"""The life of a model on the command line: gate, promotion, rollback, history, drift and its challenger."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from synthetic_telemetry import PERIOD_S, SYNTHETIC_START, synthetic_columns, synthetic_segment

from flows.cli import main
from reveal_core.incidents import Incident, SubsystemShare, iso
from storage.store import Store
from tasks.tracking import Tracking

HEALTHY_S, CHANGED_S = 480.0, 300.0
CLASS = "2cpu-0gpu-lifelong"
NAME = f"reveal-{CLASS}"
FACTS = {"cpu": {"model": "Lifelong CPU", "logical": 2}}
"""Of a hardware class of its own: the registry is shared with other tests."""
QUICK = {"detectors": [["zscore", "ZScoreDetector", []], ["excess", "ExcessDetector", []]], "folds": 2}


def at(seconds: float) -> str:
    return iso(SYNTHETIC_START + timedelta(seconds=seconds))


@dataclass(frozen=True)
class Life:
    """A store, and what the fits in it said: the first one, one that is better, one that finds nothing."""

    store: Path
    tracking: Tracking
    first: dict
    better: dict
    deaf: dict


def call(line: str, capsys: pytest.CaptureFixture) -> dict:
    code = main([*line.split(), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def fill(path: Path) -> None:
    """Put eight healthy minutes into a store, then five in which the host does other work."""
    store = Store(str(path))
    healthy = synthetic_columns(HEALTHY_S, [], 0)
    changed = synthetic_columns(CHANGED_S, [], 1)
    for key in (
        ("stat.ctxt", ""),
        ("disk.writes", "vda"),
        ("softirq.NET_RX", "cpu0"),
        ("softirq.NET_RX", "cpu1"),
    ):
        changed[key] = changed[key] * 3
    sequence = 0
    for begin_s, columns in ((0.0, healthy), (HEALTHY_S, changed)):
        rows = len(columns["stat.ctxt", ""])
        for begin in range(0, rows, 600):
            part = {name: values[begin : begin + 600] for name, values in columns.items()}
            start = SYNTHETIC_START + timedelta(seconds=begin_s + begin * PERIOD_S)
            store.put_segment(synthetic_segment("node-1", start, part, sequence, FACTS))
            sequence += 1


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, fitted_store) -> Life:
    from flows.pipelines import fit_detectors
    from tasks.runner import DirectRunner

    path = tmp_path_factory.mktemp("life") / "store"
    fill(path)

    def fit(end: float, *, promote: bool, **overrides) -> dict:
        models = fit_detectors(
            DirectRunner(),
            store=str(path),
            tracking_uri=fitted_store.tracking_uri,
            host="*",
            start=at(0),
            end=at(end),
            profile="default",
            overrides={**QUICK, **overrides},
            seed=0,
            promote=promote,
            gate={"injections": 8},
        )
        return models[0]

    first = fit(200, promote=False)
    better = fit(HEALTHY_S, promote=True)
    deaf = fit(HEALTHY_S, promote=True, margin=1000.0)
    return Life(path, Tracking(fitted_store.tracking_uri), first, better, deaf)


@pytest.fixture(autouse=True)
def _tracked(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", life.tracking.uri)


def test_the_first_version_needs_no_gate_and_a_better_one_gets_through_it(life: Life) -> None:
    assert (life.first["alias"], life.first["gate"]) == ("champion", None)
    gate = life.better["gate"]
    assert (life.better["alias"], gate["decision"]) == ("champion", "promoted"), gate
    assert gate["against"] == f"{NAME}@1"
    # The newest fifth is less than two minutes, so two minutes are held back.
    assert gate["ranges"] == [{"host": "node-1", "start": at(360), "end": at(480)}]
    assert life.better["windows"] == 358
    assert {criterion["name"] for criterion in gate["criteria"]} == {
        "windows",
        "alarm_rate",
        "injected_recall",
        "injected_subsystem",
        "rank_correlation",
        "feature_coverage",
        "window_coverage",
    }
    assert gate["notes"] == []


def test_a_version_that_finds_nothing_is_refused_and_stays_a_challenger(life: Life) -> None:
    gate = life.deaf["gate"]
    assert (life.deaf["alias"], gate["decision"]) == ("challenger", "refused")
    assert [c["name"] for c in gate["criteria"] if not c["passed"]] == ["injected_recall"]
    assert gate["reason"].startswith("of 8 injected faults 0% found (at least ")


def test_the_gate_shows_in_the_run_and_at_the_version(life: Life) -> None:
    client = life.tracking.client
    for model, passed, tag in (
        (life.better, 1.0, "promoted"),
        (life.deaf, 0.0, "refused: injected_recall"),
    ):
        run = client.get_run(model["run_id"])
        assert run.data.metrics["gate_passed"] == passed
        for criterion in model["gate"]["criteria"]:
            assert run.data.metrics[f"gate_{criterion['name']}"] == pytest.approx(criterion["value"])
            assert run.data.metrics[f"gate_{criterion['name']}_bound"] == pytest.approx(criterion["bound"])
        assert "gate.json" in {item.path for item in client.list_artifacts(model["run_id"])}
        version = client.get_model_version(NAME, model["version"])
        assert version.tags["reveal.gate"] == tag
        assert version.tags["reveal.gate.alarm_rate"].startswith("met: 0 incidents in ")


def test_models_are_listed_and_shown(life: Life, capsys: pytest.CaptureFixture) -> None:
    rows = call(f"models list --store {life.store} --model {NAME}", capsys)
    by_version = {row["version"]: row for row in rows}
    assert list(by_version)[-3:] == ["3", "2", "1"]
    assert by_version["2"]["trained_from"] == at(0)
    assert by_version["2"]["profile"] == "default"
    assert by_version["2"]["features"] == life.better["features"]
    assert by_version["2"]["hardware_class"] == CLASS
    assert by_version["3"]["decision"].startswith("challenger: refused: of 8 injected faults 0% found")
    shown = call(f"models show {NAME}/2 --store {life.store}", capsys)
    assert shown["gate"] == life.better["gate"]
    assert shown["hosts"] == "node-1"
    assert shown["params"]["folds"] == "2"
    assert shown["metrics"]["features"] == life.better["features"]
    assert main(["models", "show", f"{NAME}/2", "--store", str(life.store)]) == 0
    text = capsys.readouterr().out
    assert f"{NAME} version 2" in text
    assert f"Gate against {NAME}@1: promoted" in text
    assert main(["models", "list", "--store", str(life.store)]) == 0
    assert NAME in capsys.readouterr().out


def test_rolling_back_and_promoting_by_hand_are_kept_in_the_history(
    life: Life, capsys: pytest.CaptureFixture
) -> None:
    place = f"--store {life.store}"
    back = call(f"models rollback {place} --class {CLASS} --why alarms", capsys)
    assert (back["model"], back["version"], back["before"]) == (NAME, "1", "2")
    assert life.tracking.resolve(NAME).version == "1"
    forth = call(f"models promote {NAME}/2 {place} --why checked", capsys)
    assert (forth["version"], forth["before"], forth["alias"]) == ("2", "1", "champion")
    assert main(f"models promote {NAME}/2 {place} --why again".split()) == 2
    assert "is the champion already" in capsys.readouterr().err
    assert main(["models", "rollback", "--store", str(life.store), "--why", " "]) == 2
    assert "a reason is needed" in capsys.readouterr().err
    found = call(f"models history {place} --model {NAME}", capsys)
    last = found["events"][-2:]
    assert [(event["action"], event["why"]) for event in last] == [
        ("rollback", "alarms"),
        ("promote", "by hand: checked"),
    ]
    promoted = next(event for event in found["events"] if event["action"] == "promote")
    assert promoted["gate"]["decision"] == "promoted"
    assert promoted["changes"] == {
        "previous": [None, "1"],
        "champion": ["1", "2"],
        "challenger": ["2", None],
    }
    assert found["notes"] == []
    assert main(["models", "history", "--store", str(life.store)]) == 0
    assert "by hand: checked" in capsys.readouterr().out


def test_force_promotes_against_the_gate_and_a_range_of_its_own_is_judged(
    life: Life, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "reveal.toml").write_text(
        "[method.overrides]\nmargin = 1000.0\nfolds = 2\n"
        'detectors = [["zscore", "ZScoreDetector", []]]\n[method.gate]\ninjections = 4\n'
    )
    monkeypatch.chdir(tmp_path)
    line = f"fit --store {life.store} --start {at(0)} --end {at(200)} --gate-start {at(150)}"
    assert main([*line.split(), "--gate-end", at(300), "--promote"]) == 2
    assert "overlaps the range that is fitted" in capsys.readouterr().err
    before = life.tracking.resolve(NAME).version
    line = line.replace(at(150), at(300))
    code = main([*line.split(), "--gate-end", at(420), "--force", "a new kernel", "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    model = json.loads(captured.out)
    assert (model["alias"], model["gate"]["decision"]) == ("champion", "forced")
    assert model["gate"]["ranges"] == [{"host": "node-1", "start": at(300), "end": at(420)}]
    assert model["gate"]["reason"].startswith("a new kernel (against the gate: of 4 injected faults 0% found")
    assert any("overlaps what both are judged on" in note for note in model["gate"]["notes"])
    assert model["windows"] == 198
    call(f"models promote {NAME}/{before} --store {life.store} --why back", capsys)


def test_the_same_work_is_no_drift_and_other_work_is(life: Life, capsys: pytest.CaptureFixture) -> None:
    line = f"models drift --store {life.store} --model {NAME}/1"
    calm = call(f"{line} --start {at(200)} --end {at(480)} --refit", capsys)[0]
    assert (calm["drifted"], calm["challenger"]) == (False, None)
    assert calm["why"].startswith("no lasting change")
    moved = call(f"{line} --start {at(485)} --end {at(780)}", capsys)[0]
    assert moved["drifted"]
    assert moved["challenger"] is None
    names = {f["name"].partition(":")[0] for f in moved["hosts"][0]["features"] if f["drifted"]}
    assert {"stat.ctxt", "disk.writes", "softirq.NET_RX"} <= names
    client = life.tracking.client
    run = client.get_run(moved["run_id"])
    assert client.get_experiment(run.info.experiment_id).name == f"reveal/drift/{CLASS}"
    curve = client.get_metric_history(moved["run_id"], "drift_feature_share_max")
    assert [point.step for point in curve] == sorted(point.step for point in curve)
    assert curve[-1].value == pytest.approx(moved["hosts"][0]["feature_share"])
    assert run.data.metrics["drift_detected"] == 1.0
    line = f"{line} --start {at(485)} --end {at(500)}"
    assert main(line.split()) == 2
    assert "too few to tell drift" in capsys.readouterr().err


def test_drift_fits_a_challenger_once_and_promotes_nothing(life: Life, capsys: pytest.CaptureFixture) -> None:
    store = Store(str(life.store))
    start = SYNTHETIC_START + timedelta(seconds=600)
    store.put_incident(
        Incident(
            id="i1",
            fingerprint="f",
            host="node-1",
            start=start,
            end=start + timedelta(seconds=20),
            severity=1,
            probability=1e-6,
            score=2.0,
            subsystem="cpu",
            subsystems=(SubsystemShare("cpu", 1.0),),
            metrics=(),
        )
    )
    before = life.tracking.resolve(NAME).version
    line = f"models drift --store {life.store} --start {at(485)} --end {at(780)}"
    found = call(f"{line} --refit", capsys)[0]
    challenger = found["challenger"]
    assert (challenger["alias"], challenger["refused"], challenger["gate"]) == ("challenger", "", None)
    assert challenger["windows"] == 292 - 22  # without those that touch the incident
    assert life.tracking.resolve(NAME).version == before
    tags = life.tracking.client.get_model_version(NAME, challenger["version"]).tags
    assert tags["reveal.trigger"].startswith("drift: ")
    assert life.tracking.resolve(f"{NAME}@challenger").version == challenger["version"]
    again = call(f"{line} --refit", capsys)[0]
    assert again["drifted"]
    assert again["answered"] == f"{NAME}@{challenger['version']}"
    assert again["challenger"] is None
    assert main(line.split()) == 0
    text = capsys.readouterr().out
    assert f"{NAME} version {before}: drifted" in text
    assert "was fitted because of drift and knows this telemetry" in text
