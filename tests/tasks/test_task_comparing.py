"""A comparison on a small store: its runs in MLflow, what is shared, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compare_parts import in_this_process

from flows.cli import main
from flows.environment import prepare_environment
from flows.pipelines import compare_detectors
from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.profiles import load_profile
from tasks.compare_files import combination
from tasks.compare_job import answer, run_job
from tasks.compare_plan import plan_comparison
from tasks.compare_report import best_setting, note
from tasks.runner import DirectRunner
from tasks.tracking import Tracking

BURST = (250.0, 258.0)
FAULTS = [
    {
        "name": "cpu-quota",
        "subsystem": "cpu",
        "start": "2026-11-29T20:04:10Z",
        "end": "2026-11-29T20:04:18Z",
        "causes": [],
        "host": "",
    }
]
GRID = {
    "repeats": 2,
    "perturbations": 3,
    "setting": [
        {"name": "default"},
        {"name": "quick", "overrides": {"detectors": {"forest": False}, "folds": 2}},
        {"name": "hopeless", "overrides": {"window_s": 140.0}},
    ],
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, make_store) -> Path:
    return make_store(tmp_path_factory.mktemp("compared") / "store", seconds=300.0, bursts=(BURST,))


def compare(store: Path, tracking_uri: str) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "tracking_uri": tracking_uri,
        "host": "*",
        "start": None,
        "end": None,
        "fit_start": None,
        "fit_end": None,
        "grid": GRID,
        "faults": FAULTS,
        "seed": 0,
    }
    return compare_detectors(DirectRunner(), store=str(store), **arguments)


@pytest.fixture(scope="module")
def document(store: Path, fitted_store) -> dict[str, Any]:
    prepare_environment()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.comparing.run_job", in_this_process)
        return compare(store, fitted_store.tracking_uri)


def test_each_setting_is_a_run_under_the_comparison_with_its_parameters(fitted_store, document) -> None:
    client = Tracking(fitted_store.tracking_uri).client
    assert document["experiment"] == "reveal/compare/2cpu-0gpu-synthetic"
    parent = client.get_run(document["run_id"])
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["reveal.best"] == document["best_setting"]
    children = client.search_runs(
        [parent.info.experiment_id], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    )
    by_name = {run.info.run_name: run for run in children}
    assert set(by_name) == {"default", "quick", "hopeless"}
    assert by_name["hopeless"].info.status == "FAILED"
    assert by_name["quick"].data.params["folds"] == "2"
    assert "forest" in by_name["default"].data.params["detector_names"]
    assert "forest" not in by_name["quick"].data.params["detector_names"]
    for run in document["runs"]:
        assert by_name[run["name"]].data.metrics == pytest.approx(run["metrics"])
    files = {item.path for item in client.list_artifacts(document["run_id"])}
    assert {"settings.json", "comparison.png", "grid.json"} <= files
    assert f"**Best: {document['best_setting']}.**" in parent.data.tags["mlflow.note.content"]
    assert "hopeless could not be judged" in parent.data.tags["mlflow.note.content"]


def test_metrics_have_stable_names(document) -> None:
    assert set(document) >= {"experiment", "runs", "best"}
    assert document["best"] in {run["run_id"] for run in document["runs"]}
    assert [failed["name"] for failed in document["failed"]] == ["hopeless"]
    (default, quick) = document["runs"]
    wanted = {
        "agreement_iou",
        "agreement_hit_rate",
        "agreement_incident_hit_rate",
        "stability_iou",
        "injected",
        "injected_recall",
        "alarms",
        "alarms_per_day",
        "alarm_budget_per_day",
        "within_budget",
        "healthy_hours",
        "feature_seconds",
        "fit_seconds",
        "score_seconds",
        "total_seconds",
        "peak_memory_mib",
        "features",
        "threshold",
        "fault_recall",
    }
    assert wanted <= set(quick["metrics"])
    assert default["metrics"]["agreement_iou"] == default["metrics"]["agreement_hit_rate"] == 1.0
    assert quick["metrics"]["stability_iou"] == 1.0  # without the forest nothing is drawn at random


def test_a_known_fault_is_found_and_no_false_incident(document) -> None:
    metrics = document["runs"][0]["metrics"]
    assert metrics["fault_recall"] == 1.0
    assert metrics["alarms"] == 0.0
    assert metrics["within_budget"] == 1.0
    # The judged half, without the fault's ten seconds and the second before it.
    assert metrics["healthy_hours"] == pytest.approx((150 - 11) / 3600, rel=0.03)


def plan(store: Path, **options: Any) -> dict[str, Any]:
    arguments = {"host": "*", "start": None, "end": None, "fit_start": None, "fit_end": None, "faults": []}
    return plan_comparison(str(store), **{**arguments, **options})


def test_half_is_learned_from_or_what_comes_before_the_first_fault(store: Path) -> None:
    (host,) = plan(store)["hosts"]
    assert host["learned_start"] == "2026-11-29T20:00:00.000Z"
    assert host["learned_end"] == host["judged_start"] == "2026-11-29T20:02:29.950Z"
    early = [{**FAULTS[0], "start": "2026-11-29T20:01:30Z", "end": "2026-11-29T20:01:38Z"}]
    (host,) = plan(store, faults=early)["hosts"]
    assert host["learned_end"] == "2026-11-29T20:01:25.000Z"
    (host,) = plan(store, faults=early, fit_end="2026-11-29T20:02:00")["hosts"]
    assert host["learned_end"] == "2026-11-29T20:02:00.000Z"
    with pytest.raises(UsageError, match="nothing is left to judge"):
        plan(store, fit_end="2026-11-29T21:00:00")


def test_hosts_of_several_hardware_classes_are_not_compared_together(tmp_path: Path, make_store) -> None:
    make_store(tmp_path, hosts=("node-1",), seconds=20.0)
    cpu = {"model": "Other CPU", "logical": 64, "cores": 64, "sockets": 1}
    make_store(tmp_path, hosts=("node-2",), seconds=20.0, facts={"cpu": cpu})
    with pytest.raises(UsageError, match="one hardware class"):
        plan(tmp_path)


def test_some_hosts_of_the_largest_class_can_be_asked_for(tmp_path: Path, make_store) -> None:
    make_store(tmp_path, hosts=("node-1", "node-3", "node-4"), seconds=20.0)
    cpu = {"model": "Other CPU", "logical": 64, "cores": 64, "sockets": 1}
    make_store(tmp_path, hosts=("node-2",), seconds=20.0, facts={"cpu": cpu})
    everyone = [one["host"] for one in plan(tmp_path, most_hosts=5)["hosts"]]
    assert everyone == ["node-1", "node-3", "node-4"]
    some = [one["host"] for one in plan(tmp_path, most_hosts=2, seed=1)["hosts"]]
    assert len(some) == 2
    assert set(some) < set(everyone)
    with pytest.raises(UsageError, match="at least one"):
        plan(tmp_path, most_hosts=0)


def test_a_comparison_that_fails_is_marked_so(
    store: Path, fitted_store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(kind: str, **arguments: Any) -> dict[str, Any]:
        if kind == "setting":
            raise UnavailableError("the store is down")
        return in_this_process(kind, **arguments)

    monkeypatch.setattr("tasks.comparing.run_job", down)
    with pytest.raises(UnavailableError, match="the store is down"):
        compare(store, fitted_store.tracking_uri)
    tracking = Tracking(fitted_store.tracking_uri)
    experiment = tracking.experiment("reveal/compare/2cpu-0gpu-synthetic")
    parent = tracking.client.search_runs([experiment], "tags.`reveal.hardware_class` LIKE '%'")[0]
    children = tracking.client.search_runs(
        [experiment], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    )
    assert parent.info.status == "FAILED"
    # Every setting is tried, for another may be judged although one is not.
    assert [run.info.status for run in children] == ["FAILED"] * 3


def test_a_job_in_a_process_of_its_own_tells_its_memory(tmp_path: Path) -> None:
    done = run_job("windows", folder=str(tmp_path), hosts=[], profile=load_profile("default").to_dict())
    assert done["combination"] == combination(load_profile("default"))
    assert 20.0 < done["peak_memory_mib"] < 2000.0


def test_what_a_job_says_of_bad_input_comes_through_and_an_early_end_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = {**load_profile("default").to_dict(), "space": "nowhere"}
    told = answer({"kind": "windows", "folder": str(tmp_path), "hosts": [], "profile": bad})
    assert told["error"] == "usage"
    assert told["message"].startswith("profile setting space")
    monkeypatch.setattr(
        "tasks.compare_job.tethered", lambda _command: ["sh", "-c", "echo killed >&2; exit 9"]
    )
    with pytest.raises(RevealError, match="ended early: killed"):
        run_job("windows", folder=str(tmp_path), hosts=[], profile=bad)
    monkeypatch.setattr("tasks.compare_job.tethered", lambda _: ["echo", json.dumps(told)])
    with pytest.raises(UsageError, match="profile setting space"):
        run_job("windows", folder=str(tmp_path), hosts=[], profile=bad)


def setting(name: str, **metrics: float) -> dict[str, Any]:
    common = {
        "within_budget": 1.0,
        "alarms": 0.0,
        "healthy_hours": 2.0,
        "alarm_budget_per_day": 1.0,
        "total_seconds": 5.0,
    }
    return {"name": name, "run_id": name, "metrics": {**common, **metrics}}


def test_the_best_keeps_its_budget_then_finds_most_then_costs_least() -> None:
    loud = setting("loud", within_budget=0.0, alarms=9.0, injected_recall=1.0)
    one = setting("one", injected_recall=0.5, injected_subsystem_top1=0.8)
    two = setting("two", injected_recall=0.5, injected_subsystem_top1=0.9, total_seconds=9.0)
    cheap = setting("cheap", injected_recall=0.5, injected_subsystem_top1=0.9, total_seconds=1.0)
    best, why = best_setting([loud, one, two, cheap])
    assert best["name"] == "cheap"
    assert "injected recall 0.50" in why
    assert "1 of 4 settings exceed theirs" in why
    real = setting("real", fault_recall=0.7, injected_recall=0.1)
    assert best_setting([cheap, real])[0]["name"] == "real"
    best, why = best_setting([loud, setting("louder", within_budget=0.0, alarms=12.0, injected_recall=1.0)])
    assert best["name"] == "loud"
    assert "No setting keeps its alarm budget" in why


def test_the_note_marks_the_best_and_leaves_out_what_nobody_has(document) -> None:
    text = note(document)
    assert f"| **{document['best_setting']}** |" in text
    assert "| faults |" in text
    plain = {**document, "runs": [setting("a"), setting("b")], "best": "a", "best_setting": "a"}
    assert "faults |" not in note(plain)


def test_people_see_a_table(
    store: Path, fitted_store, monkeypatch: pytest.MonkeyPatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fitted_store.tracking_uri)
    monkeypatch.setattr("tasks.comparing.run_job", in_this_process)
    grid, faults = tmp_path / "grid.toml", tmp_path / "faults.json"
    grid.write_text(
        'reference = "quick"\nrepeats = 1\nperturbations = 1\n[[setting]]\nname = "quick"\n'
        "overrides = { folds = 2, detectors = { forest = false } }\n"
    )
    faults.write_text(json.dumps(FAULTS))
    command = ["compare", "--store", str(store), "--grid", str(grid), "--faults", str(faults)]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "quick" in shown
    assert "Best: quick: recall of real faults 1.00" in shown
    assert "reveal/compare/2cpu-0gpu-synthetic" in shown
