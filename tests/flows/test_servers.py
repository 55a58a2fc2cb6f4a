"""The commands against real servers on loopback: they appear on Prefect's and on MLflow's pages."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prefect_asking import ask

from flows.cli import main
from flows.deploying import deploy

pytestmark = [pytest.mark.server, pytest.mark.slow]


@dataclass(frozen=True)
class Servers:
    prefect: str
    mlflow: str
    environment: dict[str, str]

    def ask(self, path: str, body: dict | None = None) -> Any:
        """Return what Prefect answers to a filter, or to something new."""
        return ask(self.prefect, path, body or {})

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """Run a command of the environment with both addresses set; return its standard output."""
        done = subprocess.run(
            [str(Path(sys.executable).with_name(command[0])), *command[1:]],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=cwd,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def wait_for(address: str, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + 120
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            time.sleep(0.3)
        else:
            return


@pytest.fixture(scope="module")
def servers(prefect_api: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    folder = tmp_path_factory.mktemp("servers")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))},
        "PREFECT_HOME": str(folder),
        "PREFECT_API_URL": prefect_api,
        "DO_NOT_TRACK": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    log = folder / "mlflow.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(str(Path(sys.executable).with_name("mlflow")), "server", "--workers", "1"),
                *("--host", "127.0.0.1", "--port", str(port)),
                *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db"),
                *("--artifacts-destination", str(folder / "artifacts")),
            ],
            stdout=output,
            stderr=output,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    try:
        mlflow = f"http://127.0.0.1:{port}"
        wait_for(f"{mlflow}/health", process, log)
        yield Servers(prefect_api, mlflow, {**environment, "MLFLOW_TRACKING_URI": mlflow})
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_fit_and_score_appear_on_both_servers(
    servers: Servers,
    tmp_path: Path,
    make_store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    store = str(make_store(tmp_path / "store"))
    monkeypatch.setenv("PREFECT_API_URL", servers.prefect)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", servers.mlflow)
    # Prefect has read its environment when it was imported.
    with temporary_settings(updates={PREFECT_API_URL: servers.prefect}):
        assert main(["fit", "--store", store, "--end", "2026-11-29T20:01:50", "--json"]) == 0
        model = json.loads(capsys.readouterr().out)
        assert main(["score", "--store", store, "--start", "2026-11-29T20:01:50", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
    assert model["alias"] == "champion"
    assert model["run_url"].startswith(servers.mlflow)
    assert found["model"] == f"{model['model']}/{model['version']}"
    assert len(found["incidents"]) == 1
    runs = {(run["state_name"], run["flow_id"]) for run in servers.ask("flow_runs/filter")}
    flows = {flow["id"]: flow["name"] for flow in servers.ask("flows/filter")}
    done = {flows[flow] for state, flow in runs if state == "Completed"}
    assert done >= {"fit-detectors", "score-fleet"}
    artifacts = {artifact["key"] for artifact in servers.ask("artifacts/filter")}
    assert artifacts >= {"reveal-report", "reveal-report-link", "reveal-incidents", "reveal-models"}
    import mlflow

    client = mlflow.MlflowClient(tracking_uri=servers.mlflow, registry_uri=servers.mlflow)
    version = client.get_model_version_by_alias(model["model"], "champion")
    assert version.run_id == model["run_id"]
    assert not (tmp_path / "store" / "mlflow.db").exists()


def test_all_deployments_can_be_deployed(servers: Servers, tmp_path: Path) -> None:
    told = deploy(servers.environment, folder=tmp_path, pool="reveal")
    flows = {flow["id"]: flow["name"] for flow in servers.ask("flows/filter")}
    deployments = {d["name"]: d for d in servers.ask("deployments/filter")}
    names = {f"{flows[d['flow_id']]}/{d['name']}" for d in servers.ask("deployments/filter")}
    assert {one["name"] for one in told} == names
    assert names == {
        "score-fleet/fleet",
        "fit-detectors/fleet",
        "fit-detectors/nightly",
        "watch-drift/fleet",
        "maintain-store/hourly",
        "compare-detectors/on-demand",
        "compare-detectors/weekly",
        "investigate-incident/on-demand",
        "collect-telemetry/this-host",
    }
    scheduled = [d for d in servers.ask("deployments/filter") if d["schedules"]]
    schedules = {flows[d["flow_id"]]: d["schedules"][0]["schedule"] for d in scheduled}
    every = {"score-fleet", "watch-drift", "fit-detectors", "maintain-store", "compare-detectors"}
    assert set(schedules) == every
    assert schedules["score-fleet"]["interval"] == 300.0
    assert schedules["watch-drift"]["interval"] == 3600.0
    assert (schedules["fit-detectors"]["cron"], schedules["fit-detectors"]["timezone"]) == (
        "17 2 * * *",
        "UTC",
    )
    assert deployments["this-host"]["work_pool_name"] == "reveal"
