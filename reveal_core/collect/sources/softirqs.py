"""Deferred interrupt work per core."""

from __future__ import annotations

from reveal_core.collect.columns import Slots
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import Part, Picker, integers, picker
from reveal_core.collect.source import Source


class SoftirqsPart(Part):
    """``/proc/softirqs``: a line per kind, a column per core."""

    cores: tuple[bytes, ...] = ()
    kinds: tuple[bytes, ...] = ()
    cells: Picker = staticmethod(picker([]))
    slots = Slots()

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        tokens = data.split()
        width = len(self.cores)
        if (
            tuple(tokens[:width]) != self.cores
            or tuple(tokens[width :: width + 1]) != self.kinds
            or not width
        ):
            self._lay_out(data)
        self.columns.put(self.slots, integers(self.cells(tokens)))

    def _lay_out(self, data: bytes) -> None:
        lines = [line.split() for line in data.split(b"\n") if line.strip()]
        if not lines or not all(core.startswith(b"CPU") for core in lines[0]):
            raise ValueError("no header of cores")
        width = len(lines[0])
        if any(len(line) != width + 1 for line in lines[1:]):
            raise ValueError("the lines differ in length")
        self.cores = tuple(lines[0])
        self.kinds = tuple(line[0] for line in lines[1:])
        places, slots = [], []
        for number, kind in enumerate(self.kinds):
            for index, core in enumerate(self.cores):
                metric = f"softirq.{kind.rstrip(b':').decode('ascii', 'replace')}"
                slot = self.add(metric, core.decode("ascii", "replace").lower())
                if slot is not None:
                    places.append(width + number * (width + 1) + 1 + index)
                    slots.append(slot)
        self.cells, self.slots = picker(places), Slots(slots)
        self.keep(self.slots)


class SoftirqsSource(Source):
    """Softirqs per kind and core."""

    name = "softirqs"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/softirqs")

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(SoftirqsPart(HostFile(self.path("proc/softirqs"), whole=True), self.columns))
