"""A rank's progress in a small shared file: steps finished, the phase it is in, and time without work."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import NamedTuple

PHASES = ("start", "train", "checkpoint", "evaluate", "serve")
_RECORD = struct.Struct("=QQd")


class Progress(NamedTuple):
    """Steps finished, the phase, and the seconds in which the job waited for somebody to ask it."""

    steps: int
    phase: str
    idle_s: float


class ProgressWriter:
    """Writes a rank's progress; each field is one aligned store, so a reader never sees half of one."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_RECORD.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _RECORD.size)

    def set(self, steps: int, phase: str, idle_s: float = 0.0) -> None:
        """Publish the number of steps finished, one of `PHASES`, and the time without work."""
        _RECORD.pack_into(self._map, 0, steps, PHASES.index(phase), idle_s)


def read_progress(path: Path) -> Progress:
    """Return a rank's progress.

    Raises
    ------
    FileNotFoundError
        If the rank has not begun, or its workload has ended.
    """
    data = path.read_bytes()
    if len(data) < _RECORD.size:
        return Progress(0, PHASES[0], 0.0)
    steps, phase, idle_s = _RECORD.unpack(data)
    return Progress(int(steps), PHASES[phase], float(idle_s))


def pace(before: Progress, after: Progress, seconds: float) -> float | None:
    """Return steps per second of the time that the job had work; None if it never had any.

    Parameters
    ----------
    before, after
        Two looks at one rank.
    seconds
        Time between them.

    >>> pace(Progress(10, "serve", 1.0), Progress(40, "serve", 6.0), 15.0)
    3.0
    """
    worked = seconds - (after.idle_s - before.idle_s)
    return (after.steps - before.steps) / worked if worked > 0 else None
