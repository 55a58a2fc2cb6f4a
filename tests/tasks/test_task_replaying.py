"""Faults replayed over a store: judged by the method, and named for what they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.cli import main

KEYS = {"fault", "slowdown", "detected", "delay_s", "subsystem_rank", "cause_rank", "false_incidents"}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory, make_store) -> Path:
    return make_store(tmp_path_factory.mktemp("replay") / "store", seconds=600.0, bursts=())


def test_replayed_faults_are_found_and_named_so(
    healthy: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    before = sorted(path for path in healthy.rglob("*") if path.is_file())
    table = tmp_path / "q.md"
    line = ["lab", "replay", "--store", str(healthy), "--start", "2026-11-29T20:00Z", "--runs", "11"]
    assert main([*line, "--seed", "1", "--json", "--markdown", str(table)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["replayed"] is True
    assert document["runs"]
    assert all(run["replayed"] and set(run) >= KEYS for run in document["runs"])
    assert "targets" not in document["summary"]
    assert document["recording"]["host"] == "node-1"
    found = [run for run in document["runs"] if run["detected"]]
    assert len(found) >= 0.7 * len(document["runs"])
    assert sum(run["cause_rank"] == 1 for run in found) >= 0.5 * len(found)
    assert table.read_text().startswith("<!-- lab replay -->\nReplayed, not real:")
    assert sorted(path for path in healthy.rglob("*") if path.is_file()) == before


def test_too_little_telemetry_is_one_line(healthy: Path, capsys: pytest.CaptureFixture) -> None:
    line = ["lab", "replay", "--store", str(healthy), "--end", "2026-11-29T20:01Z"]
    assert main([*line, "--start", "2026-11-29T20:00Z"]) == 2
    assert "too short to replay" in capsys.readouterr().err
