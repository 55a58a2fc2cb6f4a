"""What a fault is, and what it is given while it is injected."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.cgroups import Cgroup, find_cgroup
from reveal_core.lab.journal import UndoAction, UndoJournal
from reveal_core.lab.place import LabPlace
from reveal_core.lab.processes import Child, wait_ready
from reveal_core.lab.state import WorkloadState


@dataclass(frozen=True)
class FaultInfo:
    """A fault as people see it in a list.

    Attributes
    ----------
    name, subsystem, title, description
        What it is called, which subsystem it hits, and what it does.
    available, reason
        Whether this machine and user can inject it, and in one line why not.
    causes
        Ids of causes that name it rightly.
    same_signals
        Faults that a host without hardware counters cannot tell from it.
    tools
        What it is done with.
    needs_workload
        Whether it can only be injected while a workload runs.
    intensity
        What the intensity scales.
    by_name
        Whether it is only injected when somebody asks for it by name: it touches the whole machine.
    """

    name: str
    subsystem: str
    title: str
    description: str
    available: bool
    reason: str
    causes: tuple[str, ...]
    same_signals: tuple[str, ...]
    tools: str
    needs_workload: bool
    intensity: str = ""
    by_name: bool = False


@dataclass(frozen=True)
class FaultRun:
    """A fault that was injected.

    Attributes
    ----------
    name
        Of the fault.
    onset, end
        When it took effect and when it was undone, UTC.
    how
        What was done, with its figures.
    pace
        Steps a second of the workload while it was on, see `reveal_core.lab.progress.pace`; None without a
        workload.
    """

    name: str
    onset: datetime
    end: datetime
    how: str
    pace: float | None = None


@dataclass
class Injection:
    """What a fault gets: where, how long, how strongly, and the means to do it so that it is undone.

    Attributes
    ----------
    place, journal
        The lab's place, and the journal to note undo actions in before anything is done.
    workload
        The running workload, or None.
    duration_s, intensity
        Seconds that the fault will last; 1 is the usual strength.
    folder
        Scratch directory for logs and files, on the workload's disk if there is one.
    """

    place: LabPlace
    journal: UndoJournal
    workload: WorkloadState | None
    duration_s: float
    intensity: float
    folder: Path
    children: list[Child] = field(default_factory=list)

    def need_workload(self) -> WorkloadState:
        """Return the workload.

        Raises
        ------
        UnavailableError
            If none runs.
        """
        if self.workload is None:
            raise UnavailableError(
                "this fault needs the lab's workload, and none is running: reveal lab workload"
            )
        return self.workload

    def job(self) -> Cgroup:
        """Return the workload's cgroup.

        Raises
        ------
        UnavailableError
            If no workload runs, or it has no cgroup of its own.
        """
        name = self.need_workload().job
        if not name:
            raise UnavailableError(
                "this fault needs a workload in a cgroup of its own, and it was started without one"
            )
        return find_cgroup(name)

    def neighbour(self) -> Cgroup | None:
        """Return the cgroup beside the workload's that competitors run in, or None if there is none."""
        if self.workload is None or not self.workload.neighbour:
            return None
        return find_cgroup(self.workload.neighbour)

    def prepare(
        self, kind: str, *options: str, copies: int = 1, cgroup: Cgroup | None = None, netns: str = ""
    ) -> Child:
        """Start a competitor, which waits for its ``go``; it is stopped, or noted to be ended, with the
        fault.

        Parameters
        ----------
        kind
            One of the competitors' kinds.
        *options
            Its own arguments.
        copies
            Number of processes.
        cgroup
            Cgroup that all of them run in.
        netns
            Network namespace that all of them run in.
        """
        arguments = [kind, *options, "--copies", str(copies)]
        if netns:
            arguments += ["--netns", netns]
        for folder in cgroup.distinct_folders() if cgroup is not None else ():
            arguments += ["--cgroup", str(folder / "cgroup.procs")]
        log = self.folder / f"{kind}-{len(self.children)}.log"
        child = Child("reveal_core.lab.competitor", arguments, log, {"OPENBLAS_NUM_THREADS": "1"})
        self.children.append(child)
        ids = (str(child.id.pid), str(child.id.start))
        self.journal.add(
            UndoAction("end-process", ids, f"ended the competitor {kind} (process {child.id.pid})")
        )
        wait_ready([child])
        return child

    def compete(self, kind: str, *options: str, copies: int = 1) -> None:
        """Start competitors at once, beside the job and with the weight of so many ordinary processes.

        Parameters
        ----------
        kind, *options, copies
            As `prepare` takes them.
        """
        neighbour = self.neighbour()
        if neighbour is not None:
            self.set_share(neighbour, copies)
        self.prepare(kind, *options, copies=copies, cgroup=neighbour).go()

    def namespace(self) -> str:
        """Return the network namespace of the job's second rank.

        Raises
        ------
        UnavailableError
            If no workload runs, or its ranks talk over loopback.
        """
        workload = self.need_workload()
        if workload.transport != "namespaces":
            raise UnavailableError("this fault needs a workload with a network namespace of its own")
        return workload.namespace

    def set_share(self, group: Cgroup, tasks: int) -> None:
        """Give a cgroup the CPU weight of so many ordinary processes; by itself it weighs as much as one."""
        if group.version == 1:
            self.journal.change_file(group.folders["cpu"] / "cpu.shares", str(1024 * tasks))
        else:
            self.journal.change_file(group.folders["cpu"] / "cpu.weight", str(min(100 * tasks, 10_000)))


@dataclass(frozen=True)
class Fault:
    """A fault: its description, why it may be impossible, and how it is begun.

    Attributes
    ----------
    why_not
        Returns in one line why this machine or user cannot inject it, or ``""``.
    begin
        Makes it take effect, with every undo action noted in the journal first; returns what it did in words.
    intensity
        What the intensity scales.
    """

    name: str
    subsystem: str
    title: str
    description: str
    causes: tuple[str, ...]
    why_not: Callable[[], str]
    begin: Callable[[Injection], str]
    intensity: str
    same_signals: tuple[str, ...] = ()
    tools: str = "none"
    needs_workload: bool = False
    by_name: bool = False

    def info(self) -> FaultInfo:
        """Return the fault as a line of a list, checked against this machine."""
        reason = self.why_not()
        return FaultInfo(
            self.name,
            self.subsystem,
            self.title,
            self.description,
            not reason,
            reason,
            self.causes,
            self.same_signals,
            self.tools,
            self.needs_workload,
            self.intensity,
            self.by_name,
        )


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def always() -> str:
    """Return that nothing stands in a fault's way."""
    return ""


def needs_root() -> str:
    """Return why a kernel setting cannot be changed, or ``""``."""
    return "" if os.geteuid() == 0 else "needs root to change kernel settings"
