"""From telemetry to a report on the command line, on synthetic telemetry with one known incident."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from flows.cli import main
from storage.store import Store

# The synthetic host's burst is from 20:02:00 to 20:02:08.
AFTER_TRAINING = "2026-11-29T20:01:50"


def run(line: str, capsys: pytest.CaptureFixture) -> dict:
    code = main([*line.split(), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_score_reports_the_incident(fitted_store, capsys: pytest.CaptureFixture) -> None:
    found = run(f"score --store {fitted_store.path} --start {AFTER_TRAINING}", capsys)
    assert set(found) >= {"report", "model", "windows", "hosts", "incidents", "quarantined"}
    assert found["model"] == f"{fitted_store.model['model']}/1"
    assert found["hosts"] == ["node-1"]
    assert [incident["subsystem"] for incident in found["incidents"]] == ["cpu"]
    incident = found["incidents"][0]
    assert "2026-11-29T20:01:57" <= incident["start"] <= "2026-11-29T20:02:04"
    assert set(incident) >= {
        "id",
        "host",
        "start",
        "end",
        "severity",
        "probability",
        "subsystem",
        "subsystems",
    }
    page = Path(found["report"])
    assert page.is_file()
    stored = json.loads(page.with_name("report.json").read_text())
    assert [i["id"] for i in stored["incidents"]] == [incident["id"]]


def test_the_same_telemetry_scored_twice_gives_the_same_incidents(
    fitted_store, capsys: pytest.CaptureFixture
) -> None:
    line = (
        f"score --store {fitted_store.path} --start {AFTER_TRAINING} --model {fitted_store.model['model']}/1"
    )
    one, other = run(line, capsys), run(line, capsys)
    assert one["incidents"] == other["incidents"]
    assert "--model reveal-2cpu-0gpu-synthetic/1" in one["command"]


def test_people_get_the_report_as_text(fitted_store, capsys: pytest.CaptureFixture) -> None:
    assert main(["score", "--store", str(fitted_store.path), "--start", AFTER_TRAINING]) == 0
    captured = capsys.readouterr()
    assert "1 incident on node-1" in captured.out
    assert "Report: " in captured.out
    assert captured.err == ""


def test_features_of_every_window(fitted_store, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    out = tmp_path / "windows.parquet"
    found = run(f"features --store {fitted_store.path} --out {out}", capsys)
    table = pl.read_parquet(out)
    assert (table.height, table.width) == (found["windows"], found["features"] + 4)
    assert set(table["host"]) == {"node-1"}
    assert found["pruned"] > 0
    assert not list(tmp_path.glob(".*"))
    line = f"features --store {fitted_store.path} --out {tmp_path}/nowhere/x.parquet"
    assert main(line.split()) == 3
    assert capsys.readouterr().err.startswith(f"reveal: {tmp_path}/nowhere/x.parquet cannot be written")


def test_investigate_against_a_baseline_and_against_itself(
    fitted_store, capsys: pytest.CaptureFixture
) -> None:
    line = f"investigate --store {fitted_store.path} --host node-1 --end 2026-11-29T20:02:30 "
    line += "--start 2026-11-29T20:01:55"
    found = run(f"{line} --baseline-start 2026-11-29T20:00 --baseline-end 2026-11-29T20:01:50", capsys)
    assert [incident["subsystem"] for incident in found["incidents"]] == ["cpu"]
    assert any("2026-11-29T20:00:00.000Z to 2026-11-29T20:01:50.000Z" in note for note in found["notes"])
    assert "--baseline-start" in found["command"]
    alone = run(f"{line.replace('20:01:55', '20:00:00')}", capsys)
    assert any("No baseline was given" in note for note in alone["notes"])


def test_an_investigation_is_of_one_host(tmp_path: Path, make_store, capsys: pytest.CaptureFixture) -> None:
    make_store(tmp_path, hosts=["a", "b"], seconds=40)
    line = f"investigate --store {tmp_path} --host * --start 2026-11-29T20:00 --end 2026-11-29T20:01"
    assert main(line.split()) == 2
    assert "matches 2 hosts (a, b)" in capsys.readouterr().err


def test_a_file_that_is_no_parquet_is_put_aside_and_named(
    tmp_path: Path, fitted_store, make_store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    make_store(tmp_path)
    bad = sorted(tmp_path.rglob("*.parquet"))[-1]
    bad.write_bytes(b"this is no Parquet file")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fitted_store.tracking_uri)
    found = run(f"score --store {tmp_path} --start 2026-11-29T20:01 --end 2026-11-29T20:03", capsys)
    assert [Path(item["key"]).name for item in found["quarantined"]] == [bad.name]
    assert found["quarantined"][0]["reason"]
    assert not bad.exists()
    assert list((tmp_path / "quarantine").rglob("*.reason.txt"))


def test_a_model_of_another_kind_of_host_is_refused_and_nothing_is_written(
    tmp_path: Path, fitted_store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from synthetic_telemetry import SYNTHETIC_START, synthetic_columns, synthetic_segment

    columns = {
        (f"other{number}", instance): values
        for number, ((_, instance), values) in enumerate(synthetic_columns(60, [], 0).items())
    }
    store = Store(str(tmp_path))
    store.put_segment(synthetic_segment("odd", SYNTHETIC_START, columns))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fitted_store.tracking_uri)
    assert main(["score", "--store", str(tmp_path), "--model", fitted_store.model["model"]]) == 2
    assert "the model expects other features" in capsys.readouterr().err
    assert not (tmp_path / "reports").exists()
    assert not (tmp_path / "scores").exists()


def test_a_host_that_cannot_be_scored_does_not_cost_the_others_their_scores(
    tmp_path: Path, fitted_store, make_store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    from synthetic_telemetry import SYNTHETIC_START, synthetic_segment

    make_store(tmp_path, seconds=180)
    odd = {("odd.metric", ""): pl.Series(range(1800)).cast(pl.Float32).to_numpy()}
    Store(str(tmp_path)).put_segment(synthetic_segment("odd", SYNTHETIC_START, odd))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fitted_store.tracking_uri)
    found = run(f"score --store {tmp_path} --start {AFTER_TRAINING}", capsys)
    assert found["hosts"] == ["node-1"]
    assert any(note.startswith("odd was not scored: ") for note in found["notes"])


def test_too_little_to_learn_from_is_said(
    tmp_path: Path, fitted_store, make_store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    make_store(tmp_path, seconds=10)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fitted_store.tracking_uri)
    assert main(["fit", "--store", str(tmp_path)]) == 2
    assert "too few to learn from" in capsys.readouterr().err


def test_relative_times_count_from_now(fitted_store, capsys: pytest.CaptureFixture) -> None:
    assert main(["score", "--store", str(fitted_store.path), "--start", "-1s", "--end", "now"]) == 2
    assert "no telemetry" in capsys.readouterr().err
