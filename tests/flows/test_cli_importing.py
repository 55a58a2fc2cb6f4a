"""``reveal import`` on the command line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from prometheus_fake import serving

from flows.cli import main

TABLE = "time,a\n" + "".join(f"2026-11-29 20:15:{second:02d},{second}\n" for second in range(30))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(TABLE, encoding="utf-8")
    return tmp_path


def test_the_document(capsys: pytest.CaptureFixture) -> None:
    line = ["import", "csv", "t.csv", "--host", "n1", "--timezone", "UTC", "--store", "s", "--json"]
    assert main(line) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= {"hosts", "segments", "samples", "skipped"}
    assert (found["hosts"], found["segments"], found["samples"]) == (["n1"], 1, 30)
    assert len(list(Path("s").rglob("*.parquet"))) == 1


def test_what_a_person_sees(capsys: pytest.CaptureFixture) -> None:
    Path("t.csv").write_text(TABLE + "bad line\n", encoding="utf-8")
    assert main(["import", "csv", "t.csv", "--timezone", "Europe/London"]) == 0
    shown = capsys.readouterr().out
    assert "30 samples in 1 segments" in shown
    assert "imported.csv.a" in shown
    assert "t.csv, line 32" in shown


def test_a_mapping_is_proposed_and_used(capsys: pytest.CaptureFixture) -> None:
    assert main(["import", "csv", "t.csv", "--suggest"]) == 0
    text = capsys.readouterr().out
    assert tomllib.loads(text)["time"] == {"column": "time", "format": "iso"}
    Path("m.toml").write_text(text, encoding="utf-8")
    line = ["import", "csv", "t.csv", "--mapping", "m.toml", "--timezone", "UTC", "--store", "s", "--json"]
    assert main(line) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 30


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("import excel t.csv", 2, "there is no kind 'excel'"),
        ("import csv nothing.csv", 2, "nothing.csv is not there"),
        ("import csv t.csv", 2, "has no zone"),
        ("import csv t.csv --timezone Mars/Base", 2, "'Mars/Base' is no zone"),
        ("import csv t.csv --timezone UTC --mapping no.toml", 2, "mapping file no.toml cannot be read"),
        ("import csv t.csv --timezone UTC --store /proc/nope", 3, "store /proc/nope"),
        ("import turbostat t.csv --interval never", 2, "'never' is not a duration"),
        ("import turbostat t.csv --origin someday", 2, "'someday' is not a time"),
        ("import reveal-dataset .", 2, "--timezone"),
        ("import csv", 2, "Missing argument"),
        ("import perf t.csv --suggest", 2, "needs no mapping file"),
        (
            "import csv t.csv --match x --again",
            2,
            "only prometheus asks a server: leave out --match and --again",
        ),
        ("import prometheus http://h --host x", 2, "the server says it itself: leave out --host"),
        ("import prometheus h:9090", 2, "the address of a server is expected"),
        ("import prometheus http://ann:pa55@h", 2, "an address must hold no user or password"),
        ("import prometheus http://h --concurrency 0", 2, "--concurrency"),
        ("import prometheus https://h --ca-file no.pem", 2, "--ca-file: no.pem is no file"),
        ("import prometheus http://127.0.0.1:1", 3, "cannot be reached: Connection refused"),
    ],
)
def test_bad_input_is_one_line(
    line: str, code: int, said: str, here: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(line.split()) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert not list(here.rglob("*.parquet"))


def test_a_server_is_entered_by_the_settings(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVEAL_PROMETHEUS__TOKEN", "s3cret")
    with serving() as fake:
        fake.token = "s3cret"
        samples = [(1_764_446_400_000 + 15_000 * n, str(n)) for n in range(20)]
        fake.add("node_context_switches_total", samples, instance="n1:9100", job="node")
        fake.add("app_total", samples, instance="n1:9100", job="app")
        line = [
            "import",
            "prometheus",
            fake.url,
            "--start",
            "2025-11-29T20:00Z",
            "--end",
            "2025-11-29T21:00Z",
        ]
        assert main([*line, "--store", "s", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["hosts"], found["segments"], found["samples"]) == (["n1"], 1, 20)
        assert [entry["item"] for entry in found["skipped"]] == ["app_total"]
        assert main([*line, "--store", "s"]) == 0
        shown = capsys.readouterr()
        assert "there is nothing new" in shown.out
        Path("token").write_text("wr0ng", encoding="ascii")
        assert main([*line, "--token-file", "token", "--store", "s"]) == 3
        told = capsys.readouterr()
    assert "refuses (401): it does not take what was given" in told.err
    assert not any(secret in text for secret in ("s3cret", "wr0ng") for text in (*shown, *told))
