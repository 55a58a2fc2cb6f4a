"""Faults of storage: a storm of writeback."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.faults.base import Injection

BUDGET_BYTES = 1 << 30
"""Most that a storm writes at intensity 1, spread over four fifths of the fault."""
SPAN_BYTES = 256 << 20
_IN_MEMORY = ("tmpfs", "ramfs")


def file_system(path: Path) -> str:
    """Return the type of the file system that a path is on, ``ext4``."""
    best, kind = "", ""
    text = path.resolve()
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, folder, found, *_ = line.split()
        if text.is_relative_to(folder) and len(folder) >= len(best):
            best, kind = folder, found
    return kind


def scratch_parent() -> Path:
    """Return where scratch files go when no workload runs: a directory that is on a disk, if there is one."""
    candidates = [Path("/var/tmp"), Path(tempfile.gettempdir()), Path.cwd()]
    for path in candidates:
        if path.is_dir() and file_system(path) not in _IN_MEMORY:
            return path
    return candidates[0]


def storm_writeback(injection: Injection) -> str:
    """Write large files through the page cache and push them to the disk, from a process outside the job."""
    kind = file_system(injection.folder)
    if kind in _IN_MEMORY:
        raise UnavailableError(f"{injection.folder} is on {kind}, which writes nothing back to a disk")
    budget = min(round(BUDGET_BYTES * injection.intensity), 2 * BUDGET_BYTES)
    free = shutil.disk_usage(injection.folder).free
    if free < 2 * SPAN_BYTES:
        raise UnavailableError(
            f"{injection.folder} has {free >> 20} MiB free, a storm needs {2 * SPAN_BYTES >> 20}"
        )
    options = (
        "--bytes",
        str(budget),
        "--seconds",
        str(injection.duration_s * 0.8),
        "--span",
        str(SPAN_BYTES),
    )
    injection.prepare(
        "write", "--file", str(injection.folder / "storm"), *options, cgroup=injection.neighbour()
    ).go()
    return f"up to {budget >> 20} MiB of buffered writes"
