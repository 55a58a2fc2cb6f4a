"""Sockets in use and their memory."""

from __future__ import annotations

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import Part, Picker, integers, picker
from reveal_core.collect.source import Source
from reveal_core.collect.sources.protocols import HOST


class SockstatPart(Part):
    """``/proc/net/sockstat``: ``TCP: inuse 1 orphan 0 tw 2 alloc 1 mem 82``."""

    def __init__(self, file: HostFile, columns: Columns, namespace: str = HOST) -> None:
        super().__init__(file, columns)
        self.namespace = namespace
        self.names: Picker = picker([])
        self.expected: tuple[bytes, ...] = ()
        self.count = -1
        self.values: Picker = picker([])
        self.slots: list[int] = []

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        tokens = data.split()
        if len(tokens) != self.count or self.names(tokens) != self.expected:
            self._lay_out(data, len(tokens))
        row = self.columns.row
        for slot, value in zip(self.slots, integers(self.values(tokens)), strict=True):
            row[slot] = value

    def _lay_out(self, data: bytes, count: int) -> None:
        names: list[bytes] = []
        name_places: list[int] = []
        places: list[int] = []
        self.slots = []
        position = 0
        for line in data.split(b"\n"):
            words = line.split()
            protocol = words[0].rstrip(b":").decode("ascii", "replace") if words else ""
            for index in (0, *range(1, len(words) - 1, 2)) if words else ():
                names.append(words[index])
                name_places.append(position + index)
                if index == 0:
                    continue
                metric = f"sockstat.{protocol}_{words[index].decode('ascii', 'replace')}"
                slot = self.add(metric, self.namespace)
                if slot is not None and slot not in self.slots:
                    places.append(position + index + 1)
                    self.slots.append(slot)
            position += len(words)
        self.names, self.expected = picker(name_places), tuple(names)
        self.values, self.count = picker(places), count
        self.keep(self.slots)


class SockstatSource(Source):
    """Sockets of the agent's own network namespace; levels that move slowly."""

    name = "sockstat"
    period_ms = 200

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/net/sockstat")

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(SockstatPart(HostFile(self.path("proc/net/sockstat"), whole=True), self.columns))
