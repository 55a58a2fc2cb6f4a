"""Lustre client: what each mounted file system is asked for."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.files import HostFile, why_unreadable
from reveal_core.collect.hotplug import HotplugSource, MakeParts
from reveal_core.collect.parts import Part, Readable, integers

FOLDERS = ("sys/kernel/debug/lustre", "proc/fs/lustre", "sys/fs/lustre")
"""Where versions keep their files: statistics are in debugfs since 2.12, in procfs before."""
MOUNT_ADDRESS = re.compile(r"-[0-9a-f]{8,16}$")
"""Ends a client device's name: the address of the mount in the kernel, another after every mount."""

Table = dict[bytes, tuple[str | None, str | None]]
"""Names of lines, and the metrics of their count and of their sum."""
LLITE: Table = {
    b"read_bytes": ("lustre.reads", "lustre.read_bytes"),
    b"write_bytes": ("lustre.writes", "lustre.write_bytes"),
    b"read": (None, "lustre.read_time"),
    b"write": (None, "lustre.write_time"),
    b"open": ("lustre.open", None),
    b"close": ("lustre.close", None),
    b"seek": ("lustre.seek", None),
    b"fsync": ("lustre.fsync", None),
    b"readdir": ("lustre.readdir", None),
    b"setattr": ("lustre.setattr", None),
    b"truncate": ("lustre.truncate", None),
    b"flock": ("lustre.flock", None),
    b"getattr": ("lustre.getattr", None),
    b"create": ("lustre.create", None),
    b"unlink": ("lustre.unlink", None),
    b"mkdir": ("lustre.mkdir", None),
    b"rename": ("lustre.rename", None),
    b"mmap": ("lustre.mmap", None),
    b"page_fault": ("lustre.page_fault", None),
    b"getxattr": ("lustre.getxattr", None),
    b"inode_permission": ("lustre.inode_permission", None),
    b"ioctl": ("lustre.ioctl", None),
}
"""Lines of ``llite/*/stats`` and the metrics of their count and of their sum."""
READ_AHEAD: Table = {
    b"hits": ("lustre.read_ahead_hits", None),
    b"misses": ("lustre.read_ahead_misses", None),
    b"failed_lock_match": ("lustre.read_ahead_failed_lock_match", None),
    b"read_but_discarded": ("lustre.read_ahead_discarded", None),
}
"""Lines of ``llite/*/read_ahead_stats``, in pages."""


def stable_names(names: Iterable[str]) -> dict[str, str]:
    """Return what to call client devices: without the address of their mount where that is unique.

    >>> stable_names(["scratch-ffff88105db50000", "home-ffff9a3c00000000"])
    {'scratch-ffff88105db50000': 'scratch', 'home-ffff9a3c00000000': 'home'}
    """
    short = {name: MOUNT_ADDRESS.sub("", name) for name in names}
    shared = Counter(short.values())
    return {name: label if shared[label] == 1 else name for name, label in short.items()}


class StatsPart(Part):
    """A statistics file: ``NAME COUNT samples [UNIT] MIN MAX SUM SUMSQUARES``.

    A line is there once something has happened, and is shorter for what is only counted. Before a line is
    there its count is zero, if the file can be read at all.
    """

    def __init__(self, file: Readable, columns: Columns, table: Table, instance: str) -> None:
        super().__init__(file, columns)
        self.table = table
        self.instance = instance
        self.lines: dict[bytes, bytes] = {}
        self.slots: dict[bytes, list[int | None]] = {}

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        lines: dict[bytes, bytes] = {}
        for line in data.split(b"\n"):
            name, _, rest = line.partition(b" ")
            if name in self.table and name not in lines:
                lines[name] = rest
                if self.lines.get(name) != rest:
                    self._parse_line(name, rest)
        for name in self.lines.keys() - lines.keys():  # somebody has cleared the statistics
            for slot in self.slots.get(name, ()):
                if slot is not None:
                    self.columns.row[slot] = 0
        self.lines = lines

    def _parse_line(self, name: bytes, rest: bytes) -> None:
        words = rest.split()
        if words[1:2] != [b"samples"]:
            raise ValueError(f"the line {name.decode()} has no samples")
        values = integers([words[0], words[5] if len(words) > 5 else b"-"])
        slots = self.slots.setdefault(name, [None, None])
        for place, (metric, value) in enumerate(zip(self.table[name], values, strict=True)):
            if slots[place] is None and metric is not None and value != MISSING:
                slots[place] = self.add(metric, self.instance)
            if (slot := slots[place]) is not None:
                self.columns.row[slot] = value

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.lines = dict.fromkeys(self.lines, b"")


def _mounted(folder: Path) -> list[str]:
    """Return the devices in a folder that belong to a mount; a server's own have no address in their name."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if MOUNT_ADDRESS.search(entry.name) and entry.is_dir()]
    except (FileNotFoundError, PermissionError):
        return []  # this version keeps nothing of the kind here, or not for us


class LustreFiles(HotplugSource):
    """A source that reads files of the client's devices of some kinds, wherever this version keeps them."""

    kinds: ClassVar[tuple[str, ...]]
    detached = True
    rescan_ms = 30_000

    def device_names(self) -> dict[str, str]:
        """Return what to call each device, by ``kind/name``."""
        found: dict[str, str] = {}
        for kind in self.kinds:
            names = {name for folder in FOLDERS for name in _mounted(self.path(f"{folder}/{kind}"))}
            found.update((f"{kind}/{name}", label) for name, label in stable_names(sorted(names)).items())
        return found

    def file(self, device: str, name: str) -> Path | None:
        """Return where a device's file is; None if this version has none."""
        for folder in FOLDERS:
            path = self.path(f"{folder}/{device}/{name}")
            if path.exists():
                return path
        return None

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if self.device_names():
            return None
        debug = self.path(FOLDERS[0])
        reason = why_unreadable(debug.parent)
        if reason is not None and self.path("sys/fs/lustre").is_dir():
            return (
                f"{reason}: Lustre's statistics need root and debugfs (mount -t debugfs none {debug.parent})"
            )
        return f"{self.path(FOLDERS[1])} and {debug} are not there or name no client: no Lustre is mounted"


class LustreSource(LustreFiles):
    """Data, time and operations of each Lustre file system, as its users ask for them."""

    name = "lustre"
    period_ms = 1000
    kinds = ("llite",)

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {
            (device, label): partial(self._parts, device, label)
            for device, label in self.device_names().items()
        }

    def _parts(self, device: str, label: str) -> Iterator[Part]:
        for name, table in (("stats", LLITE), ("read_ahead_stats", READ_AHEAD)):
            path = self.file(device, name)
            if path is not None:
                yield StatsPart(HostFile(path), self.columns, table, label)
