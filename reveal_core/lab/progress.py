"""A rank's progress in a small shared file: steps finished, and the phase it is in."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

PHASES = ("start", "train", "checkpoint", "evaluate")
_RECORD = struct.Struct("=QQ")


class ProgressWriter:
    """Writes a rank's progress; each field is one aligned store, so a reader never sees half of one."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(_RECORD.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _RECORD.size)

    def set(self, steps: int, phase: str) -> None:
        """Publish the number of steps finished, and one of `PHASES`."""
        _RECORD.pack_into(self._map, 0, steps, PHASES.index(phase))


def read_progress(path: Path) -> tuple[int, str]:
    """Return steps finished and phase.

    Raises
    ------
    FileNotFoundError
        If the rank has not begun, or its workload has ended.
    """
    data = path.read_bytes()
    if len(data) < _RECORD.size:
        return 0, PHASES[0]
    steps, phase = _RECORD.unpack(data)
    return int(steps), PHASES[phase]
