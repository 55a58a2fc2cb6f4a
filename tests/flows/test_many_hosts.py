"""A report on many hosts: of quiet ones only some are read; sparse samples are enough to plan by."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from synthetic_telemetry import SYNTHETIC_START

from flows.cli import main
from storage.store import Store
from tasks import report_inputs
from tasks.planning import newest_facts


def test_quiet_hosts_beyond_a_few_are_told_by_their_scores(
    fitted_store, make_store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    hosts = [f"rack-1-n{number}" for number in range(4)]
    path = make_store(tmp_path / "store", hosts=hosts, seconds=60.0, bursts=())
    monkeypatch.setattr(report_inputs, "FEW_HOSTS", 1)
    monkeypatch.setenv("REVEAL_MLFLOW__URI", fitted_store.tracking_uri)
    model = f"{fitted_store.model['model']}/1"
    assert main(["score", "--store", str(path), "--model", model, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hosts"] == hosts
    details = {detail["host"]: detail for detail in document["host_details"]}
    assert [bool(details[host]["channels"]) for host in hosts] == [True, False, False, False]
    assert all(details[host]["windows"] > 50 and details[host]["coverage"] == 1.0 for host in hosts)
    assert all(details[host]["facts"]["cpu"] for host in hosts)
    assert "rack-1-n3" in Path(document["report"]).read_text()


def test_facts_are_found_where_the_last_seconds_hold_no_sample(make_store, tmp_path: Path) -> None:
    source = Store(str(make_store(tmp_path / "store", seconds=20.0, bursts=())))
    late = SYNTHETIC_START + timedelta(seconds=50)
    assert newest_facts(source, "node-1", SYNTHETIC_START, late)["cpu"]
