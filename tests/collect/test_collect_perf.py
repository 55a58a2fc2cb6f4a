"""Hardware counters: the real perf with software events, and a perf that does whatever perf may do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from collect_parts import copy_tree, values
from perf_parts import FakePerf, SoftwarePerf, line

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.source import Source
from reveal_core.collect.sources import perf as perf_module
from reveal_core.collect.sources.perf import PerfSource, make_plan
from reveal_core.collect.sources.perf_events import Event
from reveal_core.collect.sources.perf_stream import PerfStream


def new(kind: type[PerfSource], root: Path = Path("/")) -> PerfSource:
    return kind(root, Columns("perf", 100, load_catalog(), load_left_out()))


def wait_for(source: Source, done: Callable[[], bool], seconds: float = 20.0) -> None:
    """Read until something holds; how long that takes is no matter."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, (source.notes, dict(source.columns.errors), values(source))
        source.read()
        time.sleep(0.01)


def error_with(source: Source, word: str) -> Callable[[], bool]:
    return lambda: any(word in text for text in source.columns.errors)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePerf:
    fake = FakePerf(tmp_path / "bin", monkeypatch)
    fake.trial["write"] = [line(0.001, event.event, 1.0) for event in SoftwarePerf.events]
    return fake


def can_count() -> bool:
    """Whether the real perf may count on all CPUs here."""
    return new(SoftwarePerf).probe() is None


@pytest.mark.skipif(not can_count(), reason="perf is not installed or may not count system-wide here")
def test_the_real_perf_counts_software_events() -> None:
    source = new(SoftwarePerf)
    assert source.probe() is None
    source.open()
    assert source.plan is not None
    assert source.plan.scope == "cpu"
    cpus = len(os.sched_getaffinity(0))
    assert len(source.columns.channels) == 5 * (os.cpu_count() or cpus)
    wait_for(source, lambda: None not in values(source).values())
    found = values(source)
    # task-clock counts the milliseconds of each second, whatever runs.
    assert found["perf.instructions/cpu0"] == pytest.approx(1_000_000, rel=0.02)
    assert found["perf.running_share/cpu0"] == 100_000
    process = source.parts[0].file.process
    source.close()
    assert process.returncode is not None
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


@pytest.mark.skipif(not can_count(), reason="perf is not installed or may not count system-wide here")
def test_perf_that_is_killed_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reveal_core.collect.sources.perf_stream.FIRST_BACKOFF_S", 0.01)
    source = new(SoftwarePerf)
    assert source.probe() is None
    source.open()
    wait_for(source, lambda: None not in values(source).values())
    stream = source.parts[0].file
    stream.backoff_s = 0.01
    os.killpg(stream.process.pid, signal.SIGKILL)
    wait_for(source, error_with(source, "ended"))
    assert set(values(source).values()) == {None}
    wait_for(source, lambda: None not in values(source).values())
    assert stream.starts == 2
    source.close()


def test_a_machine_without_counters_says_so_in_a_line(fake: FakePerf) -> None:
    fake.trial["write"] = [line(0.001, event.event, "<not supported>") for event in SoftwarePerf.events]
    fake.ready()
    reason = new(SoftwarePerf).probe()
    assert reason is not None
    assert "no performance counters" in reason
    assert "\n" not in reason


def test_a_trial_that_prints_nothing_is_not_taken_for_a_machine_without_counters(fake: FakePerf) -> None:
    fake.trial["write"] = []
    fake.ready()
    assert new(SoftwarePerf).probe() == "perf cannot count: it printed no counts"
    assert "-I" not in fake.calls[0]["argv"]


def test_a_tree_has_no_counters(tmp_path: Path) -> None:
    assert "--root" in (new(PerfSource, copy_tree(tmp_path)).probe() or "")


def test_without_perf_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install linux-perf" in (new(SoftwarePerf).probe() or "")


def test_refused_says_which_sysctl_unlocks_it(fake: FakePerf) -> None:
    text = "Error:\nAccess to performance monitoring and observability operations is limited."
    fake.trial["refuse"] = {"": [255, text]}
    fake.ready()
    reason = new(SoftwarePerf).probe() or ""
    assert "sysctl kernel.perf_event_paranoid=0" in reason
    assert "CAP_PERFMON" in reason
    assert len(fake.calls) == 1  # asked once, not for every event


def test_events_that_perf_does_not_know_are_dropped_and_the_rest_is_counted(fake: FakePerf) -> None:
    fake.trial["refuse"] = {"page-faults": [129, "event syntax error: 'page-faults'"]}
    fake.trial["write"] = [
        line(0.001, "task-clock", 1.0),
        line(0.001, "context-switches", "<not supported>"),
        line(0.001, "cpu-migrations", "<not counted>"),
    ]
    fake.ready()
    source = new(SoftwarePerf)
    assert source.probe() is None
    assert [event.event for event in source.usable] == ["task-clock", "cpu-migrations"]
    source.open()
    assert any("context-switches, page-faults" in note for note in source.notes)
    source.close()


def test_a_trial_that_hangs_is_given_up(fake: FakePerf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_module, "TRIAL_S", 0.3)
    fake.trial = {"write": [], "hang": True}
    fake.ready()
    assert "did not answer" in (new(SoftwarePerf).probe() or "")
    assert len(fake.calls) <= 1  # on a busy machine it is given up before it has begun


