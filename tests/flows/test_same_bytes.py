"""The same input gives the same bytes: scores, incidents and the report's body, after a restart too."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.pipelines import score_fleet
from tasks.runner import DirectRunner

PASSING = ("report", "report_id", "created")
"""What names the run and not the finding."""


def run_score(store: Path, tracking_uri: str) -> dict[str, Any]:
    """Score a store in a process of its own."""
    command = [sys.executable, "-m", "flows.cli", "score", "--store", str(store), "--json"]
    environment = {"MLFLOW_TRACKING_URI": tracking_uri, "PATH": "/usr/bin:/bin", "HOME": str(store)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def files(store: Path, folder: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in sorted((store / folder).rglob("*"))
        if path.is_file()
    }


def body(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in PASSING and "report" not in key}


def score_here(store: Path, tracking_uri: str) -> dict[str, Any]:
    """Score a store in this process."""
    document = score_fleet(
        DirectRunner(),
        store=str(store),
        tracking_uri=tracking_uri,
        host="*",
        start=None,
        end=None,
        model=None,
    )
    return json.loads(json.dumps({key: value for key, value in document.items() if key != "markdown"}))


@pytest.fixture(scope="module")
def twice(fitted_store, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, dict[str, Any]]]:
    """Return two copies of a store: one scored here, the other by a fresh process and then here again."""
    found = []
    for name, score in (("one", score_here), ("other", run_score)):
        copy = tmp_path_factory.mktemp(name) / "store"
        shutil.copytree(fitted_store.path / "telemetry", copy / "telemetry")
        found.append((copy, score(copy, fitted_store.tracking_uri)))
    again = score_here(found[1][0], fitted_store.tracking_uri)
    return [*found, (found[1][0], again)]


def test_scores_and_incidents_are_byte_equal(twice) -> None:
    one, other = twice[0][0], twice[1][0]
    for folder in ("scores", "incidents"):
        assert files(one, folder)
        assert files(one, folder) == files(other, folder)


def test_the_report_says_the_same(twice) -> None:
    first, second, again = (document for _, document in twice)
    assert first["incidents"]
    command = first["command"].replace(str(twice[0][0]), "STORE")
    assert command == second["command"].replace(str(twice[1][0]), "STORE")
    for other in (second, again):
        same = {**body(other), "command": "", "store": ""}
        assert same == {**body(first), "command": "", "store": ""}
