"""The faults that the lab can inject: the list, and how one is injected and undone."""

from __future__ import annotations

import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.faults import cpu, memory, network, storage, traffic
from reveal_core.lab.faults.base import Fault, FaultInfo, FaultRun, Injection
from reveal_core.lab.faults.storage import scratch_parent
from reveal_core.lab.journal import UndoAction, UndoJournal, clean_up
from reveal_core.lab.place import lab_place
from reveal_core.lab.processes import termination_unwinds
from reveal_core.lab.progress import Progress, pace
from reveal_core.lab.workload import WorkloadState, find_workload, take_lock

FAULTS: tuple[Fault, ...] = (
    cpu.CPU_QUOTA,
    network.PACKET_LOSS,
    memory.PAGE_FAULT_STORM,
    storage.WRITEBACK_STORM,
    cpu.CPU_CONTENTION,
    memory.CGROUP_PRESSURE,
    memory.BANDWIDTH,
    memory.HUGE_PAGES_RESERVED,
    traffic.INTERRUPTS,
    storage.SLOW_READS,
    storage.DISK_SATURATION,
    storage.SYNC_WRITES,
    storage.LOADER_STALL,
    cpu.PROCESS_STORM,
    cpu.SWITCH_STORM,
    cpu.STRAGGLER,
    cpu.CROWDED,
    memory.NEIGHBOUR_RECLAIM,
    memory.MEMORY_LEAK,
    memory.COMPACTION,
    network.BANDWIDTH_CAP,
    network.LINK_FLAP,
    traffic.PACKET_STORM,
    traffic.SOCKET_EXHAUSTION,
    traffic.LISTEN_OVERFLOW,
    traffic.CONNTRACK_OVERFLOW,
    cpu.CLOCK_STEP,
)
"""Every fault; of each subsystem the one that shows most first."""


def list_faults() -> list[FaultInfo]:
    """Return every fault, with whether this machine and user can inject it."""
    return [fault.info() for fault in FAULTS]


def demo_faults(count: int = 3) -> list[str]:
    """Return names of faults to show: available here, the strongest first, of different subsystems as far as
    they go; none that is only injected by name.

    Parameters
    ----------
    count
        How many.
    """
    possible = [info for info in list_faults() if info.available and not info.by_name]
    seen: set[str] = set()
    first: list[str] = []
    later: list[str] = []
    for info in possible:
        (later if info.subsystem in seen else first).append(info.name)
        seen.add(info.subsystem)
    return (first + later)[:count]


def _find(name: str) -> Fault:
    for fault in FAULTS:
        if fault.name == name:
            return fault
    raise UsageError(f"there is no fault {name!r}; there are {', '.join(fault.name for fault in FAULTS)}")


def inject(
    name: str,
    *,
    duration_s: float,
    intensity: float = 1.0,
    workload: WorkloadState | None = None,
    stop: threading.Event | None = None,
    state_dir: Path | None = None,
) -> FaultRun:
    """Inject a fault, wait, and undo it; undone too when interrupted, or at the next start after a kill -9.

    Parameters
    ----------
    name
        Of the fault.
    duration_s
        Seconds from onset on.
    intensity
        1 is the usual strength; more is stronger.
    workload
        The workload to hit; the one that runs on this machine if not given.
    stop
        Ends the fault early when set.
    state_dir
        The lab's state directory; the default one if not given.

    Returns
    -------
    FaultRun
        With the times at which the fault took effect and at which all of it was undone.

    Raises
    ------
    UsageError
        If there is no such fault, or duration or intensity are not above zero.
    UnavailableError
        If this machine, this user or the present workload does not allow it, or another fault is on.
    """
    fault = _find(name)
    if not 0 < duration_s < float("inf"):
        raise UsageError(f"a fault cannot last {duration_s} s")
    if not 0 < intensity <= 10:
        raise UsageError(f"intensity {intensity} is not above 0 and at most 10")
    reason = fault.why_not()
    if reason:
        raise UnavailableError(f"{name} cannot be injected here: {reason}")
    place = lab_place(state_dir)
    with (
        take_lock(place.state_dir / "inject.lock", "another fault is being injected"),
        termination_unwinds(),
    ):
        clean_up(state_dir)
        target = workload or find_workload(state_dir)
        if fault.needs_workload and target is None:
            raise UnavailableError(
                f"{name} needs the lab's workload, and none is running: reveal lab workload"
            )
        journal = UndoJournal(place)
        folder = Path(
            tempfile.mkdtemp(prefix="reveal-fault-", dir=target.files if target else scratch_parent())
        )
        injection = Injection(place, journal, target, duration_s, intensity, folder)
        try:
            journal.add(UndoAction("remove-tree", (str(folder),), f"removed {folder}"))
            try:
                how = fault.begin(injection)
            except OSError as error:
                raise UnavailableError(f"{name} could not be injected: {error}") from None
            onset = datetime.now(UTC)
            began = _look(target)
            _wait(duration_s, stop)
            ended = _look(target)
            for child in injection.children:
                if child.process.poll() is not None:
                    raise UnavailableError(f"{name} ended early: {child.last_words()}")
        finally:
            try:
                for child in injection.children:
                    child.stop()
            finally:
                journal.undo()
        end = datetime.now(UTC)
        rate = pace(began[1], ended[1], ended[0] - began[0]) if began and ended else None
        return FaultRun(name, onset, end, how, rate)


def _look(workload: WorkloadState | None) -> tuple[float, Progress] | None:
    """Return a time of a clock that does not step, and how far the workload was then."""
    if workload is None:
        return None
    try:
        return time.monotonic(), workload.progress()
    except FileNotFoundError:  # it has ended
        return None


def _wait(seconds: float, stop: threading.Event | None) -> None:
    if stop is not None:
        stop.wait(seconds)
    else:
        time.sleep(seconds)
