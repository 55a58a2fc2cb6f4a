"""``reveal jobs`` on the command line, and what a report says of a straggler."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from synthetic_telemetry import SYNTHETIC_START, synthetic_columns, synthetic_segment

from flows.cli import main
from reveal_core.incidents import STRAGGLER, iso
from storage.store import Store

CSV = "job,host,start,end,name\n17,n[1-2],2026-11-29T12:00,2026-11-29T13:00,train\n18,n3,2026-11-29T12:00,,\n"
SACCT = """JobID|JobName|NodeList|Start|End|State
17|train|n[1-2]|2026-11-29T12:00:00|Unknown|RUNNING
18|waits|None assigned|Unknown|Unknown|PENDING
"""
RANGE = "--start 2026-11-29T11:00 --end 2026-11-29T14:00"


def pods(**labels: str) -> str:
    """Return a list of one pod, an hour old."""
    start = iso(datetime.now(UTC) - timedelta(hours=1))
    pod = {
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "ml", "labels": labels},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running", "startTime": start},
    }
    return json.dumps({"kind": "List", "items": [pod]})


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jobs.csv").write_text(CSV, encoding="utf-8")
    (tmp_path / "sacct.txt").write_text(SACCT, encoding="utf-8")
    (tmp_path / "pods.json").write_text(pods(**{"team/job": "train"}), encoding="utf-8")
    return tmp_path


def run(line: str, capsys: pytest.CaptureFixture) -> dict | list:
    code = main([*line.split(), "--store", "s", "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_a_table_is_imported_and_listed(capsys: pytest.CaptureFixture) -> None:
    line = "jobs import csv jobs.csv --timezone Europe/London"
    found = run(line, capsys)
    assert found == {"jobs": 2, "running": 1, "hosts": 3, "files": 2, "skipped": []}
    assert main([*line.split(), "--store", "s"]) == 0
    assert "2 jobs on 3 hosts, 1 still running" in capsys.readouterr().out
    jobs = run(f"jobs list {RANGE}", capsys)
    assert [(one["id"], one["name"], one["source"]) for one in jobs] == [
        ("17", "train", "csv"),
        ("18", "", "csv"),
    ]
    assert jobs[0]["hosts"] == [{"host": "n1", "devices": []}, {"host": "n2", "devices": []}]
    assert (jobs[0]["start"], jobs[0]["end"]) == ("2026-11-29T12:00:00.000Z", "2026-11-29T13:00:00.000Z")
    assert [one["id"] for one in run(f"jobs list {RANGE} --host n3", capsys)] == ["18"]
    assert run("jobs list --start 2026-11-01 --end 2026-11-02", capsys) == []
    assert main(["jobs", "list", "--store", "s", *RANGE.split()]) == 0
    shown = capsys.readouterr().out
    assert "2026-11-29 13:00:00" in shown
    assert "n1, n2" in shown
    assert main(["jobs", "list", "--store", "s", "--start", "2026-11-01", "--end", "2026-11-02"]) == 0
    assert "No job." in capsys.readouterr().out


def test_what_sacct_printed(capsys: pytest.CaptureFixture) -> None:
    found = run("jobs import slurm sacct.txt --timezone UTC", capsys)
    assert (found["jobs"], found["running"], found["hosts"]) == (1, 1, 2)
    assert [entry["item"] for entry in found["skipped"]] == ["sacct.txt, line 3"]
    assert main(["jobs", "import", "slurm", "sacct.txt", "--timezone", "UTC", "--store", "s"]) == 0
    assert "Left out: sacct.txt, line 3: jobs that never ran" in capsys.readouterr().out


def fake_sacct(here: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program called sacct in front of all others."""
    path = here / "bin/sacct"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")


def test_slurm_is_asked_for_what_ran_of_late_and_for_what_was_known_to_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    header = "JobID|JobName|NodeList|Start|End|State"
    first = f"{header}\\n17|train|n[1-2]|2026-11-29T12:00:00+0000|Unknown|RUNNING\\n"
    fake_sacct(here, monkeypatch, f"echo \"$SLURM_TIME_FORMAT $*\" >> asked; printf '{first}'")
    assert run("jobs import slurm", capsys)["running"] == 1
    over = f"{header}\\n17|train|n[1-2]|2026-11-29T12:00:00+0000|2026-11-29T13:00:00+0000|COMPLETED\\n"
    script = (
        f"echo \"$*\" >> asked; case \"$*\" in *--jobs=17*) printf '{over}';; *) printf '{header}\\n';; esac"
    )
    fake_sacct(here, monkeypatch, script)
    assert run("jobs import slurm", capsys) == {
        "jobs": 1,
        "running": 0,
        "hosts": 2,
        "files": 2,
        "skipped": [],
    }
    asked = (here / "asked").read_text().splitlines()
    assert asked[0].startswith(
        "%Y-%m-%dT%H:%M:%S%z --allusers --allocations --parsable2 --format=JobID,JobName,"
    )
    assert [line.rpartition(" ")[2] for line in asked] == ["--starttime=now-1day"] * 2 + ["--jobs=17"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'slurmdbd: no answer' >&2; exit 1", "sacct failed with code 1: slurmdbd: no answer"),
        ("exit 3", "sacct failed with code 3: it says nothing"),
    ],
)
def test_slurm_that_cannot_be_asked(
    script: str, said: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    fake_sacct(here, monkeypatch, script)
    assert main(["jobs", "import", "slurm", "--store", "s"]) == 3
    assert capsys.readouterr().err == f"reveal: {said}\n"


def test_no_slurm_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["jobs", "import", "slurm", "--store", "s"]) == 3
    captured = capsys.readouterr()
    assert captured.err.startswith("reveal: sacct is not on this machine")
    assert captured.err.count("\n") == 1


