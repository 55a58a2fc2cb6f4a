"""TCP, UDP, ICMP and IP counters."""

from __future__ import annotations

from dataclasses import dataclass, field

from reveal_core.collect.columns import Columns, Slots
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import Part, Picker, integers, picker
from reveal_core.collect.source import Source

FAMILIES = {
    b"Ip:": "ip",
    b"Icmp:": "icmp",
    b"Tcp:": "tcp",
    b"Udp:": "udp",
    b"TcpExt:": "tcpext",
    b"IpExt:": "ipext",
}
"""Families that are read; UDP-Lite, multipath TCP and ICMP by type number are not."""
FILES = ("snmp", "netstat")
HOST = "host"
"""Instance of the agent's own network namespace."""


@dataclass(slots=True)
class Family:
    """Where the values of one family lie."""

    head: bytes = b""
    values: bytes = b""
    count: int = 0
    pick: Picker = field(default=picker([]))
    slots: Slots = field(default=Slots())


class ProtocolsPart(Part):
    """``snmp`` or ``netstat`` of a network namespace: a line of names, then a line of values, per family."""

    def __init__(self, file: HostFile, columns: Columns, namespace: str = HOST) -> None:
        super().__init__(file, columns)
        self.namespace = namespace
        self.families: list[Family] = []

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        lines = data.split(b"\n")
        heads, values = lines[0:-1:2], lines[1::2]
        if heads != [family.head for family in self.families]:
            self._lay_out(heads)
        for family, line in zip(self.families, values, strict=True):
            if line == family.values or not family.slots:
                continue
            words = line.split()
            if len(words) == family.count:
                self.columns.put(family.slots, integers(family.pick(words)))
            else:
                self.columns.blank(family.slots)
            family.values = line

    def _lay_out(self, heads: list[bytes]) -> None:
        self.families = []
        for head in heads:
            words = head.split()
            family = Family(head, count=len(words))
            name = FAMILIES.get(words[0]) if words else None
            if name is not None:
                found = [
                    (place, slot)
                    for place, word in enumerate(words[1:], 1)
                    if (slot := self.add(f"{name}.{word.decode('ascii', 'replace')}", self.namespace))
                    is not None
                ]
                family.pick = picker([place for place, _ in found])
                family.slots = Slots(slot for _, slot in found)
            self.families.append(family)
        self.keep({slot for family in self.families for slot in family.slots})

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.families = []


class ProtocolsSource(Source):
    """Protocol counters of the agent's own network namespace."""

    name = "protocols"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing(*(f"proc/net/{file}" for file in FILES))

    def open(self) -> None:
        """See `Source.open`."""
        for file in FILES:
            self.parts.append(
                ProtocolsPart(HostFile(self.path(f"proc/net/{file}"), whole=True), self.columns)
            )
