"""Control groups: which there are, and which of them use something."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.jobs import job_names
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source, left_out_note

FOLDER = "sys/fs/cgroup"
MAX_GROUPS = 64
"""Most groups read at once; beyond, those that used most CPU since the last look come first."""
MAX_VISITED = 2000
"""Most groups looked at when searching, so that a host with very many of them costs no more."""
IDLE_LOOKS = 15
"""A group that is read gives its place to a busy one after so many looks without CPU time."""
V1_MARKS = {
    "cpu": "cpu.stat",
    "cpuacct": "cpuacct.usage",
    "memory": "memory.usage_in_bytes",
    "blkio": "blkio.throttle.io_service_bytes",
    "pids": "cgroup.procs",
}
"""Controllers of version 1 that are read, each with a file by which it is known."""
UNIFIED = "v2"
"""Stands for the one hierarchy of version 2."""


def hierarchies(top: Path) -> dict[str, str]:
    """Return the folder of each controller of version 1, and under ``v2`` that of version 2.

    Where version 1 is in use, systemd keeps a hierarchy of version 2 beside it (``unified``), which has
    pressure and whatever controllers version 1 has left to it. Empty where there is none of all.
    """
    if (top / "cgroup.controllers").exists():
        return {UNIFIED: str(top)}
    folders = [path for path in sorted(top.iterdir()) if path.is_dir()] if top.is_dir() else []
    unified = [str(folder) for folder in folders if (folder / "cgroup.controllers").exists()]
    found: dict[str, str] = {UNIFIED: unified[0]} if unified else {}
    for controller, mark in V1_MARKS.items():
        for folder in folders:
            if controller in folder.name.split(",") and (folder / mark).exists():
                found.setdefault(controller, str(folder))
    return found


def walk(base: str, limit: int) -> Iterator[str]:
    """Yield the groups below a hierarchy's root by path, shallow ones first, at most ``limit``."""
    waiting = deque([""])
    while waiting and limit > 0:
        group = waiting.popleft()
        try:
            with os.scandir(f"{base}/{group}") as entries:
                children = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, PermissionError):
            continue  # it went away while we looked, or is not ours to see
        for child in children[:limit]:
            name = f"{group}/{child}" if group else child
            yield name
            waiting.append(name)
        limit -= len(children)


@dataclass
class Group:
    """A control group: its folder under each controller."""

    folders: dict[str, str] = field(default_factory=dict)

    def file(self, controller: str, name: str) -> HostFile | None:
        """Return a file of the group, None where the group or the kernel has none."""
        folder = self.folders.get(controller)
        path = Path(folder, name) if folder else None
        return HostFile(path, whole=True) if path is not None and path.exists() else None

    def unified_file(self, name: str, counterpart: str) -> HostFile | None:
        """Return a file of version 2, None where a controller of version 1 says the same of the group."""
        return None if counterpart in self.folders else self.file(UNIFIED, name)

    def cpu_usage(self) -> int:
        """Return the CPU time used, in ns; 0 if no controller tells."""
        if "cpuacct" in self.folders:
            text = read_text(Path(self.folders["cpuacct"], "cpuacct.usage"))
            return int(text) if text and text.isdigit() else 0
        if UNIFIED not in self.folders:
            return 0
        words = (read_text(Path(self.folders[UNIFIED], "cpu.stat")) or "").split()
        return int(words[1]) * 1000 if words[:1] == ["usage_usec"] and words[1].isdigit() else 0

    def uses_memory(self) -> bool:
        """Return whether memory is charged to the group."""
        if "memory" in self.folders:
            text = read_text(Path(self.folders["memory"], "memory.usage_in_bytes"))
        elif UNIFIED in self.folders:
            text = read_text(Path(self.folders[UNIFIED], "memory.current"))
        else:
            return False
        return text not in (None, "", "0")


class GroupSource(Source):
    """A source that reads files of the groups that use something.

    The root group repeats the host and is left out, and so is a group that uses neither CPU nor memory.
    """

    rescan_ms: ClassVar[int] = 5000

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.hierarchies: dict[str, str] = {}
        self.groups: dict[str, list[Part]] = {}
        self.usage: dict[str, int] = {}
        self.idle: dict[str, int] = {}
        self.left_out = 0

    @abstractmethod
    def group_parts(self, name: str, group: Group) -> Iterator[Part]:
        """Yield what is read of a group."""

    def probe(self) -> str | None:
        """See `Source.probe`."""
        self.hierarchies = hierarchies(self.path(FOLDER))
        if not self.hierarchies:
            return f"{self.path(FOLDER)} holds no controller for CPU, memory or block I/O"
        return None

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        return left_out_note(self.left_out, "groups are active", MAX_GROUPS)

    @property
    def facts(self) -> dict[str, Any]:
        """See `Source.facts`."""
        return {"jobs": self.jobs}

    @property
    def jobs(self) -> dict[str, str]:
        """What people call those of the groups that belong to a job, container, service or session."""
        return job_names(self.groups)

    def open(self) -> None:
        """See `Source.open`."""

    def rescan(self) -> None:
        """See `Source.rescan`."""
        found: dict[str, Group] = {}
        walks: dict[str, list[str]] = {}  # controllers may share a hierarchy
        for controller, base in self.hierarchies.items():
            if base not in walks:
                walks[base] = list(walk(base, MAX_VISITED))
            for name in walks[base]:
                found.setdefault(name, Group()).folders[controller] = f"{base}/{name}"
        for name in [name for name in self.groups if name not in found]:
            self._drop(name)
        crowded = len(found) > MAX_GROUPS  # else there is room for all, and those that are read need no look
        usage = {
            name: group.cpu_usage() for name, group in found.items() if crowded or name not in self.groups
        }
        growth = {name: used - self.usage.get(name, 0) for name, used in usage.items()}
        active = [
            name
            for name in usage
            if name not in self.groups and (growth[name] > 0 or found[name].uses_memory())
        ]
        active.sort(key=lambda name: (-growth[name], name))
        if crowded:
            self._make_room(growth, sum(growth[name] > 0 for name in active))
        room = MAX_GROUPS - len(self.groups)
        for name in active[:room]:
            self.groups[name] = list(self.group_parts(name, found[name]))
        self.left_out = len(active[room:])
        self.usage = usage
        self.parts = [part for parts in self.groups.values() for part in parts]

    def _make_room(self, growth: dict[str, int], wanted: int) -> None:
        """Let go of groups that have long used no CPU, for busy ones that wait: the job that has just begun
        matters more than the service that sleeps.
        """
        self.idle = {name: 0 if growth[name] > 0 else self.idle.get(name, 0) + 1 for name in self.groups}
        asleep = [name for name in self.groups if self.idle[name] >= IDLE_LOOKS]
        asleep.sort(key=lambda name: (-self.idle[name], name))
        for name in asleep[: max(0, wanted - (MAX_GROUPS - len(self.groups)))]:
            self._drop(name)

    def _drop(self, name: str) -> None:
        for part in self.groups.pop(name):
            part.close()

    def close(self) -> None:
        """See `Source.close`."""
        super().close()
        self.groups.clear()
