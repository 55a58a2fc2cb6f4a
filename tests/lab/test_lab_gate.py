"""What a rank can be asked for, what it publishes, and the clock of the machine, set and set back."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab import clock
from reveal_core.lab.control import LOSS, STALL, request_loss, request_stall, serve_control
from reveal_core.lab.faults.base import Injection
from reveal_core.lab.faults.cpu import step_clock
from reveal_core.lab.gate import MOST, PERIOD_S, InputGate
from reveal_core.lab.journal import UndoJournal, clean_up
from reveal_core.lab.place import lab_place
from reveal_core.lab.progress import Progress, ProgressWriter, pace, read_progress
from reveal_core.lab.workload import Workload


@given(share=st.floats(0, MOST), at=st.floats(0, 100))
def test_a_gate_is_closed_for_its_share_of_each_period(share: float, at: float) -> None:
    now = 0.0
    gate = InputGate(lambda: now)
    gate.set_share(share)
    now = at
    into = at % PERIOD_S
    assert gate.closed_s() == pytest.approx(max(0.0, share * PERIOD_S - into), abs=1e-9)
    gate.set_share(0.0)
    assert gate.closed_s() == 0.0


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_gate_that_never_opens_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="cannot be held back"):
        InputGate().set_share(share)


def test_effects_are_asked_for_by_name_and_end_by_themselves(tmp_path: Path) -> None:
    seen: list[tuple[str, float]] = []
    gate = InputGate()

    def stall(share: float) -> None:
        gate.set_share(share)
        seen.append((STALL, share))

    path = tmp_path / "control"
    serve_control(path, {LOSS: lambda share: seen.append((LOSS, share)), STALL: stall})
    request_stall(path, 0.5, 60.0)
    request_loss(path, 0.1, 0.05)
    deadline = time.monotonic() + 20
    while (LOSS, 0.0) not in seen:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert seen == [(STALL, 0.5), (LOSS, 0.1), (LOSS, 0.0)]
    with pytest.raises(UnavailableError, match="cannot be held back"):
        request_stall(path, 2.0, 1.0)
    request_stall(path, 0.0, 0.0)
    assert gate.closed_s() == 0.0


def test_progress_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "progress-0"
    writer = ProgressWriter(path)
    assert read_progress(path) == (0, "start", 0.0)
    writer.set(17, "serve", 2.5)
    assert read_progress(path) == Progress(17, "serve", 2.5)
    path.write_bytes(b"short")
    assert read_progress(path).steps == 0


def test_a_pace_leaves_out_the_time_without_work() -> None:
    before = Progress(100, "train", 0.0)
    assert pace(before, Progress(150, "train", 0.0), 5.0) == 10.0
    assert pace(before, Progress(150, "serve", 2.5), 5.0) == 20.0
    assert pace(before, before, 5.0) == 0.0
    assert pace(before, Progress(100, "serve", 5.0), 5.0) is None


def test_an_unknown_variant_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are training, checkpoints, inference"):
        Workload(tmp_path, variant="gaming", state_dir=tmp_path / "state").start()


class FakeTime(SimpleNamespace):
    """The clocks of a machine whose wall clock can be set."""

    CLOCK_BOOTTIME, CLOCK_REALTIME = time.CLOCK_BOOTTIME, time.CLOCK_REALTIME

    def __init__(self) -> None:
        super().__init__(boot=1_000_000_000, wall=1_700_000_000_000_000_000)

    def pass_by(self, ns: int) -> None:
        self.boot += ns
        self.wall += ns

    def time_ns(self) -> int:
        return self.wall

    def clock_gettime_ns(self, which: int) -> int:
        assert which == self.CLOCK_BOOTTIME
        return self.boot

    def clock_settime_ns(self, which: int, ns: int) -> None:
        assert which == self.CLOCK_REALTIME
        self.wall = ns


def test_a_clock_is_set_back_to_the_time_that_it_would_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = FakeTime()
    monkeypatch.setattr(clock, "time", machine)
    journal = UndoJournal(lab_place(tmp_path / "state"))
    injection = Injection(lab_place(tmp_path / "state"), journal, None, 10.0, 2.0, tmp_path)
    expected = machine.wall
    assert step_clock(injection) == "the clock set 3 s forward"
    assert machine.wall == expected + 3_000_000_000
    machine.pass_by(7_000_000_000)
    # as after a kill: another process undoes it, and once more changes nothing
    (entry,) = lab_place(tmp_path / "state").journal_dir.iterdir()
    entry.write_text(json.dumps({**json.loads(entry.read_text()), "owner": [0, 0]}))
    assert clean_up(tmp_path / "state") == ["set the clock back"]
    assert machine.wall == expected + 7_000_000_000
    journal.undo()
    assert machine.wall == expected + 7_000_000_000
