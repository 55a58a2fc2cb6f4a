"""The faults that the lab can inject: the list, and how one is injected and undone."""

from __future__ import annotations

import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.cgroups import why_no_cgroups
from reveal_core.lab.faults.base import Fault, FaultInfo, FaultRun, Injection, always
from reveal_core.lab.faults.cpu import contend, limit_quota
from reveal_core.lab.faults.memory import (
    contend_bandwidth,
    press_cgroup,
    reserve_huge_pages,
    storm_faults,
    why_no_huge_pages,
)
from reveal_core.lab.faults.network import gather_interrupts, lose_packets, why_no_imbalance, why_no_loss
from reveal_core.lab.faults.storage import scratch_parent, storm_writeback
from reveal_core.lab.journal import UndoAction, UndoJournal, clean_up
from reveal_core.lab.place import lab_place
from reveal_core.lab.processes import termination_unwinds
from reveal_core.lab.workload import WorkloadState, find_workload, take_lock

FAULTS: tuple[Fault, ...] = (
    Fault(
        "cpu-quota",
        "cpu",
        "CPU quota on the job",
        "The job's cgroup gets a CFS quota well below what it wants.",
        ("cpu-quota",),
        why_no_cgroups,
        limit_quota,
        needs_workload=True,
    ),
    Fault(
        "packet-loss",
        "network",
        "Packets lost between the ranks",
        "Packets are dropped at random: by nftables between namespaces, else by socket filters.",
        ("packet-loss",),
        why_no_loss,
        lose_packets,
        tools="none; nftables is spoken to over netlink",
        needs_workload=True,
    ),
    Fault(
        "page-fault-storm",
        "memory",
        "Storm of page faults",
        "Processes map, touch and give back memory without end.",
        ("page-fault-storm",),
        always,
        storm_faults,
    ),
    Fault(
        "writeback-storm",
        "storage",
        "Storm of writeback",
        "Another process writes large files through the page cache and pushes them to the disk.",
        ("writeback-storm",),
        always,
        storm_writeback,
    ),
    Fault(
        "cpu-contention",
        "cpu",
        "Competitors for the CPU",
        "Busy processes outside the job, twice as many as there are cores.",
        ("cpu-contention",),
        always,
        contend,
        same_signals=("memory-bandwidth-contention",),
    ),
    Fault(
        "cgroup-memory-pressure",
        "memory",
        "Memory limit of a cgroup reached",
        "The job's cgroup is limited to little more than what it cannot give up, and reads far more.",
        ("cgroup-memory-pressure",),
        why_no_cgroups,
        press_cgroup,
    ),
    Fault(
        "memory-bandwidth-contention",
        "memory",
        "Competitors for memory bandwidth",
        "Processes copy large arrays. Without hardware counters this looks like competitors for the CPU.",
        ("memory-bandwidth-contention", "cpu-contention"),
        always,
        contend_bandwidth,
        same_signals=("cpu-contention",),
    ),
    Fault(
        "huge-pages-reserved",
        "memory",
        "Huge pages set aside",
        "vm.nr_hugepages takes 1 GiB out of use.",
        ("huge-pages-reserved",),
        why_no_huge_pages,
        reserve_huge_pages,
    ),
    Fault(
        "interrupts-on-one-core",
        "cpu",
        "Interrupts forced onto one core",
        "All interrupts that can move and received packets go to core 0, under many small packets.",
        ("interrupt-imbalance",),
        why_no_imbalance,
        gather_interrupts,
        needs_workload=True,
    ),
)
"""Every fault, the one that shows most first."""


def list_faults() -> list[FaultInfo]:
    """Return every fault, with whether this machine and user can inject it."""
    return [fault.info() for fault in FAULTS]


def demo_faults(count: int = 3) -> list[str]:
    """Return names of faults to show: available here, the strongest first, of different subsystems as far as
    they go.

    Parameters
    ----------
    count
        How many.
    """
    possible = [info for info in list_faults() if info.available]
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
            _wait(duration_s, stop)
        finally:
            try:
                for child in injection.children:
                    child.stop()
            finally:
                journal.undo()
        return FaultRun(name, onset, datetime.now(UTC), how)


def _wait(seconds: float, stop: threading.Event | None) -> None:
    if stop is not None:
        stop.wait(seconds)
    else:
        time.sleep(seconds)
