"""Memory by kind, I/O and pressure of each control group:

files that cost more to read, so they are read more slowly.
"""

from __future__ import annotations

from collections.abc import Iterator

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.groups import UNIFIED, Group, GroupSource
from reveal_core.collect.parts import FieldsPart, Part, target_table
from reveal_core.collect.sources.pressure import PressurePart

V1_MEMORY_STAT = target_table(
    {
        b"total_rss": "cgroup.memory_rss",
        b"total_cache": "cgroup.memory_cache",
        b"total_dirty": "cgroup.memory_dirty",
        b"total_writeback": "cgroup.memory_writeback",
        b"total_pgfault": "cgroup.pgfault",
        b"total_pgmajfault": "cgroup.pgmajfault",
        b"total_workingset_refault_file": "cgroup.workingset_refault_file",
    }
)
V2_MEMORY_STAT = target_table(
    {
        b"anon": "cgroup.memory_rss",
        b"file": "cgroup.memory_cache",
        b"file_dirty": "cgroup.memory_dirty",
        b"file_writeback": "cgroup.memory_writeback",
        b"pgfault": "cgroup.pgfault",
        b"pgmajfault": "cgroup.pgmajfault",
        b"pgscan": "cgroup.pgscan",
        b"workingset_refault_file": "cgroup.workingset_refault_file",
    }
)
OOM_CONTROL = target_table({b"oom_kill": "cgroup.memory_oom_kill"})
TABLES = (
    ("memory", "memory.stat", V1_MEMORY_STAT),
    ("memory", "memory.oom_control", OOM_CONTROL),
    (UNIFIED, "memory.stat", V2_MEMORY_STAT),
)
BLKIO_FILES = ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes")


class IoPart(Part):
    """Data read and written by a group, added over its devices.

    Version 1 writes ``254:0 Read 4096``, version 2 ``254:0 rbytes=4096 wbytes=0 rios=1 …``. A group that
    did no I/O has an empty file in version 2: that is zero.
    """

    def __init__(self, file: HostFile, columns: Columns, instance: str) -> None:
        super().__init__(file, columns)
        self.read_slot = self.add("cgroup.io_read_bytes", instance)
        self.write_slot = self.add("cgroup.io_write_bytes", instance)

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        read = written = 0
        previous = b""
        for word in data.split():
            if word.startswith(b"rbytes="):
                read += int(word[7:])
            elif word.startswith(b"wbytes="):
                written += int(word[7:])
            elif previous == b"Read":
                read += int(word)
            elif previous == b"Write":
                written += int(word)
            previous = word
        if self.read_slot is not None and self.write_slot is not None:
            self.columns.row[self.read_slot] = read
            self.columns.row[self.write_slot] = written


class CgroupDetailSource(GroupSource):
    """Memory by kind, page faults, I/O and pressure of each active group."""

    name = "cgroup_detail"
    period_ms = 500
    discovery_ms = 4000

    def group_parts(self, name: str, group: Group) -> Iterator[Part]:
        """See `GroupSource.group_parts`."""
        for controller, file, table in TABLES:
            if (found := group.file(controller, file)) is not None:
                yield FieldsPart(found, self.columns, table, name)
        io = group.file(UNIFIED, "io.stat") or next(
            (found for file in BLKIO_FILES if (found := group.file("blkio", file)) is not None), None
        )
        if io is not None:
            yield IoPart(io, self.columns, name)
        for resource in ("cpu", "memory", "io"):
            if (found := group.file(UNIFIED, f"{resource}.pressure")) is not None:
                yield PressurePart(found, self.columns, f"cgroup.psi_{resource}_", name)