def test_how_perf_is_called(fake: FakePerf) -> None:
    fake.run["write"] = [line(n / 10, "task-clock", 100.0, cpu=0, runtime=10**8) for n in (1, 2, 3)]
    fake.run["hang"] = True
    fake.ready()
    source = new(SoftwarePerf)
    assert source.probe() is None
    source.open()
    wait_for(source, lambda: values(source)["perf.instructions/cpu0"] is not None)
    call = fake.calls[-1]
    assert call["lc"] == "C"
    assert call["nice"] >= 5
    arguments = " ".join(call["argv"])
    assert arguments.startswith("stat -a -A -I 100 -j --log-fd ")
    assert arguments.endswith("-e {task-clock,context-switches}:W,cpu-migrations,page-faults")
    source.close()
    with pytest.raises(ProcessLookupError):
        os.kill(call["pid"], 0)


def test_cpus_that_come_or_go_get_another_perf(fake: FakePerf, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line(n / 10, "task-clock", 100.0, cpu=cpu) for n in (1, 2, 3) for cpu in (0, 1)]
    fake.run = {"write": lines, "hang": True}
    fake.ready()
    online = ["0-1"]
    monkeypatch.setattr(SoftwarePerf, "_online", lambda self: online[0])
    source = new(SoftwarePerf)
    assert source.probe() is None
    source.open()
    wait_for(source, lambda: values(source)["perf.instructions/cpu1"] is not None)
    first = source.parts[0].file.process
    online[0] = "0"
    source.reads_to_rescan = 0
    source.read()
    assert first.returncode is not None
    assert not any(name.endswith("/cpu1") for name in values(source))
    wait_for(source, lambda: values(source)["perf.instructions/cpu0"] is not None)
    online[0] = "0-1"
    source.reads_to_rescan = 0
    source.read()
    wait_for(source, lambda: values(source)["perf.instructions/cpu1"] is not None)
    assert len(source.columns.row) == 2 * 5  # the old slots serve again
    source.close()


def test_perf_that_ends_at_once_is_tried_ever_more_rarely(fake: FakePerf) -> None:
    fake.run = {"write": ["Workload failed: no such thing\n"], "code": 3}
    fake.ready()
    source = new(SoftwarePerf)
    source.probe()
    source.open()
    stream = source.parts[0].file
    wait_for(source, error_with(source, "ended with code 3: Workload failed"))
    wait_for(source, error_with(source, "started again in a while"))
    assert stream.starts == 1
    waits = []
    for starts in range(2, 5):
        stream.not_before = 0.0
        if starts == 4:
            stream.backoff_s = 299.0
        wait_for(source, lambda wanted=starts: stream.starts == wanted and stream.process is None)
        waits.append(stream.backoff_s)
    assert waits == [4.0, 8.0, 300.0]
    assert set(values(source).values()) == {None}
    source.close()


def test_silence_makes_values_missing_and_then_costs_perf_its_life(tmp_path: Path) -> None:
    now = [0.0]
    stream = PerfStream(["sh", "-c", "sleep 60"], 0.1, clock=lambda: now[0])
    assert stream.read() == (1, b"")
    process = stream.process
    now[0] = 9.0
    assert stream.read() == (1, b"")
    now[0] = 11.0
    with pytest.raises(OSError, match="said nothing for 10 s"):
        stream.read()
    assert process is not None
    assert process.returncode is not None
    stream.close()


def test_the_helper_dies_with_the_agent(tmp_path: Path) -> None:
    """An agent that is killed leaves no perf behind."""
    script = tmp_path / "agent.py"
    script.write_text(
        "import os, sys, time\n"
        "from reveal_core.collect.sources.perf_stream import PerfStream\n"
        "stream = PerfStream(['sh', '-c', 'ulimit -n; exec sleep 60'], 1.0)\n"
        "stream.read()\n"
        "print(stream.process.pid, flush=True)\n"
        "time.sleep(60)\n",
        encoding="utf-8",
    )
    agent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert agent.stdout is not None
    helper = int(agent.stdout.readline())
    comm = Path(f"/proc/{helper}/comm")
    end = time.monotonic() + 20
    while comm.read_text().strip() != "sleep":
        assert time.monotonic() < end
        time.sleep(0.01)
    limits = Path(f"/proc/{helper}/limits").read_text()
    soft, hard = next(text for text in limits.splitlines() if text.startswith("Max open files")).split()[3:5]
    assert soft == hard
    agent.kill()
    agent.wait()
    agent.stdout.close()
    status = Path(f"/proc/{helper}/stat")
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end
        time.sleep(0.01)


EVENTS = tuple(Event(f"perf.e{number}", f"e{number}") for number in range(16))


@pytest.mark.parametrize(
    ("cpus", "sockets", "files", "scope", "interval_ms", "events", "counted"),
    [
        (2, 1, 1024, "cpu", 100, 16, 2),
        (8, 1, 1024, "cpu", 100, 16, 8),
        (48, 2, 4096, "cpu", 400, 16, 48),
        (128, 2, 1 << 20, "socket", 300, 16, 128),
        (512, 4, 1 << 20, "socket", 900, 16, 512),
        (512, 1, 1 << 20, "", 900, 16, 512),
        (512, 4, 4096, "socket", 400, 7, 512),
        (512, 4, 256, "cpu", 100, 4, 48),
        (512, 4, 64, "cpu", 100, 4, 1),
        (24, 2, 256, "cpu", 100, 8, 24),
    ],
)
def test_width_costs_rate_then_detail_and_file_handles_cost_events(
    cpus: int, sockets: int, files: int, scope: str, interval_ms: int, events: int, counted: int
) -> None:
    plan = make_plan(EVENTS, cpus, sockets, files)
    assert (plan.scope, plan.interval_ms, len(plan.events)) == (scope, interval_ms, events)
    assert plan.cpus == counted
    assert plan.cpus * events <= max(4, files - 64)
    lines = {"cpu": counted, "socket": sockets, "": 1}[scope] * events * 1000 / interval_ms
    assert lines <= perf_module.MAX_LINES_PER_S
    assert counted * events * 1000 / interval_ms <= perf_module.MAX_COUNTS_PER_S
