"""``reveal export`` on the command line, and served by a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from exporting_samples import put_fleet
from incident_samples import at
from prometheus_client.parser import text_string_to_metric_families

from flows.cli import main
from reveal_core.incidents import iso
from storage.store import Store

FOREVER = "36500d"
"""The fleet of these tests was judged long ago, and must not be forgotten."""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REVEAL_FLEET__FORGET_AFTER", FOREVER)
    for name in list(os.environ):
        if name.startswith("OTEL_EXPORTER_OTLP_"):
            monkeypatch.delenv(name)
    put_fleet(Store("store"))
    return tmp_path


def test_metrics_on_standard_output(capsys: pytest.CaptureFixture) -> None:
    assert main(["export", "prometheus", "--store", "store"]) == 0
    text = capsys.readouterr().out
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.value for sample in families["reveal_hosts"].samples] == [4]
    assert [sample.value for sample in families["reveal_alarm_budget_per_host_day"].samples] == [1]
    assert len(families["reveal_incident_open"].samples) == 2
    assert main(["export", "prometheus", "--store", "store", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"hosts", "silent", "open", "series", "samples"}
    assert (document["hosts"], document["silent"], document["open"]) == (4, ["node-3"], 2)


def test_the_alarm_budget_is_that_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("REVEAL_METHOD__OVERRIDES", '{"alarm_budget": 0.25}')
    assert main(["export", "prometheus", "--store", "store"]) == 0
    assert "reveal_alarm_budget_per_host_day 0.25\n" in capsys.readouterr().out


def test_a_text_file(capsys: pytest.CaptureFixture) -> None:
    assert main(["export", "prometheus", "--store", "store", "--textfile", "reveal.prom"]) == 0
    assert "of 4 hosts in " in capsys.readouterr().out
    assert 'reveal_host_silent{host="node-3"} 1.0' in Path("reveal.prom").read_text()


def test_otlp_into_a_file(capsys: pytest.CaptureFixture) -> None:
    line = ["export", "otlp", "--store", "store", "--out", "out.jsonl"]
    line += ["--start", iso(at(0)), "--end", iso(at(900))]
    assert main([*line, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    keys = {"hosts", "logs", "points", "requests", "rejected", "said", "start", "end", "to"}
    assert set(document) == keys
    assert document["logs"] == 4
    assert len(Path("out.jsonl").read_text().splitlines()) == document["requests"]
    assert main([*line, "--host", "node-2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("0 log records and 10 data points of 1 hosts, from 2026-11-29T12:")


def test_what_went_out_as_otlp_comes_in_again(capsys: pytest.CaptureFixture) -> None:
    line = ["export", "otlp", "--store", "store", "--out", "out.jsonl"]
    assert main([*line, "--start", iso(at(0)), "--end", iso(at(900))]) == 0
    capsys.readouterr()
    assert main(["import", "otlp", "out.jsonl", "--store", "other", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["hosts"] == ["node-1", "node-2", "node-3"]
    assert {row["column"] for row in document["unmapped"]} == {"reveal.host.score", "reveal.host.coverage"}
    assert [row["reason"] for row in document["skipped"]] == ["requests of logs, traces or profiles"]


def test_a_process_serves_until_it_is_told_to_end() -> None:
    command = [sys.executable, "-m", "flows.cli", "export", "prometheus", "--store", "store", "--listen", "0"]
    process = subprocess.Popen(
        [*command, "--json"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        document = json.loads(process.stdout.readline())
        assert document["listen"].startswith("127.0.0.1:")
        with urllib.request.urlopen(f"http://{document['listen']}/metrics", timeout=30) as answer:
            assert b"reveal_store_up 1.0\n" in answer.read()
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, output, errors) == (0, "", "")
