"""The demo's parts; the whole takes minutes and is run by hand and by tests/benchmarks."""

from __future__ import annotations

import io
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from flows.demo_parts import Companion, Injector
from flows.demo_plan import plan_demo
from flows.demo_view import DemoView, show_result
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.faults import list_faults
from reveal_core.lab.journal import clean_up
from reveal_core.lab.place import lab_place
from reveal_core.lab.workload import find_workload

needs_free_lab = pytest.mark.skipif(find_workload() is not None, reason="a lab workload runs on this machine")


def fault(name: str, **found) -> dict:
    missed = {"found": False, "incident": None, "delay_s": None, "found_subsystem": None, "found_cause": None}
    right = {"subsystem_right": None, "cause_right": None}
    return {
        "fault": name,
        "subsystem": "cpu",
        "start": "2026-11-29T20:15:01.500Z",
        **missed,
        **right,
        **found,
    }


def shown(document: dict) -> str:
    text = io.StringIO()
    show_result(Console(file=text, width=140), document)
    return text.getvalue()


def test_the_table_is_honest_about_misses_and_wrong_names() -> None:
    found = {
        "found": True,
        "incident": "i-1",
        "delay_s": 0.8,
        "found_subsystem": "cpu",
        "found_cause": "cpu-quota",
    }
    wrong = {
        "found": True,
        "incident": "i-2",
        "delay_s": -0.5,
        "found_subsystem": "memory",
        "found_cause": None,
    }
    text = shown(
        {
            "faults": [
                fault("cpu-quota", **found, subsystem_right=True, cause_right=True),
                fault("cpu-contention", **wrong, subsystem_right=False, cause_right=False),
                fault("page-fault-storm"),
            ],
            "false_incidents": ["i-3"],
            "notes": ["fault x could not be injected: [it] is not here"],
            "report": "/demo/report.html",
            "prefect": "prefect server start",
            "mlflow": "mlflow server",
        }
    )
    assert "2 of 3 faults found, 1 with the right subsystem first; 1 false incidents: i-3" in text
    assert "missed" in text
    assert "+0.8 s" in text
    assert "-0.5 s" in text
    assert "memory (it is cpu)" in text
    assert "Note: fault x could not be injected: [it] is not here" in text
    assert "Report: /demo/report.html" in text


@needs_free_lab
def test_a_plan_holds_three_faults_that_can_be_injected_here(tmp_path: Path) -> None:
    plan = plan_demo(tmp_path / "demo", full=False, faults=None, seed=0)
    assert len(plan.faults) == 3
    assert len({info.subsystem for info in plan.faults}) == 3
    assert plan.folder.is_dir()
    assert 240 < plan.seconds < 300
    full = plan_demo(tmp_path / "full", full=True, faults=None, seed=0)
    usual = [info.name for info in list_faults() if info.available and not info.by_name]
    assert sorted(info.name for info in full.faults) == sorted(usual)
    assert full.healthy_s == 300


@needs_free_lab
@pytest.mark.parametrize("names", [["nonsense"], [], ["cpu-contention", "cpu-contention"]])
def test_a_plan_of_unknown_faults_is_refused_and_makes_no_folder(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UsageError, match="cpu-contention"):
        plan_demo(tmp_path / "demo", full=False, faults=names, seed=0)
    assert not (tmp_path / "demo").exists()


@needs_free_lab
def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="cannot be made"):
        plan_demo(tmp_path / "file", full=False, faults=None, seed=0)


def test_a_companion_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    companion = Companion(["sh", "-c", "echo started; echo all is lost; exit 4"], tmp_path / "helper.log")
    companion.process.wait(30)
    with pytest.raises(UnavailableError, match="the helper ended with code 4: all is lost"):
        companion.check()
    companion.stop()


def test_a_companion_is_stopped(tmp_path: Path) -> None:
    companion = Companion(["sleep", "600"], tmp_path / "sleep.log")
    companion.check()
    companion.stop()
    assert companion.process.returncode is not None


def test_waiting_looks_for_trouble(capsys: pytest.CaptureFixture) -> None:
    def trouble() -> None:
        raise UnavailableError("the collector ended")

    with DemoView(100.0) as view:
        view.wait(0.01, "Waiting", lambda: None)
        with pytest.raises(UnavailableError):
            view.wait(30.0, "Waiting", trouble)
        view.tell("done")
    assert "0:00  done" in capsys.readouterr().err


def test_the_injector_says_what_it_could_not_do(tmp_path: Path) -> None:
    injector = Injector(tmp_path)
    try:
        injector.begin("nonsense", 1.0)
        with pytest.raises(UnavailableError, match="there is no fault 'nonsense'"):
            injector.result(60.0)
    finally:
        injector.stop()


@needs_free_lab
def test_the_injector_injects_and_tells_when(tmp_path: Path) -> None:
    injector = Injector(tmp_path)
    try:
        before = datetime.now(UTC)
        injector.begin("cpu-contention", 0.5)
        answer = injector.result(60.0)
    finally:
        injector.stop()
    assert answer is not None
    start, end = (datetime.fromisoformat(answer[name]) for name in ("start", "end"))
    assert before - timedelta(milliseconds=1) <= start < end
    assert answer["name"] == "cpu-contention"


@needs_free_lab
def test_stopping_the_injector_undoes_the_fault(tmp_path: Path) -> None:
    journal = lab_place().journal_dir
    injector = Injector(tmp_path)
    competitors: set[int] = set()
    until = time.monotonic() + 60
    try:
        injector.begin("cpu-contention", 600.0)
        while not competitors:
            assert time.monotonic() < until
            assert injector.result(0.05) is None
            entries = [json.loads(path.read_text()) for path in journal.iterdir() if path.suffix == ".json"]
            competitors = {int(e["arguments"][0]) for e in entries if e["kind"] == "end-process"}
    finally:
        injector.stop()
    while any(psutil.pid_exists(pid) for pid in competitors):
        assert time.monotonic() < until
        time.sleep(0.05)
    # What a stop in the middle of a start may leave is a note of what is undone already.
    clean_up()
    assert not list(journal.iterdir())
