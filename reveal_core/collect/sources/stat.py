"""CPU time per core and the totals of /proc/stat."""

from __future__ import annotations

from reveal_core.collect.columns import Slots
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import Part, Picker, integers, picker
from reveal_core.collect.source import Source

FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")


class StatPart(Part):
    """``/proc/stat``. Its long line of interrupt counts is skipped: /proc/interrupts says more."""

    width = 0
    cores: tuple[bytes, ...] = ()
    cells: Picker = staticmethod(picker([]))
    cell_slots = Slots()
    tail_length = 0
    total_names: tuple[bytes, ...] = ()
    total_slots = Slots()

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        cut = data.index(b"\nintr ")
        head = data[:cut].split()
        end = data.find(b"\n", cut + 1)
        total = data[cut + 6 : end].split(None, 1)[:1]
        tail = data[end:].split()
        count = 2 * len(self.total_names)
        if (
            not self.width
            or tuple(head[:: self.width]) != self.cores
            or len(tail) != self.tail_length
            or tuple(tail[0:count:2]) != self.total_names
        ):
            self._lay_out(data[:cut], tail)
            count = 2 * len(self.total_names)
        self.columns.put(self.cell_slots, integers(self.cells(head)))
        self.columns.put(self.total_slots, integers([*total, *tail[1:count:2]]))

    def _lay_out(self, head: bytes, tail: list[bytes]) -> None:
        lines = [line.split() for line in head.split(b"\n")]
        widths = {len(line) for line in lines}
        if len(widths) != 1 or lines[0][:1] != [b"cpu"]:
            raise ValueError("the lines of the cores differ in length")
        self.width = widths.pop()
        self.cores = tuple(line[0] for line in lines)
        places, slots = [], []
        for number, core in enumerate(self.cores[1:], 1):
            for offset, field in enumerate(FIELDS[: self.width - 1], 1):
                slot = self.add(f"cpu.{field}", core.decode("ascii", "replace"))
                if slot is not None:
                    places.append(number * self.width + offset)
                    slots.append(slot)
        self.tail_length = len(tail)
        names = []
        for name in tail[0::2]:
            if name == b"softirq":  # the last line, of another form
                break
            names.append(name)
        self.cells, self.cell_slots, self.total_names = picker(places), Slots(slots), tuple(names)
        totals = [self.add("stat.intr")]
        totals += [self.add(f"stat.{name.decode('ascii', 'replace')}") for name in names]
        self.total_slots = Slots(totals)
        self.keep({*self.cell_slots, *self.total_slots})


class StatSource(Source):
    """CPU time per core, context switches, forks, tasks that run and that are blocked."""

    name = "stat"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/stat")

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(StatPart(HostFile(self.path("proc/stat"), whole=True), self.columns))
