"""Reads that hang, fail or come late: they cost their own samples, never those of the others."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.lanes import Lanes
from reveal_core.collect.opened import DetachedSource
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source


class Device:
    """Answers with a number, unless the test tells it to hang or to fail."""

    def __init__(self, name: str) -> None:
        self.path = f"device {name}"
        self.free = threading.Event()
        self.free.set()
        self.error: Exception | None = None
        self.reads = 0
        self.inside = 0
        self.most_inside = 0

    def read(self) -> int:
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.reads += 1
        try:
            self.free.wait()
            if self.error is not None:
                raise self.error
            return self.reads
        finally:
            self.inside -= 1

    def close(self) -> None:
        """Nothing is open."""


class DevicePart(Part):
    def __init__(self, device: Device, columns: Columns, instance: str) -> None:
        super().__init__(device, columns)
        self.slot = self.add("thermal.temperature", instance)

    def parse(self, data: int) -> None:
        assert self.slot is not None
        self.columns.row[self.slot] = data


class Devices(Source):
    name: ClassVar[str] = "devices"
    period_ms: ClassVar[int] = 100
    detached: ClassVar[bool] = True

    def probe(self) -> str | None:
        return None

    def open(self) -> None:
        self.devices = [Device(str(number)) for number in range(8)]
        self.parts.extend(DevicePart(d, self.columns, f"d{n}") for n, d in enumerate(self.devices))


class Bench:
    """A detached source of eight devices, sampled tick by tick; a tick waits until healthy reads are back."""

    def __init__(self) -> None:
        columns = Columns("devices", 100, load_catalog(), {})
        self.source = Devices(Path("/"), columns)
        self.source.open()
        coverage = load_catalog()["reveal.coverage"].channel("devices", "reveal", 100)
        self.opened = DetachedSource(self.source, 1, 0, 100, coverage)
        self.tick = 0

    def step(self) -> list[int]:
        """Make a tick and return the samples that it recorded, after what can answer has answered."""
        before = self.opened.samples
        self.opened.sample(self.tick, self.tick)
        self.tick += 1
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            waiting = [
                lane
                for lane in self.opened.lanes.lanes.values()
                if lane.outstanding and lane.answer is None and lane.part.file.free.is_set()  # type: ignore[attr-defined]
            ]
            if not waiting or self.blocked(waiting):
                break
            time.sleep(0.001)
        return list(self.source.columns.row) if self.opened.samples > before else []

    def blocked(self, waiting: list[Any]) -> bool:
        """Whether those that wait stand behind one that hangs in the shared worker."""
        shared = self.opened.lanes.shared
        running = shared.running if shared is not None else None
        return (
            running is not None
            and not running[0].part.file.free.is_set()
            and all(lane.worker is None for lane in waiting)
        )


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    for device in bench.source.devices:
        device.free.set()
    bench.opened.close()


def test_a_round_is_recorded_one_tick_after_it_was_asked_for(bench: Bench) -> None:
    assert bench.step() == []
    assert bench.step() == [1] * 8
    assert bench.step() == [2] * 8


def test_one_that_hangs_for_ever_costs_only_its_own_samples(bench: Bench) -> None:
    bench.step()
    bench.step()
    bench.source.devices[5].free.clear()
    rows = []
    for _ in range(12):
        rows.append(bench.step())
        time.sleep(0.11 if len(rows) < 4 else 0)  # the worker is given up after one period
    steady = rows[4:]
    assert all(row[5] == MISSING for row in steady)
    values = [[value for n, value in enumerate(row) if n != 5] for row in steady]
    assert all(MISSING not in row for row in values)
    assert all(later[0] == earlier[0] + 1 for earlier, later in itertools.pairwise(values))
    assert bench.source.devices[5].reads == bench.source.devices[5].most_inside + 2  # at most one outstanding
    assert bench.opened.late >= 1
    assert any("device 5" in note for note in bench.opened.notes)


def test_one_that_answers_again_is_read_again(bench: Bench) -> None:
    bench.step()
    bench.source.devices[2].free.clear()
    for _ in range(4):
        bench.step()
        time.sleep(0.11)
    bench.source.devices[2].free.set()
    for _ in range(40):
        row = bench.step()
        if row and row[2] != MISSING:
            break
        time.sleep(0.01)
    assert row[2] != MISSING
    assert not bench.opened.notes


def test_what_comes_too_late_is_dropped_because_it_is_old(bench: Bench) -> None:
    bench.step()
    bench.step()
    device = bench.source.devices[7]  # the last of its worker, so that nobody waits behind it
    device.free.clear()
    bench.step()
    bench.step()
    device.free.set()
    late_value = device.reads
    for _ in range(20):
        row = bench.step()
        assert row[7] in (MISSING, device.reads, device.reads - 1)
        assert row[7] != late_value
        if row[7] != MISSING:
            return
        time.sleep(0.01)
    pytest.fail("it was never read again")


def test_one_that_fails_is_asked_less_and_less_often_and_recovers(bench: Bench) -> None:
    device = bench.source.devices[3]
    device.error = OSError(5, "GPU is lost")
    for _ in range(80):
        row = bench.step()
    assert row[3] == MISSING
    assert [value for n, value in enumerate(row) if n != 3] == [79] * 7
    assert 5 <= device.reads <= 9  # after 1, 2, 4, 8 … rounds
    assert bench.source.columns.errors["device 3: GPU is lost"] == device.reads - (
        device.reads > bench.opened.failed
    )
    device.error = None
    for _ in range(80):
        row = bench.step()
    assert row[3] == device.reads - 1 or row[3] == device.reads


def test_any_exception_of_a_driver_is_the_lane_s_own(bench: Bench) -> None:
    bench.source.devices[0].error = RuntimeError("driver went mad")
    bench.step()
    assert bench.step() == [MISSING, *[1] * 7]
    assert bench.source.columns.errors["device 0: RuntimeError: driver went mad"] == 1


def test_slow_ones_get_a_worker_of_their_own() -> None:
    lanes = Lanes("devices", 0.1)
    columns = Columns("devices", 100, load_catalog(), {})
    parts = [DevicePart(Device(str(n)), columns, f"d{n}") for n in range(4)]
    lanes.ask(parts, 0)
    for lane in lanes.lanes.values():
        while lane.answer is None:
            time.sleep(0.001)
        lane.answer = (1, None, 30_000)  # four times 30 ms are more than the period
    assert lanes.collect(0)
    assert all(lane.worker is not None for lane in list(lanes.lanes.values())[:1])
    lanes.close()


def test_parts_that_are_gone_are_asked_no_more_and_new_ones_are(bench: Bench) -> None:
    bench.step()
    bench.step()
    gone = bench.source.parts.pop(4)
    gone.close()
    reads = bench.source.devices[4].reads
    extra = Device("new")
    bench.source.parts.append(DevicePart(extra, bench.source.columns, "d8"))
    for _ in range(3):
        bench.step()
    assert bench.source.devices[4].reads <= reads + 1
    assert extra.reads >= 2
    assert len(bench.opened.lanes.lanes) == 8
