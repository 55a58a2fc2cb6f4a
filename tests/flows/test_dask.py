"""The same flow on Dask: chosen by one setting, with the same results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.server


def scored(store: Path, environment: dict[str, str]) -> dict:
    """Score a store as a flow in a process of its own; return what it says."""
    command = [sys.executable, "-m", "flows.cli", "score", "--flow", "--json", "--store", str(store)]
    command += ["--start", "2026-11-29T20:01:50"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=150, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_flow_on_dask_finds_what_it_finds_here(
    prefect_api: str, fitted_store, tmp_path: Path, make_store
) -> None:
    store = make_store(tmp_path / "store", hosts=["node-1", "node-2", "node-3"])
    environment = {
        "PREFECT_API_URL": prefect_api,
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "MLFLOW_TRACKING_URI": fitted_store.tracking_uri,
        "REVEAL_FLEET__HOSTS_PER_TASK": "1",
        "REVEAL_FLEET__WORKERS": "2",
    }
    here = scored(store, environment)
    there = scored(store, {**environment, "REVEAL_FLEET__RUNNER": "dask"})
    assert [i["id"] for i in there["incidents"]] == [i["id"] for i in here["incidents"]]
    assert len(there["hosts"]) == 3
    assert there["windows"] == here["windows"]
