"""Faults of storage: a disk under writes, reads or flushes, slow reads, and input that does not come."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.cgroups import why_no_cgroups
from reveal_core.lab.control import request_stall
from reveal_core.lab.faults.base import Fault, Injection, always
from reveal_core.lab.gate import MOST, PERIOD_S
from reveal_core.lab.journal import UndoAction

BUDGET_BYTES = 1 << 30
"""Most that a storm writes at intensity 1, spread over four fifths of the fault."""
SPAN_BYTES = 256 << 20
READERS, MOST_READERS = 6, 32
SLOW_RATE = 6 << 20
"""Bytes a second that the job may read; it wants about 20 MiB."""
STALLED_SHARE = 0.6
SYNCERS = 2
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


def _need_disk(path: Path) -> None:
    """Refuse a folder that is on no disk."""
    kind = file_system(path)
    if kind in _IN_MEMORY:
        raise UnavailableError(f"{path} is on {kind}, which has no disk below it")


def storm_writeback(injection: Injection) -> str:
    """Write large files through the page cache and push them to the disk, from a process outside the job."""
    _need_disk(injection.folder)
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


def saturate_reads(injection: Injection) -> str:
    """Read the job's own input files, past the page cache and several at a time, from outside the job."""
    files = injection.need_workload().files
    _need_disk(files)
    try:
        os.close(os.open(files / "batch-000", os.O_RDONLY | os.O_DIRECT))
    except OSError as error:
        raise UnavailableError(f"{files} cannot be read past the page cache: {error.strerror}") from None
    count = max(1, min(round(READERS * injection.intensity), MOST_READERS))
    injection.compete("scan", "--file", str(files), "--count", str(count))
    return f"{count} threads that read the disk past the page cache"


def throttle_reads(injection: Injection) -> str:
    """Let the job's cgroup read no more from its disk than a third of what it wants."""
    job = injection.job()
    device = block_device(injection.need_workload().files)
    rate = max(1 << 16, round(SLOW_RATE / injection.intensity))
    if job.version == 1:
        path = job.folders["blkio"] / "blkio.throttle.read_bps_device"
        injection.journal.change_file(path, f"{device} {rate}", restore=f"{device} 0")
    else:
        path = job.folders["blkio"] / "io.max"
        injection.journal.change_file(path, f"{device} rbps={rate}", restore=f"{device} rbps=max")
    return f"{job.name} may read {rate / 2**20:.1f} MiB a second from device {device}"


def block_device(path: Path) -> str:
    """Return the disk that a path is on as ``MAJOR:MINOR``; limits are for disks, not for partitions.

    Raises
    ------
    UnavailableError
        If its file system is on no single disk.
    """
    number = path.stat().st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    folder = Path("/sys/dev/block") / device
    if not folder.exists():
        raise UnavailableError(f"{path} is on {file_system(path)}, which has no single disk below it")
    if (folder / "partition").exists():
        return (folder.resolve().parent / "dev").read_text(encoding="ascii").strip()
    return device


def stall_loader(injection: Injection) -> str:
    """Hold the job's input back for stretches, as a data loader that cannot keep up."""
    workload = injection.need_workload()
    share = min(STALLED_SHARE * injection.intensity, MOST)
    for rank in range(len(workload.ranks)):
        socket = workload.run_dir / f"rank-{rank}.sock"
        injection.journal.add(UndoAction("end-stall", (str(socket),), f"let rank {rank} have its input"))
        # its own end, should nobody be left to end it
        request_stall(socket, share, injection.duration_s + 5.0)
    return f"no input for {share * PERIOD_S:.2f} s of each {PERIOD_S} s"


def storm_syncs(injection: Injection) -> str:
    """Write single blocks and wait for the disk after each, from outside the job."""
    _need_disk(injection.folder)
    count = max(1, round(SYNCERS * injection.intensity))
    injection.compete("sync", "--file", str(injection.folder / "sync"), copies=count)
    return f"{count} processes that write 4 KiB and wait for the disk, without end"


WRITEBACK_STORM = Fault(
    "writeback-storm",
    "storage",
    "Storm of writeback",
    "Another process writes large files through the page cache and pushes them to the disk.",
    ("writeback-storm",),
    always,
    storm_writeback,
    "multiplies the 1 GiB that is written, up to 2 GiB",
)
DISK_SATURATION = Fault(
    "disk-saturation",
    "storage",
    "A neighbour saturates the disk with reads",
    "Another process reads from the disk, past the page cache and several requests at a time.",
    ("disk-saturation",),
    always,
    saturate_reads,
    "multiplies the number of requests at a time, 6",
    needs_workload=True,
)
SLOW_READS = Fault(
    "slow-reads",
    "storage",
    "The job's reads are throttled",
    "The job's cgroup may read a third of what it wants from its disk.",
    ("disk-slow",),
    why_no_cgroups,
    throttle_reads,
    "divides the 6 MiB a second that the job may read",
    needs_workload=True,
)
LOADER_STALL = Fault(
    "data-loader-stall",
    "storage",
    "The job's input does not come",
    "Both ranks get no input for most of the time: a data loader that cannot keep up.",
    ("data-loader-stall", "straggler-process"),
    always,
    stall_loader,
    "multiplies the share of 60 % of the time without input, up to 95 %",
    same_signals=("straggler-process",),
    needs_workload=True,
)
SYNC_WRITES = Fault(
    "sync-writes",
    "storage",
    "A neighbour writes synchronously",
    "Other processes write single blocks and wait for the disk after each.",
    ("sync-writes",),
    always,
    storm_syncs,
    "multiplies the number of writers, 2",
)
