"""Huge pages: those set aside, per NUMA node and size, and those that the kernel makes by itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.hotplug import HotplugSource, MakeParts, devices
from reveal_core.collect.parts import Part, SingleValuePart

NODES = "sys/devices/system/node"
POOLS = "sys/kernel/mm/hugepages"
TRANSPARENT = "sys/kernel/mm/transparent_hugepage"
NODE_FILES = ("nr_hugepages", "free_hugepages", "surplus_hugepages")
HOST_FILES = ("resv_hugepages", "nr_overcommit_hugepages")
"""Files that a node does not have: reservations are the host's until a page is touched."""
MODES = {b"never": 0, b"madvise": 1, b"always": 2}
"""Transparent huge pages: for nobody, for those who ask (``madvise``), for all."""
KHUGEPAGED = {
    "pages_collapsed": "hugepages.khugepaged_pages_collapsed",
    "full_scans": "hugepages.khugepaged_full_scans",
}


def pool_bytes(name: str) -> int | None:
    """Return the page size that a pool's folder names; None if it names none.

    >>> pool_bytes("hugepages-2048kB")
    2097152
    """
    size = name.removeprefix("hugepages-").removesuffix("kB")
    return int(size) * 1024 if size.isdigit() else None


class ModePart(Part):
    """A choice as the kernel writes it: ``always [madvise] never``, the one in brackets holds."""

    def __init__(self, file: HostFile, columns: Columns, metric: str) -> None:
        super().__init__(file, columns)
        self.slot = self.add(metric)

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        chosen = data.partition(b"[")[2].partition(b"]")[0]
        if self.slot is not None:
            self.columns.row[self.slot] = MODES.get(chosen, MISSING)


class HugepagesSource(HotplugSource):
    """Pools of huge pages per node and size, in bytes, the mode of transparent ones, and khugepaged's work.

    Bytes, although the kernel counts pages: a node's pools differ in page size by a factor of 512, and only
    bytes can be compared and summed over them.
    """

    name = "hugepages"
    period_ms = 2000  # a file for each value
    rescan_ms = 30_000

    def _pools(self, folder: Path) -> Iterator[tuple[str, int, Path]]:
        for path in sorted(folder.glob("hugepages-*kB")):
            size = pool_bytes(path.name)
            if size is not None:
                yield path.name.removeprefix("hugepages-"), size, path

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        found: dict[Hashable, MakeParts] = {}
        nodes = [node for node in devices(self.path(NODES), "node") if (node / "hugepages").is_dir()]
        for node in nodes:
            for label, size, pool in self._pools(node / "hugepages"):
                found[str(pool)] = partial(self._pool_parts, pool, NODE_FILES, f"{node.name}:{label}", size)
        # Without nodes the host's own figures stand for them, else they would be their sum.
        files = HOST_FILES if nodes else HOST_FILES + NODE_FILES
        for label, size, pool in self._pools(self.path(POOLS)):
            found[str(pool), files] = partial(self._pool_parts, pool, files, label, size)
        if (self.path(TRANSPARENT) / "enabled").exists():
            found[TRANSPARENT] = self._transparent_parts
        return found

    def _pool_parts(self, pool: Path, files: tuple[str, ...], instance: str, size: int) -> Iterator[Part]:
        for file in files:
            if (pool / file).exists():
                target = (f"hugepages.{file}", float(size))
                yield SingleValuePart(HostFile(pool / file, whole=True), self.columns, target, instance)

    def _transparent_parts(self) -> Iterator[Part]:
        folder = self.path(TRANSPARENT)
        yield ModePart(HostFile(folder / "enabled", whole=True), self.columns, "hugepages.thp_enabled")
        for file, metric in KHUGEPAGED.items():
            path = folder / "khugepaged" / file
            if path.exists():
                yield SingleValuePart(HostFile(path, whole=True), self.columns, (metric, 1.0))

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if self.find():
            return None
        return (
            f"{self.path(POOLS)} and {self.path(TRANSPARENT)} are not there: "
            "the kernel was built without CONFIG_HUGETLBFS and CONFIG_TRANSPARENT_HUGEPAGE"
        )
