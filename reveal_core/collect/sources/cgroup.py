"""CPU, memory and I/O of each control group: containers, services, jobs."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.parts import FieldsPart, Part, SingleValuePart, Target, target_table
from reveal_core.collect.source import Source
from reveal_core.collect.sources.pressure import PressurePart

FOLDER = "sys/fs/cgroup"
MAX_GROUPS = 64
"""Most groups read at once; beyond, those that used most CPU since the last look come first."""
MAX_VISITED = 2000
"""Most groups looked at when searching, so that a host with very many of them costs no more."""
DISCOVERY_MS = 1000

V1_CPU_STAT = target_table(
    {
        b"nr_periods": "cgroup.nr_periods",
        b"nr_throttled": "cgroup.nr_throttled",
        b"throttled_time": "cgroup.throttled_time",
    }
)
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
V2_CPU_STAT = target_table(
    {
        b"usage_usec": ("cgroup.cpu_usage", 1000.0),
        b"nr_periods": "cgroup.nr_periods",
        b"nr_throttled": "cgroup.nr_throttled",
        b"throttled_usec": ("cgroup.throttled_time", 1000.0),
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
MEMORY_EVENTS = target_table({b"max": "cgroup.memory_failcnt", b"oom_kill": "cgroup.memory_oom_kill"})
OOM_CONTROL = target_table({b"oom_kill": "cgroup.memory_oom_kill"})


class BlkioPart(Part):
    """Version 1, ``blkio.throttle.io_service_bytes``: ``254:0 Read 4096``, a line per device and kind."""

    def __init__(self, file: HostFile, columns: Columns, instance: str) -> None:
        super().__init__(file, columns)
        self.read_slot = self.add("cgroup.io_read_bytes", instance)
        self.write_slot = self.add("cgroup.io_write_bytes", instance)

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        read = written = 0
        for line in data.split(b"\n"):
            words = line.split()
            if len(words) == 3 and words[1] == b"Read":
                read += int(words[2])
            elif len(words) == 3 and words[1] == b"Write":
                written += int(words[2])
        self.store(read, written)

    def store(self, read: int, written: int) -> None:
        """Put the sums over the devices into the row."""
        if self.read_slot is not None and self.write_slot is not None:
            self.columns.row[self.read_slot] = read
            self.columns.row[self.write_slot] = written


class IoStatPart(BlkioPart):
    """Version 2, ``io.stat``: ``254:0 rbytes=4096 wbytes=0 rios=1 …``, a line per device."""

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        read = written = 0
        for word in data.split():
            if word.startswith(b"rbytes="):
                read += int(word[7:])
            elif word.startswith(b"wbytes="):
                written += int(word[7:])
        self.store(read, written)


@dataclass
class Group:
    """A control group: where each controller keeps it, and the CPU time it had used when last looked at (ns)."""

    folders: dict[str, Path] = field(default_factory=dict)
    usage: int = 0


class CgroupSource(Source):
    """The groups that use something, found anew every second; the root group repeats the host and is left out."""

    name = "cgroup"

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.groups: dict[str, list[Part]] = {}
        self.usage: dict[str, int] = {}
        self.left_out = 0
        self.ticks_to_discovery = 0

    def _bases(self) -> dict[str, Path]:
        """Return the folder of each controller of version 1, or ``{"v2": …}``."""
        top = self.path(FOLDER)
        if (top / "cgroup.controllers").exists():
            return {"v2": top}
        marks = {"cpu": "cpu.stat", "cpuacct": "cpuacct.usage", "memory": "memory.usage_in_bytes"}
        marks["blkio"] = "blkio.throttle.io_service_bytes"
        folders = [p for p in sorted(top.iterdir()) if p.is_dir()] if top.is_dir() else []
        found: dict[str, Path] = {}
        for controller, mark in marks.items():
            for folder in folders:
                if controller in folder.name.split(",") and (folder / mark).exists():
                    found.setdefault(controller, folder)
        return found

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if not self._bases():
            return f"{self.path(FOLDER)} holds no controller for CPU, memory or block I/O"
        return None

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        return (
            [f"{self.left_out} more groups are active than the {MAX_GROUPS} that are read"]
            if self.left_out
            else []
        )

    def open(self) -> None:
        """See `Source.open`."""
        self.bases = self._bases()

    def read(self) -> list[int]:
        """See `Source.read`."""
        if self.ticks_to_discovery == 0:
            self.discover()
            self.ticks_to_discovery = max(1, DISCOVERY_MS // self.columns.period_ms)
        self.ticks_to_discovery -= 1
        return super().read()

    def discover(self) -> None:
        """Look for groups that came and went."""
        found = self._walk()
        for name in [name for name in self.groups if name not in found]:
            for part in self.groups.pop(name):
                part.close()
        growth = {}
        for name, group in found.items():
            if name not in self.groups:
                grown = group.usage - self.usage.get(name, 0)
                if grown > 0 or self._uses_memory(group):
                    growth[name] = grown
        self.usage = {name: group.usage for name, group in found.items()}
        room = MAX_GROUPS - len(self.groups)
        wanted = sorted(growth, key=lambda name: (-growth[name], name))
        self.left_out = max(0, len(wanted) - room)
        for name in wanted[:room]:
            self.groups[name] = self._parts(name, found[name])
        self.parts = [part for parts in self.groups.values() for part in parts]

    def _walk(self) -> dict[str, Group]:
        found: dict[str, Group] = {}
        for controller, base in self.bases.items():
            for folder in walk(base, MAX_VISITED):
                name = str(folder.relative_to(base))
                group = found.setdefault(name, Group())
                group.folders[controller] = folder
        for name, group in found.items():
            group.usage = self._usage(name, group)
        return found

    def _usage(self, name: str, group: Group) -> int:
        if "v2" in group.folders:
            words = (read_text(group.folders["v2"] / "cpu.stat") or "").split()
            return int(words[1]) * 1000 if words[:1] == ["usage_usec"] and words[1].isdigit() else 0
        if "cpuacct" in group.folders:
            text = read_text(group.folders["cpuacct"] / "cpuacct.usage") or ""
            return int(text) if text.isdigit() else 0
        return 0

    def _uses_memory(self, group: Group) -> bool:
        if "v2" in group.folders:
            text = read_text(group.folders["v2"] / "memory.current")
        elif "memory" in group.folders:
            text = read_text(group.folders["memory"] / "memory.usage_in_bytes")
        else:
            text = None
        return text not in (None, "", "0")

    def _parts(self, name: str, group: Group) -> list[Part]:
        return list(self._parts_v2(name, group) if "v2" in group.folders else self._parts_v1(name, group))

    def _parts_v1(self, name: str, group: Group) -> Iterator[Part]:
        columns = self.columns
        if folder := group.folders.get("cpuacct"):
            target = ("cgroup.cpu_usage", 1.0)
            yield SingleValuePart(HostFile(folder / "cpuacct.usage", whole=True), columns, target, name)
        if folder := group.folders.get("cpu"):
            yield FieldsPart(HostFile(folder / "cpu.stat", whole=True), columns, V1_CPU_STAT, name)
        if folder := group.folders.get("memory"):
            singles: list[tuple[str, Target]] = [
                ("memory.usage_in_bytes", ("cgroup.memory_usage", 1.0)),
                ("memory.failcnt", ("cgroup.memory_failcnt", 1.0)),
            ]
            for file, target in singles:
                yield SingleValuePart(HostFile(folder / file, whole=True), columns, target, name)
            yield FieldsPart(HostFile(folder / "memory.stat", whole=True), columns, V1_MEMORY_STAT, name)
            yield FieldsPart(HostFile(folder / "memory.oom_control", whole=True), columns, OOM_CONTROL, name)
        if folder := group.folders.get("blkio"):
            recursive = folder / "blkio.throttle.io_service_bytes_recursive"
            path = recursive if recursive.exists() else folder / "blkio.throttle.io_service_bytes"
            yield BlkioPart(HostFile(path, whole=True), columns, name)

    def _parts_v2(self, name: str, group: Group) -> Iterator[Part]:
        columns, folder = self.columns, group.folders["v2"]
        for file, target in (
            ("cpu.stat", V2_CPU_STAT),
            ("memory.stat", V2_MEMORY_STAT),
            ("memory.events", MEMORY_EVENTS),
        ):
            if (folder / file).exists():
                yield FieldsPart(HostFile(folder / file, whole=True), columns, target, name)
        if (folder / "memory.current").exists():
            target_ = ("cgroup.memory_usage", 1.0)
            yield SingleValuePart(HostFile(folder / "memory.current", whole=True), columns, target_, name)
        if (folder / "io.stat").exists():
            yield IoStatPart(HostFile(folder / "io.stat"), columns, name)
        for resource in ("cpu", "memory", "io"):
            if (folder / f"{resource}.pressure").exists():
                file_ = HostFile(folder / f"{resource}.pressure", whole=True)
                yield PressurePart(file_, columns, f"cgroup.psi_{resource}_", name)

    def close(self) -> None:
        """See `Source.close`."""
        super().close()
        self.groups.clear()


def walk(base: Path, limit: int) -> Iterator[Path]:
    """Yield the groups below a hierarchy's root, the shallow ones first, at most ``limit`` of them."""
    waiting = deque([base])
    while waiting and limit > 0:
        folder = waiting.popleft()
        try:
            with os.scandir(folder) as entries:
                children = sorted(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except OSError:
            continue  # the group went away while we looked
        for child in children[:limit]:
            yield folder / child
            waiting.append(folder / child)
        limit -= len(children)
