"""Child processes of the lab: known by pid and start time, and gone when their parent is gone.

A child watches its standard input and leaves when that ends, which the kernel brings about however the parent
dies. ``PR_SET_PDEATHSIG`` would not do: it fires when the *thread* that started the child ends, and the lab
may be driven from a pool of threads.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from reveal_core.errors import UnavailableError

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ProcessId:
    """A process, told from a later one that got the same number by its start time.

    ``start`` is field 22 of ``/proc/PID/stat``: clock ticks since boot.
    """

    pid: int
    start: int

    def alive(self) -> bool:
        """Return whether this very process exists and is no zombie."""
        found = _stat(self.pid)
        return found is not None and found[1] == self.start and found[0] not in "ZX"

    def end(self, patience_s: float = 5.0) -> bool:
        """End the process with SIGKILL and wait until it is gone.

        Returns
        -------
        bool
            False if it was not there any more.

        Raises
        ------
        UnavailableError
            If it is still there after ``patience_s`` seconds.
        """
        if not self.alive():
            return False
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        deadline = time.monotonic() + patience_s
        while self.alive():
            if time.monotonic() > deadline:
                raise UnavailableError(f"process {self.pid} does not end after SIGKILL")
            time.sleep(0.01)
        return True


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    rest = text.rpartition(")")[2].split()  # the name before it may hold blanks and brackets
    return rest[0], int(rest[19])


def identify(pid: int) -> ProcessId:
    """Return a running process with its start time.

    Raises
    ------
    ProcessLookupError
        If there is no such process.
    """
    found = _stat(pid)
    if found is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return ProcessId(pid, found[1])


def bind(process: ProcessId, cores: set[int]) -> None:
    """Let all threads of a process run on some cores only.

    Raises
    ------
    OSError
        If the right is missing, or none of the cores exists.
    """
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(ProcessLookupError):  # a thread that has just ended
            os.sched_setaffinity(int(task.name), cores)


def boot_id() -> str:
    """Return the kernel's id of this boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def free_port() -> int:
    """Return a TCP port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """A Python module run as a child that first says ``ready`` and starts its work when told.

    Parameters
    ----------
    module
        Name of the module, run as ``python -m``.
    arguments
        Its arguments.
    log
        File that takes its standard error.
    environment
        Variables to set beside the inherited ones.
    """

    def __init__(
        self, module: str, arguments: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = module.rpartition(".")[2]
        self.log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})},
                cwd=Path(__file__).parents[2],
                start_new_session=True,  # Ctrl-C is for the parent, which then stops its children
            )
        self.id = identify(self.process.pid)

    def last_words(self) -> str:
        """Return the last line that the child wrote to its standard error."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def go(self) -> None:
        """Tell the child to begin."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise UnavailableError(f"the lab's {self.name} ended early: {self.last_words()}") from None

    def stop(self, patience_s: float = 10.0) -> None:
        """Close the child's standard input, wait for it to leave, and end it by force if it does not."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # it has left already
            self.process.stdin.close()
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def wait_ready(children: Sequence[Child], timeout_s: float = 30.0) -> None:
    """Wait until all children say that they are ready.

    Raises
    ------
    UnavailableError
        If one ends or stays silent instead; the message holds the last line of its standard error.
    """
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as waiting:
        for child in children:
            assert child.process.stdout is not None
            waiting.register(child.process.stdout, selectors.EVENT_READ, child)
        while waiting.get_map():
            events = waiting.select(max(deadline - time.monotonic(), 0.0))
            if not events:
                raise UnavailableError(f"the lab's {children[0].name} is not ready after {timeout_s:g} s")
            for key, _ in events:
                child = key.data
                if os.read(key.fd, 64).strip() != b"ready":
                    raise UnavailableError(f"the lab's {child.name} did not start: {child.last_words()}")
                waiting.unregister(key.fd)


@contextmanager
def termination_unwinds() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, as Ctrl-C does, so that what was done is undone.

    Only the main thread can do so, and only signals that nobody handles are taken over; in other threads this
    does nothing, and what a killed process leaves behind is undone at the next start.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def unwind(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, unwind)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def die_with_parent(parent: int) -> None:
    """Run in a forked child: let the kernel end it when the thread that forked it ends.

    Parameters
    ----------
    parent
        The process that forked it, which may be gone already.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def leave_with_parent(started: threading.Event, before: Callable[[], None] | None = None) -> None:
    """Run in a child: wait for ``go`` on standard input, and end the process when standard input ends.

    Parameters
    ----------
    started
        Set at ``go``.
    before
        Called before the process ends.
    """

    def watch() -> None:
        while True:
            text = os.read(0, 64)
            if not text:
                if before is not None:
                    before()
                os._exit(0)
            started.set()

    threading.Thread(target=watch, daemon=True, name="parent").start()
