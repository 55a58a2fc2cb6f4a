"""A whole site on loopback, whose parts are killed one after another: each window counts, and once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest
from prefect_asking import ask

from flows.cli import main
from reveal_core.errors import UnavailableError, UsageError
from storage.layout import unquote_name
from storage.store import Store

T = TypeVar("T")


@dataclass
class Running:
    """A site in a process of its own."""

    process: subprocess.Popen
    log: Path
    told: dict[str, Any]

    def ask(self, path: str, body: dict | None = None) -> Any:
        """Return what the site's Prefect answers."""
        return ask(f"{self.told['prefect']}/api", path, body)

    def until(self, look: Callable[[], T | None], what: str, patience_s: float = 120.0) -> T:
        """Return what is found as soon as something is; servers may be away meanwhile."""
        end = time.monotonic() + patience_s
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                found = look()
            except OSError:
                found = None
            if found:
                return found
            assert time.monotonic() < end, f"{what} did not come: {self.log.read_text()}"
            time.sleep(0.5)

    def part(self, *words: str) -> psutil.Process | None:
        """Return the process of the site whose command line holds all words."""
        for child in psutil.Process(self.process.pid).children():
            try:
                line = child.cmdline()
            except psutil.Error:
                continue
            if all(word in line for word in words) and "tasks.tethered" not in line:
                return child
        return None

    def kill(self, *words: str) -> None:
        """Kill a part outright and wait until another one is there in its place."""
        old = self.until(lambda: self.part(*words), words[0])
        old.kill()
        self.until(lambda: (new := self.part(*words)) and new.pid != old.pid, f"another {words[0]}")

    def begin_run(self) -> str:
        """Ask for a run of the schedule's deployment and return its id."""
        deployment = self.ask("deployments/name/score-fleet/fleet")["id"]
        return self.ask(f"deployments/{deployment}/create_flow_run", {})["id"]

    def state(self, run: str) -> str:
        return self.ask(f"flow_runs/{run}")["state"]["type"]

    def completed(self) -> list[str]:
        chosen = {
            "flows": {"name": {"any_": ["score-fleet"]}},
            "flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}},
        }
        return [run["id"] for run in self.ask("flow_runs/filter", chosen)]

    def store(self) -> Store:
        options = {"endpoint_url": self.told["objects"], "key": "reveal", "secret": "reveal"}
        return Store(self.told["store"], {**options, "skip_instance_cache": True})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Running]:
    log = tmp_path / "said.txt"
    command = [sys.executable, "-m", "flows.cli", "site", "--dir", str(tmp_path / "site"), "--learn", "90s"]
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output, cwd=tmp_path)
    running = Running(process, log, {})
    told = tmp_path / "site" / "site.json"
    try:
        running.told = running.until(lambda: json.loads(told.read_text()) if told.exists() else None, "it")
        yield running
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def assert_each_window_once(site: Running) -> None:
    """The windows of each host follow each other, and each has been judged."""
    store = site.store()
    hosts = store.hosts()
    assert len(hosts) == 2
    for host in hosts:
        begin, end = store.extent(host)
        (label,) = {
            unquote_name(name.removeprefix("model="))
            for name in store.backend.names("scores")
            if name.startswith("model=")
        }
        frame = store.read_scores(label, host, begin - timedelta(hours=1), end + timedelta(hours=1)).frame
        assert frame.height > 90
        assert set(frame["start"].diff().drop_nulls()) == {timedelta(seconds=1)}
        assert frame["start"][0] <= begin + timedelta(seconds=1)
        assert len(store.ledger(host).judged) == 1


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_site_whose_parts_are_killed_goes_on(site: Running) -> None:
    site.until(site.completed, "the first report", 400)
    run = site.begin_run()
    site.until(lambda: site.state(run) == "RUNNING", "a run")
    site.kill("prefect", "worker")
    site.kill("prefect", "server")
    site.kill("mlflow", "server")
    site.until(lambda: site.ask("health") is True, "Prefect")

    def another() -> str | None:
        """A run that was killed holds the place of its schedule until its lease is over."""
        new = site.begin_run()
        site.until(lambda: site.state(new) in ("COMPLETED", "CANCELLED", "FAILED", "CRASHED"), "its end", 200)
        return new if site.state(new) == "COMPLETED" else None

    site.until(another, "a run after the kills", 600)
    assert_each_window_once(site)
    backend = site.store().backend
    reports = [name for name in backend.names("reports") if name.startswith("2")]
    with urllib.request.urlopen(site.told["reports"], timeout=20) as page:
        assert page.headers.get_content_type() == "text/html"
        index = page.read().decode()
    assert len(reports) > 1
    for report in reports:
        whole = set(backend.names(f"reports/{report}")) == {"index.html", "report.json"}
        assert whole or report not in index
    said = site.log.read_text()
    for name in ("worker", "prefect", "mlflow"):
        assert f"the {name} ended with code -9" in said
    family = psutil.Process(site.process.pid).children(recursive=True)
    site.process.send_signal(signal.SIGINT)
    assert site.process.wait(90) == 0, site.log.read_text()
    _, alive = psutil.wait_procs(family, timeout=20)
    assert not alive


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--learn", "30s"], UsageError.exit_code, "--learn 30 s is too short: at least 90 s"),
        (["--learn", "soon"], UsageError.exit_code, "'soon' is not a duration"),
        (["--dir", "/proc/nothing"], UnavailableError.exit_code, "/proc/nothing cannot be made"),
    ],
)
def test_a_site_that_cannot_be_is_refused(
    arguments: list[str],
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["site", *arguments]) == code
    assert said in capsys.readouterr().err


def test_a_site_ends_when_it_is_told_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flows.cli", "site", "--dir", str(tmp_path / "site"), "--json"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--no-objects", "--duration", "3s"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert {"prefect", "mlflow", "store", "reports", "folder", "agents"} == set(told)
    assert told["agents"] == 2
    assert told["store"] == str(tmp_path / "site" / "store")
    assert not [p for p in psutil.process_iter() if str(tmp_path) in " ".join(_line(p))]


def _line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
