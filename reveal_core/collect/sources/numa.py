"""Memory per NUMA node."""

from __future__ import annotations

from pathlib import Path

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import FieldsPart, Target
from reveal_core.collect.source import Source
from reveal_core.collect.sources.meminfo import meminfo_target

FOLDER = "sys/devices/system/node"
FIELDS = frozenset(
    b"MemFree: MemUsed: Active: Inactive: FilePages: AnonPages: Mapped: Shmem: Slab: Dirty: Writeback: "
    b"HugePages_Total: HugePages_Free: HugePages_Surp:".split()
)
"""Fields of a node's meminfo that are read; the host's own meminfo has the rest."""


def _node_field(name: bytes) -> Target | None:
    return meminfo_target("numa", name) if name in FIELDS else None


class NumaSource(Source):
    """Hits, misses and memory of each node.

    They move slowly, and the host's own figures come with every tick.
    """

    name = "numa"
    period_ms = 1000

    def _nodes(self) -> list[Path]:
        found = [p for p in self.path(FOLDER).glob("node[0-9]*") if p.name[4:].isdigit()]
        return sorted(found, key=lambda p: int(p.name[4:]))

    def probe(self) -> str | None:
        """See `Source.probe`."""
        nodes = self._nodes()
        if not nodes:
            return f"{self.path(FOLDER)}/node* is not there: the kernel was built without CONFIG_NUMA"
        return self.missing(
            *(f"{FOLDER}/{node.name}/{file}" for node in nodes for file in ("numastat", "meminfo"))
        )

    def open(self) -> None:
        """See `Source.open`."""
        for node in self._nodes():
            stat, info = HostFile(node / "numastat", whole=True), HostFile(node / "meminfo", whole=True)
            self.parts.append(
                FieldsPart(
                    stat,
                    self.columns,
                    lambda name: (f"numa.{name.decode('ascii', 'replace')}", 1.0),
                    node.name,
                )
            )
            self.parts.append(FieldsPart(info, self.columns, _node_field, node.name, key=2))
