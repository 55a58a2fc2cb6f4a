"""The lab's workload: two ranks that train together, with the phases that real jobs have."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.cgroups import Cgroup, make_cgroup, why_no_cgroups
from reveal_core.lab.datafiles import write_batches
from reveal_core.lab.journal import UndoAction, UndoJournal, clean_up
from reveal_core.lab.lossfilter import why_no_filter
from reveal_core.lab.namespaces import why_no_private_namespace
from reveal_core.lab.network import make_pair, why_no_namespaces
from reveal_core.lab.place import LabPlace, lab_place
from reveal_core.lab.processes import Child, identify, termination_unwinds, wait_ready
from reveal_core.lab.state import Transport
from reveal_core.lab.state import WorkloadState as WorkloadState
from reveal_core.lab.state import find_workload as find_workload
from reveal_core.lab.variants import DEFAULT_VARIANT, VARIANTS

NEEDED_BYTES = 400 << 20
"""Free space that the workload's files need, with something to spare."""
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Workload:
    """An ML-like job of two ranks; a context manager that starts and stops it.

    Each rank reads mini-batches from disk, trains a small network on one core, and exchanges gradients with
    the other at every step. Rank 0 writes a checkpoint with fsync about every 8 s, and about every 15 s both
    evaluate for some 2 s. Other variants write more, or answer requests that come in bursts.
    Rank 1 runs in a network namespace of its own where that is possible, and both in a cgroup of their own.

    Parameters
    ----------
    directory
        Where a scratch directory for up to 200 MB of files is made; it must be on the disk that faults are to
        hit.
    seed
        Seed of data, weights and jitter.
    variant
        What the job is like, one of `reveal_core.lab.variants.VARIANTS`.
    namespaces
        True: a network namespace or an error; False: loopback; None: whichever is possible.
    state_dir
        The lab's state directory; the default one if not given.
    """

    def __init__(
        self,
        directory: Path,
        *,
        seed: int = 0,
        variant: str = DEFAULT_VARIANT,
        namespaces: bool | None = None,
        state_dir: Path | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.seed = seed
        self.variant = variant
        self.namespaces = namespaces
        self.transport: Transport = "loopback"
        self.reason = ""
        self.state: WorkloadState | None = None
        self._state_dir = state_dir
        self._ranks: list[Child] = []
        self._private = False
        self._signals = ExitStack()
        self._journal: UndoJournal | None = None
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Workload:
        with ExitStack() as stack:
            stack.enter_context(termination_unwinds())
            self.start()
            self._signals = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._signals:
            self.stop()

    def start(self) -> None:
        """Undo what earlier runs left, write the files, start both ranks, and return once they train.

        Raises
        ------
        UsageError
            If the directory or the variant does not exist.
        UnavailableError
            If a workload runs already, space or a right is missing, or a rank does not start.
        """
        if not self.directory.is_dir():
            raise UsageError(f"{self.directory} is no directory")
        names = [variant.name for variant in VARIANTS]
        if self.variant not in names:
            raise UsageError(
                f"there is no variant {self.variant!r} of the workload; there are {', '.join(names)}"
            )
        free = shutil.disk_usage(self.directory).free
        if free < NEEDED_BYTES:
            raise UnavailableError(
                f"{self.directory} has {free >> 20} MiB free, the workload needs {NEEDED_BYTES >> 20}"
            )
        place = lab_place(self._state_dir)
        self._lock = take_lock(place.state_dir / "workload.lock", "a lab workload is running already")
        try:
            clean_up(self._state_dir)
            self._journal = UndoJournal(place)
            self._start(place, self._journal)
        except BaseException:
            self.stop()
            raise

    def _start(self, place: LabPlace, journal: UndoJournal) -> None:
        try:
            files = self._scratch(journal)
        except OSError as error:
            raise UnavailableError(
                f"{self.directory} cannot take the workload's files: {error.strerror}"
            ) from None
        run = place.state_dir / "run"
        journal.add(UndoAction("remove-tree", (str(run),), f"removed {run}"))
        shutil.rmtree(run, ignore_errors=True)
        run.mkdir(mode=0o700)
        self._choose_transport(place, journal)
        job, neighbour = self._make_cgroups(place, journal)
        apart = self.transport == "namespaces"
        host = place.addresses[0] if apart else "127.0.0.1"
        for rank in (0, 1):
            arguments = [
                "--rank",
                str(rank),
                "--files",
                str(files),
                "--run",
                str(run),
                "--seed",
                str(self.seed),
            ]
            arguments += ["--variant", self.variant]
            arguments += ["--host", host, *(["--netns", place.name] if apart and rank == 1 else [])]
            if self._private:
                arguments += ["--private", str(self._ranks[0].id.pid if rank else os.getpid())]
            child = Child("reveal_core.lab.rank", arguments, run / f"rank-{rank}.log", _ONE_THREAD)
            self._ranks.append(child)
            ids = (str(child.id.pid), str(child.id.start))
            journal.add(UndoAction("end-process", ids, f"ended rank {rank} (process {child.id.pid})"))
            if job is not None:
                job.enter(child.id.pid)
        wait_ready(self._ranks)
        for child in self._ranks:
            child.go()
        self.state = WorkloadState(
            owner=identify(os.getpid()),
            ranks=tuple(child.id for child in self._ranks),
            files=files,
            run_dir=run,
            transport=self.transport,
            reason=self.reason,
            namespace=place.name if apart else "",
            links=place.links if apart else (),
            addresses=place.addresses if apart else ("127.0.0.1", "127.0.0.1"),
            job=job.name if job is not None else "",
            neighbour=neighbour.name if neighbour is not None else "",
            started=datetime.now(UTC).isoformat(),
            variant=self.variant,
        )
        journal.add(UndoAction("remove-file", (str(place.state_file),), f"removed {place.state_file}"))
        partial = place.state_file.with_suffix(".new")
        partial.write_text(json.dumps(asdict(self.state), default=str), encoding="utf-8")
        partial.rename(place.state_file)

    def _scratch(self, journal: UndoJournal) -> Path:
        files = Path(tempfile.mkdtemp(prefix="reveal-workload-", dir=self.directory)).absolute()
        journal.add(UndoAction("remove-tree", (str(files),), f"removed {files}"))
        write_batches(files, self.seed)
        return files

    def _choose_transport(self, place: LabPlace, journal: UndoJournal) -> None:
        self.transport, self.reason = (
            "loopback",
            "asked for" if self.namespaces is False else why_no_namespaces(),
        )
        if not self.reason:
            journal.add(
                UndoAction("delete-namespace", (place.name,), f"deleted the network namespace {place.name}")
            )
            journal.add(UndoAction("delete-link", (place.links[0],), f"deleted the link {place.links[0]}"))
            try:
                make_pair(place)
            except OSError as error:
                self.reason = f"the network namespace could not be made: {error}"
            else:
                self.transport = "namespaces"
        if self.namespaces and self.transport == "loopback":
            raise UnavailableError(f"no network namespace for the workload: {self.reason}")
        if self.transport == "loopback" and why_no_filter():
            # only where the kernel lets nobody else lose packets of its own
            refusal = why_no_private_namespace()
            self._private = not refusal
            self.reason += f"; {refusal}" if refusal else "; both ranks share a private one"

    def _make_cgroups(self, place: LabPlace, journal: UndoJournal) -> tuple[Cgroup | None, Cgroup | None]:
        if why_no_cgroups():
            return None, None
        groups: list[Cgroup] = []
        for part in ("job", "neighbour"):
            name = f"{place.name}/{part}"
            journal.add(UndoAction("remove-cgroup", (name,), f"removed the cgroup {name}"))
            try:
                groups.append(make_cgroup(name))
            except OSError as error:
                raise UnavailableError(f"the cgroup {name} could not be made: {error}") from None
        return groups[0], groups[1]

    def stop(self) -> None:
        """Stop both ranks, and undo everything that `start` did."""
        try:
            for child in reversed(self._ranks):
                child.stop()
        finally:
            self._ranks = []
            self._undo()

    def _undo(self) -> None:
        try:
            if self._journal is not None:
                self._journal.undo()
        finally:
            self._journal = None
            self.state = None
            if self._lock is not None:
                self._lock.close()
            self._lock = None

    @property
    def running(self) -> bool:
        """Whether both ranks are alive."""
        return bool(self._ranks) and all(child.id.alive() for child in self._ranks)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the ranks."""
        return tuple(child.id.pid for child in self._ranks)

    def steps(self) -> int:
        """Return the steps finished so far; 0 when it does not run."""
        return self.state.steps() if self.state is not None else 0


def take_lock(path: Path, refusal: str) -> IO[bytes]:
    """Take a lock that the kernel gives back however the process ends.

    Raises
    ------
    UnavailableError
        With ``refusal``, if another holds it.
    """
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise UnavailableError(f"{refusal} ({path} is held)") from None
    return file
