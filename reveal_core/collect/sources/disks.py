"""Disks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import RowsPart
from reveal_core.collect.source import Source, left_out_note

_MEMORY = re.compile(r"(ram|loop|fd|sr)\d+")
"""Devices that are no disks: memory, files, floppies, optical drives."""
_PARTITION = re.compile(r"((h|s|v|xv)d[a-z]+|(nvme\d+n|mmcblk|nbd)\d+p)\d+")
"""Names of partitions, for a tree that has no /sys/block to ask."""


MAX_DISKS = 128
"""Most disks that are read, in the kernel's order; a host with multipath has several names for each."""


class DisksPart(RowsPart):
    """``/proc/diskstats``: whole disks that were ever used; partitions repeat what their disk says."""

    most = MAX_DISKS
    metrics = (
        "disk.reads",
        "disk.reads_merged",
        "disk.read_sectors",
        "disk.read_ms",
        "disk.writes",
        "disk.writes_merged",
        "disk.write_sectors",
        "disk.write_ms",
        "disk.in_flight",
        "disk.io_ms",
        "disk.weighted_ms",
        "disk.discards",
        "disk.discards_merged",
        "disk.discard_sectors",
        "disk.discard_ms",
        "disk.flushes",
        "disk.flush_ms",
    )

    def __init__(self, file: HostFile, columns: Columns, source: Source) -> None:
        super().__init__(file, columns)
        self.blocks = source.path("sys/block")
        self.wanted: dict[bytes, bool] = {}

    def split(self, data: bytes) -> Iterable[tuple[bytes, list[bytes]]]:
        """See `RowsPart.split`."""
        for line in data.split(b"\n"):
            words = line.split()
            if len(words) < 4:
                continue
            name = words[2]
            wanted = self.wanted.get(name)
            if wanted is None:
                wanted = self.wanted[name] = self._is_disk(name.decode("utf-8", "replace"))
            if wanted:
                yield name, words[3:20]

    def _is_disk(self, name: str) -> bool:
        if _MEMORY.fullmatch(name):
            return False
        if self.blocks.is_dir():
            # sysfs writes a slash in a device's name as an exclamation mark.
            return (self.blocks / name.replace("/", "!")).exists()
        return not _PARTITION.fullmatch(name)


class DisksSource(Source):
    """Requests, data and time of each disk that was ever used."""

    name = "disks"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/diskstats")

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        more = sum(part.left_out for part in self.parts if isinstance(part, DisksPart))
        return left_out_note(more, "disks are in use", MAX_DISKS)

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(DisksPart(HostFile(self.path("proc/diskstats")), self.columns, self))