def test_pods_and_the_label_that_names_their_job(capsys: pytest.CaptureFixture) -> None:
    assert run("jobs import kubernetes pods.json", capsys)["jobs"] == 0
    found = run("jobs import kubernetes pods.json --label other --label team/job", capsys)
    assert (found["jobs"], found["running"], found["hosts"]) == (1, 1, 1)
    (job,) = run("jobs list --start -2h", capsys)
    assert (job["id"], job["end"]) == ("ml/train", None)
    Path("pods.json").write_text(pods(), encoding="utf-8")
    assert run("jobs import kubernetes pods.json", capsys)["jobs"] == 1  # its pod is gone: it is over
    (job,) = run("jobs list --start -2h", capsys)
    assert job["end"] is not None


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (
            "jobs import excel jobs.csv",
            2,
            "there is no kind 'excel' of jobs: choose from csv,",
        ),
        ("jobs import csv", 2, "reveal jobs import csv needs a file"),
        ("jobs import csv none.csv", 2, "none.csv is not there"),
        ("jobs import csv .", 2, ". cannot be read: Is a directory"),
        ("jobs import csv jobs.csv", 2, "jobs.csv, line 2: the time '2026-11-29T12:00' has no zone"),
        ("jobs import csv jobs.csv --timezone Mars/Base", 2, "'Mars/Base' is no zone"),
        ("jobs import csv sacct.txt", 2, "sacct.txt, line 1: there is no column job"),
        ("jobs import csv jobs.csv --timezone UTC --store /proc/nope", 3, "store /proc/nope"),
        ("jobs import csv jobs.csv --label a", 2, "only pods have labels: leave out --label"),
        ("jobs import slurm jobs.csv", 2, "jobs.csv, line 1: one column JobID is expected"),
        ("jobs import kubernetes pods.json --timezone UTC", 2, "leave out --timezone"),
        ("jobs import kubernetes jobs.csv", 2, "jobs.csv is no JSON"),
        ("jobs list --store none", 3, "store none"),
        ("jobs list --start never", 2, "'never' is not a time"),
        ("jobs list --start -1h --end -2h", 2, "before it starts"),
        ("jobs import", 2, "Missing argument"),
    ],
)
def test_bad_input_is_one_line(line: str, code: int, said: str, capsys: pytest.CaptureFixture) -> None:
    assert main(line.split()) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err
    assert not list(Path().rglob("open.json"))


def test_a_file_that_is_no_text(here: Path, capsys: pytest.CaptureFixture) -> None:
    (here / "jobs.csv").write_bytes(b"job,host,start\n\xff")
    assert main(["jobs", "import", "csv", "jobs.csv"]) == 2
    assert "jobs.csv is no text in UTF-8" in capsys.readouterr().err


def test_a_report_names_the_straggler_and_its_job(
    fitted_store, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """No window of the host is odd to the model of hosts of its kind; among its peers it stands out."""
    store = Store("s")
    hosts = [f"n{number}" for number in range(5)]
    draw = np.random.default_rng(3)
    for seed, host in enumerate(hosts):
        columns = synthetic_columns(600, (), seed)
        work = 6.6e10 * draw.normal(0.9 if host == "n2" else 1.0, 0.01, 6000)
        columns["memory.bandwidth", ""] = work.astype(np.float32)
        store.put_segment(synthetic_segment(host, SYNTHETIC_START, columns))
    end = SYNTHETIC_START + timedelta(hours=9)
    rows = "".join(f"4711,{host},{iso(SYNTHETIC_START)},{iso(end)},train\n" for host in hosts)
    Path("jobs.csv").write_text(f"job,host,start,end,name\n{rows}", encoding="utf-8")
    run("jobs import csv jobs.csv", capsys)
    monkeypatch.setenv("REVEAL_MLFLOW__URI", fitted_store.tracking_uri)
    monkeypatch.setenv("REVEAL_PEERS__SPAN", "10m")
    document = run(f"score --model {fitted_store.model['model']}/{fitted_store.model['version']}", capsys)
    found = [one for one in document["incidents"] if [c["id"] for c in one["causes"]] == [STRAGGLER]]
    (incident,) = found
    assert (incident["host"], incident["job"]) == ("n2", "4711")
    assert incident["headline"].startswith("n2 has ")
    assert incident["headline"].endswith(" less memory.bandwidth than the median of 4 peers of job 4711")
    assert incident["metrics"][0]["peers"] == 4
    page = Path(document["report"]).read_text()
    assert "job 4711</span>" in page
    assert "Peers are the other hosts of the job" in page
    assert main(["incidents", "show", incident["id"], "--store", "s"]) == 0
    assert "on n2, job 4711: " in capsys.readouterr().out
    assert main(["score", "--store", "s", "--model", document["model"]]) == 0
    assert "n2, job 4711: open, first time." in capsys.readouterr().out
