"""Memory by kind, I/O, tasks and pressure of each control group:

files that cost more to read, so they are read more slowly.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from reveal_core.collect.columns import Columns
from reveal_core.collect.groups import UNIFIED, Group, GroupSource
from reveal_core.collect.parts import FieldsPart, Part, Readable, SingleValuePart, target_table
from reveal_core.collect.sources.pressure import PressurePart

V1_MEMORY_STAT = target_table(
    {
        b"total_rss": "cgroup.memory_rss",
        b"total_cache": "cgroup.memory_cache",
        b"total_swap": "cgroup.memory_swap",
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
PIDS_EVENTS = target_table({b"max": "cgroup.pids_max"})
V1_TABLES = (
    ("memory", "memory.stat", V1_MEMORY_STAT),
    ("memory", "memory.oom_control", OOM_CONTROL),
    ("pids", "pids.events", PIDS_EVENTS),
)
V2_TABLES = (("memory", "memory.stat", V2_MEMORY_STAT), ("pids", "pids.events", PIDS_EVENTS))
"""Tables of version 2, each with the controller of version 1 that tells the same."""
BYTES = ("cgroup.io_read_bytes", "cgroup.io_write_bytes")
REQUESTS = ("cgroup.io_reads", "cgroup.io_writes")
BLKIO_FILES = (
    (BYTES, ("blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_service_bytes")),
    (REQUESTS, ("blkio.throttle.io_serviced_recursive", "blkio.throttle.io_serviced")),
)
"""What version 1 counts, and the files that have it; the first that is there includes the groups below."""
IO_STAT = {
    b"rbytes": "cgroup.io_read_bytes",
    b"wbytes": "cgroup.io_write_bytes",
    b"rios": "cgroup.io_reads",
    b"wios": "cgroup.io_writes",
}


class BlkioPart(Part):
    """Reads and writes of a group in version 1, added over its devices: ``254:0 Read 4096``."""

    def __init__(self, file: Readable, columns: Columns, metrics: tuple[str, str], instance: str) -> None:
        super().__init__(file, columns)
        self.slots = {
            kind: self.add(m, instance) for kind, m in zip((b"Read", b"Write"), metrics, strict=True)
        }

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        sums = dict.fromkeys(self.slots, 0)
        words = data.split()
        for kind, value in pairwise(words):
            if kind in sums:
                sums[kind] += int(value)
        for kind, slot in self.slots.items():
            if slot is not None:
                self.columns.row[slot] = sums[kind]


class IoStatPart(Part):
    """Data and requests of a group in version 2, added over its devices: ``254:0 rbytes=4096 rios=1``.

    A group that did no I/O has an empty file: that is zero.
    """

    def __init__(self, file: Readable, columns: Columns, instance: str) -> None:
        super().__init__(file, columns)
        self.slots = {key: self.add(metric, instance) for key, metric in IO_STAT.items()}

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        sums = dict.fromkeys(self.slots, 0)
        for word in data.split():
            key, _, value = word.partition(b"=")
            if key in sums:
                sums[key] += int(value)
        for key, slot in self.slots.items():
            if slot is not None:
                self.columns.row[slot] = sums[key]


class CgroupDetailSource(GroupSource):
    """Memory by kind, page faults, I/O, tasks and pressure of each active group."""

    name = "cgroup_detail"
    period_ms = 1000
    rescan_ms = 10_000

    def group_parts(self, name: str, group: Group) -> Iterator[Part]:
        """See `GroupSource.group_parts`."""
        for controller, file, table in V1_TABLES:
            if (found := group.file(controller, file)) is not None:
                yield FieldsPart(found, self.columns, table, name)
        for counterpart, file, table in V2_TABLES:
            if (found := group.unified_file(file, counterpart)) is not None:
                yield FieldsPart(found, self.columns, table, name)
        swap = group.unified_file("memory.swap.current", "memory")
        if swap is not None:
            yield SingleValuePart(swap, self.columns, ("cgroup.memory_swap", 1.0), name)
        pids = group.file("pids", "pids.current") or group.unified_file("pids.current", "pids")
        if pids is not None:
            yield SingleValuePart(pids, self.columns, ("cgroup.pids", 1.0), name)
        yield from self._io_parts(name, group)
        for resource in ("cpu", "memory", "io"):  # version 1 has none of these
            if (found := group.file(UNIFIED, f"{resource}.pressure")) is not None:
                yield PressurePart(found, self.columns, f"cgroup.psi_{resource}_", name)

    def _io_parts(self, name: str, group: Group) -> Iterator[Part]:
        if (io := group.unified_file("io.stat", "blkio")) is not None:
            yield IoStatPart(io, self.columns, name)
        for metrics, files in BLKIO_FILES:
            found = next((file for f in files if (file := group.file("blkio", f)) is not None), None)
            if found is not None:
                yield BlkioPart(found, self.columns, metrics, name)
