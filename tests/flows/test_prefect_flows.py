"""The flows, run in this process against the Prefect server that the demo embeds."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from compare_parts import in_this_process

from flows.cli import main
from reveal_core.errors import UnavailableError, UsageError

AFTER_TRAINING = "2026-11-29T20:01:50"


@pytest.fixture
def prefect(prefect_api: str) -> Iterator[None]:
    from flows.environment import prepare_environment

    prepare_environment()
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(updates={PREFECT_API_URL: prefect_api}):
        yield


def read(kind: str) -> list:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_runs() if kind == "flows" else client.read_task_runs()


def read_artifacts() -> dict[str, str]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        found = client.request("POST", "/artifacts/latest/filter", json={}).json()
    return {artifact["key"]: artifact["data"] for artifact in found}


def test_fit_and_score_as_flows_give_what_they_give_directly(
    prefect: None, fitted_store, capsys: pytest.CaptureFixture
) -> None:
    store = str(fitted_store.path)
    assert main(["score", "--store", store, "--start", AFTER_TRAINING, "--json", "--no-flow"]) == 0
    direct = json.loads(capsys.readouterr().out)
    assert main(["score", "--store", store, "--start", AFTER_TRAINING, "--json", "--flow"]) == 0
    captured = capsys.readouterr()
    flow = json.loads(captured.out)
    assert captured.err == ""
    assert flow["incidents"] == direct["incidents"]
    assert "Completed" in {run.state_name for run in read("flows")}
    names = {run.name.rpartition("-")[0] for run in read("tasks")}
    assert {"plan-hosts", "classify-hosts", "choose-model", "score-hosts"} <= names
    artifacts = read_artifacts()
    assert "1 incident on node-1" in artifacts["reveal-report"]
    assert flow["report"] in artifacts["reveal-report-link"]
    assert flow["incidents"][0]["id"] in artifacts["reveal-incidents"]


def test_drift_as_a_flow_fits_a_challenger(
    prefect: None, fitted_store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    # Bounds that everything is beyond: what counts here is that the flow does what the command does.
    monkeypatch.setenv("REVEAL_METHOD__DRIFT", '{"score_share": 0, "minimum_windows": 60}')
    line = f"models drift --store {fitted_store.path} --end {AFTER_TRAINING} --json"
    assert main([*line.split(), "--no-flow"]) == 0
    direct = json.loads(capsys.readouterr().out)[0]
    assert main([*line.split(), "--flow", "--refit"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    flow = json.loads(captured.out)[0]
    assert flow["hosts"] == direct["hosts"]
    assert flow["drifted"]
    assert flow["challenger"]["alias"] == "challenger"
    artifacts = read_artifacts()
    assert flow["challenger"]["version"] in artifacts["reveal-drift"]
    hardware_class = flow["hardware_class"]
    assert {f"watch-{hardware_class}", f"refit-{hardware_class}"} <= {task.name for task in read("tasks")}


def test_an_expected_error_of_a_flow_is_one_line_and_the_run_has_failed(
    prefect: None, fitted_store, capsys: pytest.CaptureFixture
) -> None:
    assert main(["score", "--store", str(fitted_store.path), "--host", "nobody", "--flow"]) == 2
    captured = capsys.readouterr()
    assert captured.err == f"reveal: no host 'nobody' in store {fitted_store.path}: it holds node-1\n"
    assert [run.run_count for run in read("flows") if run.state_name == "Failed"] == [1]
    assert all(run.run_count == 1 for run in read("tasks") if run.state_name == "Failed")


def test_collecting_as_a_flow_collects_in_a_process_of_its_own(
    prefect: None, tmp_path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["collect", "--store", str(tmp_path), "--duration", "300ms", "--json", "--flow"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["ticks"] == 3
    assert (tmp_path / result["segments"][0]).is_file()


def test_settings_are_compared_as_a_flow(
    prefect: None, fitted_store, tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("tasks.comparing.run_job", in_this_process)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fitted_store.tracking_uri)
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'reference = "one"\nrepeats = 1\nperturbations = 1\n[[setting]]\nname = "one"\n'
        "overrides = { folds = 2, detectors = { forest = false } }\n"
    )
    command = ["compare", "--store", str(fitted_store.path), "--grid", str(grid), "--json", "--flow"]
    assert main(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["best"] == document["runs"][0]["run_id"]
    names = {run.name for run in read("tasks")}
    assert "compare-one" in names
    assert "**Best: one.**" in read_artifacts()["reveal-comparison"]


def test_maintenance_as_a_flow_does_what_it_does_directly(
    prefect: None, make_store, tmp_path, capsys: pytest.CaptureFixture
) -> None:
    path = make_store(tmp_path / "store", seconds=120.0, bursts=())
    command = ["maintain", "--store", str(path), "--json"]
    assert main([*command, "--dry-run", "--no-flow"]) == 0
    direct = json.loads(capsys.readouterr().out)
    assert main([*command, "--flow"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert json.loads(captured.out) == {**direct, "dry_run": False}
    names = {run.name.rpartition("-")[0] for run in read("tasks")}
    assert {"clean-store", "plan-maintenance"} <= names
    assert "telemetry merged" in read_artifacts()["reveal-maintenance"]


def test_only_what_may_heal_is_tried_again(prefect: None) -> None:
    from prefect import Task, flow

    from tasks.prefect_tasks import may_heal

    calls: list[str] = []

    def stage(error: str) -> str:
        calls.append(error)
        if error == "down" and calls.count("down") < 3:
            raise UnavailableError("the store is down")
        if error == "wrong":
            raise UsageError("no such host")
        return "done"

    task = Task(fn=stage, name="stage", retries=3, retry_delay_seconds=0, retry_condition_fn=may_heal)

    @flow
    def run(error: str) -> str:
        return task(error)

    assert run("down") == "done"
    with pytest.raises(UsageError):
        run("wrong")
    assert calls == ["down", "down", "down", "wrong"]


def test_every_stage_of_the_pipelines_has_its_task(prefect: None) -> None:
    from tasks.prefect_tasks import TASKS

    assert {task.name for task in TASKS.values()} == {
        "collect",
        "plan-hosts",
        "classify-hosts",
        "choose-model",
        "fit-hosts",
        "watch-hosts",
        "refit-hosts",
        "score-hosts",
        "find-peers",
        "compare-peers",
        "note-stragglers",
        "publish-report",
        "announce-incidents",
        "plan-arrivals",
        "note-silent",
        "commit-arrivals",
        "find-subject",
        "choose-baseline",
        "investigate-host",
        "plan-comparison",
        "begin-comparison",
        "prepare-host",
        "prepare-windows",
        "compare-setting",
        "finish-comparison",
        "clean-store",
        "plan-maintenance",
        "maintain-hosts",
    }
    assert all(task.fn is stage for stage, task in TASKS.items())
