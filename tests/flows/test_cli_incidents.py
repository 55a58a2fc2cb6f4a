"""Incidents over several runs on the command line: listed once, labelled, silenced, told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from flows.cli import main
from storage.store import Store

# The synthetic host's burst is from 20:02:00 to 20:02:08.
RANGES = ("2026-11-29T20:01:50 --end 2026-11-29T20:02:04", "2026-11-29T20:02:04 --end 2026-11-29T20:03:00")


def run(line: str, capsys: pytest.CaptureFixture) -> dict | list:
    code = main([*line.split(), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def shown(line: str, capsys: pytest.CaptureFixture) -> str:
    assert main(line.split()) == 0
    return capsys.readouterr().out


@pytest.fixture
def scored(fitted_store, tmp_path: Path, capsys: pytest.CaptureFixture) -> Path:
    """Return a store whose incident was scored in two runs, each twice; its models are the shared ones."""
    path = tmp_path / "store"
    shutil.copytree(fitted_store.path, path, ignore=shutil.ignore_patterns("ledger", "incidents", "labels"))
    for start in (*RANGES, RANGES[0]):
        run(f"score --store {path} --start {start}", capsys)
    return path


def test_an_incident_of_two_runs_is_listed_once(scored: Path, capsys: pytest.CaptureFixture) -> None:
    (one,) = run(f"incidents list --store {scored} --start 2026-11-01", capsys)
    assert (one["host"], one["subsystem"], one["count"], one["state"]) == ("node-1", "cpu", 1, "open")
    assert len(one["episodes"]) == 1
    assert len(one["episodes"][0]["incidents"]) == 2
    assert "2026-11-29T20:01:57" <= one["first"] <= "2026-11-29T20:02:04" < one["end"]
    text = shown(f"incidents list --store {scored} --start 2026-11-01", capsys)
    assert one["id"][:15] in text
    assert "1×" in text
    assert run(f"incidents list --store {scored} --start 2026-11-01 --host other", capsys) == []
    assert "No incident." in shown(f"incidents list --store {scored} --start -1s", capsys)


def test_the_report_says_what_became_of_it(scored: Path, capsys: pytest.CaptureFixture) -> None:
    (one,) = run(f"incidents list --store {scored} --start 2026-11-01", capsys)
    run(f"incidents label {one['id']} known --why heater --store {scored}", capsys)
    document = run(f"score --store {scored} --start {RANGES[1]}", capsys)
    (entry,) = run(f"incidents list --store {scored} --start 2026-11-01", capsys)
    assert entry["count"] == 1
    assert (entry["label"], entry["label_why"]) == ("known", "heater")
    assert entry["silenced"].startswith("labelled known by ")
    assert document["alerts"] is None
    page = Path(document["report"]).read_text()
    assert "heater" in page


def test_showing_and_labelling(scored: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (one,) = run(f"incidents list --store {scored} --start 2026-11-01", capsys)
    second = one["episodes"][0]["incidents"][-1]
    found = run(f"incidents show {second} --store {scored}", capsys)
    assert (found["id"], found["history"]["id"]) == (second, one["id"])
    text = shown(f"incidents show {second} --store {scored}", capsys)
    assert "came 1 time" in text
    assert "normally" in text
    assert main(f"incidents truth --out {tmp_path}/faults.json --store {scored}".split()) == 2
    assert "no incident of '*'" in capsys.readouterr().err
    # A label of one of its comings is a label of all.
    label = run(f"incidents label {second} real --store {scored}", capsys)
    assert label["incident"] == one["id"]
    summary = run(f"incidents summary --store {scored} --start 2026-11-01", capsys)
    assert summary["labelled"] == {"real": 1, "false": 0, "known": 0}
    assert summary["precision"] == 1.0
    assert summary["incidents"] == 1
    assert summary["host_days"] == pytest.approx(70 / 86400, rel=0.1)
    assert "100 % were right" in shown(f"incidents summary --store {scored} --start 2026-11-01", capsys)
    run(f"incidents truth --out {tmp_path}/faults.json --store {scored}", capsys)
    (fault,) = json.loads((tmp_path / "faults.json").read_text())
    assert (fault["subsystem"], fault["start"], fault["host"]) == ("cpu", one["first"], "node-1")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("incidents show nothing", 2, "has no incident 'nothing'"),
        ("incidents label nothing real", 2, "has no incident 'nothing'"),
        ("incidents label nothing maybe", 2, "real, false or known, not 'maybe'"),
        ("incidents list --start someday", 2, "'someday' is not a time"),
        ("silences end nothing", 2, "has no silence 'nothing' that is not over; there are: none"),
        ("silences add --host x --end -1h", 2, "before it starts"),
        ("silences add --host x --end +2d --every day", 2, "longer than the day"),
        ("silences add --host x --end +2h --every month", 2, "day or week, not 'month'"),
        ("silences add --host x --end +2h --subsystem disk", 2, "no subsystem is 'disk'"),
    ],
)
def test_mistakes_are_one_line(
    line: str, code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main([*line.split(), "--store", str(tmp_path)]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.err.count("\n") == 1


def test_a_silence_is_made_listed_and_ended(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    store = f"--store {tmp_path}"
    made = run(f"silences add --host rack-7-* --end +4h --why switch {store}", capsys)
    assert made["state"] == "on"
    later = run(f"silences add --host * --start +1h --end +2h --every week {store}", capsys)
    assert later["state"] == "to come"
    assert [one["id"] for one in run(f"silences list {store}", capsys)] == [made["id"], later["id"]]
    assert "rack-7-*" in shown(f"silences list {store}", capsys)
    assert run(f"silences end {made['id']} {store}", capsys)["state"] == "past"
    assert [one["id"] for one in run(f"silences list {store}", capsys)] == [later["id"]]
    assert [one["state"] for one in run(f"silences list --past {store}", capsys)] == ["past", "to come"]
    assert not Store(str(tmp_path)).silences()[0].every


def test_telling_needs_settings_and_hides_secrets(
    scored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    assert main(["alerts", "test"]) == 2
    assert "no channel is set" in capsys.readouterr().err
    monkeypatch.setenv("REVEAL_ALERTS__WEBHOOKS", '["http://127.0.0.1:9/s3cret"]')
    assert main(["alerts", "test"]) == 3
    captured = capsys.readouterr()
    assert "s3cret" not in captured.out + captured.err
    # The samples are long past, which is no news: the report tells of them, and nobody is told.
    found = run(f"score --store {scored} --start {RANGES[0]} --announce", capsys)
    assert found["alerts"]["sent"] == []
    assert list(found["alerts"]["silent"].values()) == ["it was over long before it was found"]
