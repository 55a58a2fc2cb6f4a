"""The running ``perf stat`` and the pipe it writes to."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

CHILD = Path(__file__).with_name("perf_child.py")
NICE = 5
"""Its intervals may come late on an overrun host, but it measures their length itself."""
PIPE_BYTES = 1 << 20
"""Wanted size of the pipe, so that perf never waits for us in the middle of an interval's lines."""
MAX_READ = 8 << 20
"""Most bytes taken at one read; more means that something else than perf writes there."""
SILENCE_S = 10.0
"""A perf that has said nothing for so long, or for ten of its intervals, hangs and is started anew."""
FIRST_BACKOFF_S = 1.0
MAX_BACKOFF_S = 300.0
STEADY_S = 60.0
"""One that ran so long was well: its end is no reason to wait longer before the next start."""
END_S = 1.0


class PerfStream:
    """Text that a command writes, without ever waiting for it.

    The command is started at the first read, in a process group of its own; it ends with the agent, and is
    started again, ever more rarely, when it ends or falls silent.

    Parameters
    ----------
    command
        What to run; ``{fd}`` in an argument stands for the number of the file handle to write to. What it
        writes to standard error comes along.
    interval_s
        How often it is meant to write.
    clock
        Seconds on a clock that does not step.

    Attributes
    ----------
    path
        What it is called in errors.
    starts
        How often it was started.
    """

    def __init__(
        self, command: Sequence[str], interval_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.command = list(command)
        self.silence_s = max(SILENCE_S, 10 * interval_s)
        self.clock = clock
        self.path = "perf stat"
        self.starts = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.fd = -1
        self.backoff_s = FIRST_BACKOFF_S
        self.not_before = 0.0
        self.started = 0.0
        self.heard = 0.0
        self.reason = ""

    def read(self) -> tuple[int, bytes]:
        """Return what was written since the last read, with the number of the start that it belongs to.

        Raises
        ------
        OSError
            If the command cannot be started, has ended, or has been silent for too long.
        """
        if self.process is None:
            self._start()
        data, ended = self._take()
        now = self.clock()
        if data:
            self.heard = now
        elif ended:
            self._give_up(now, f"ended{self._code()}{self._last_words()}")
        elif now - self.heard > self.silence_s:
            self._give_up(now, f"said nothing for {self.silence_s:g} s and was stopped")
        if data:
            self.reason = self._words(data) or self.reason
        return self.starts, data

    def close(self) -> None:
        """End the command; one that does not heed the signals is left to the kernel."""
        process, self.process = self.process, None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if process is None:
            return
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, sign)
            except (ProcessLookupError, PermissionError):
                process.send_signal(sign)
            try:
                process.wait(END_S)
                return
            except subprocess.TimeoutExpired:
                continue

    def _start(self) -> None:
        now = self.clock()
        if now < self.not_before:
            raise OSError(None, f"{self.reason}; it is started again in a while")
        reading, writing = os.pipe2(os.O_CLOEXEC)
        try:
            os.set_blocking(reading, False)
            _widen(writing)
            arguments = [argument.replace("{fd}", str(writing)) for argument in self.command]
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(CHILD), str(os.getpid()), str(NICE), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=writing,
                pass_fds=(writing,),
                start_new_session=True,
                env=plain_environment(),
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self.fd = reading
        self.starts += 1
        self.started = self.heard = now
        self.reason = ""

    def _take(self) -> tuple[bytes, bool]:
        """Return what lies in the pipe, and whether nobody writes to it any more."""
        pieces: list[bytes] = []
        size = 0
        while size < MAX_READ:
            try:
                piece = os.read(self.fd, 1 << 18)
            except BlockingIOError:
                return b"".join(pieces), False
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces), False

    def _give_up(self, now: float, reason: str) -> None:
        if now - self.started > STEADY_S:
            self.backoff_s = FIRST_BACKOFF_S
        self.not_before = now + self.backoff_s
        self.backoff_s = min(2 * self.backoff_s, MAX_BACKOFF_S)
        self.close()
        self.reason = reason
        raise OSError(None, reason)

    def _code(self) -> str:
        code = self.process.poll() if self.process is not None else None
        return "" if code is None else f" with code {code}" if code >= 0 else f" by signal {-code}"

    def _last_words(self) -> str:
        return f": {self.reason}" if self.reason else ""

    @staticmethod
    def _words(data: bytes) -> str:
        """Return the last line that is no sample, cut short: what perf says before it ends."""
        lines = [line for line in data.split(b"\n") if line.strip() and not line.lstrip().startswith(b"{")]
        return lines[-1].decode("utf-8", "replace").strip()[:120] if lines else ""


def plain_environment() -> dict[str, str]:
    """Return an environment in which perf writes points in numbers and heeds no one's own settings."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PERF_", "LANG"))
    }
    return {**kept, "LC_ALL": "C", "PERF_CONFIG": "/dev/null"}


def _widen(fd: int) -> None:
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except PermissionError:
        return  # over the user's limit of pipe memory: the usual size must do
