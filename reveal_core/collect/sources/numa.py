"""Memory per NUMA node."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

from reveal_core.collect.files import HostFile
from reveal_core.collect.hotplug import HotplugSource, MakeParts, devices
from reveal_core.collect.parts import FieldsPart, Part, Target
from reveal_core.collect.sources.meminfo import meminfo_target

FOLDER = "sys/devices/system/node"
FIELDS = frozenset(
    b"MemFree: MemUsed: Active: Inactive: FilePages: AnonPages: Mapped: Shmem: Slab: Dirty: Writeback: "
    b"HugePages_Total: HugePages_Free: HugePages_Surp:".split()
)
"""Fields of a node's meminfo that are read; the host's own meminfo has the rest."""


def _node_field(name: bytes) -> Target | None:
    return meminfo_target("numa", name) if name in FIELDS else None


def _node_counter(name: bytes) -> Target:
    return f"numa.{name.decode('ascii', 'replace')}", 1.0


class NumaSource(HotplugSource):
    """Hits, misses and memory of each node.

    They move slowly, and the host's own figures come with every tick. Nodes come and go with memory that is
    plugged in, CXL memory for one, and with what a driver brings (a GPU's memory as a node).
    """

    name = "numa"
    period_ms = 1000

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {node.name: partial(self._node_parts, node) for node in devices(self.path(FOLDER), "node")}

    def _node_parts(self, node: Path) -> Iterator[Part]:
        stat, info = HostFile(node / "numastat", whole=True), HostFile(node / "meminfo", whole=True)
        yield FieldsPart(stat, self.columns, _node_counter, node.name)
        yield FieldsPart(info, self.columns, _node_field, node.name, key=2)

    def probe(self) -> str | None:
        """See `Source.probe`."""
        nodes = devices(self.path(FOLDER), "node")
        if not nodes:
            return f"{self.path(FOLDER)}/node* is not there: the kernel was built without CONFIG_NUMA"
        return self.missing(
            *(f"{FOLDER}/{node.name}/{file}" for node in nodes for file in ("numastat", "meminfo"))
        )
