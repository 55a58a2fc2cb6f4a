"""Interrupts per line and core."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import numpy.typing as npt

from reveal_core.collect.columns import Columns, Slots
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source, left_out_note

FULL_CORES = 16
"""Up to this many cores, a line that ever fired has a channel on each; beyond, only where it fired."""
MAX_CELLS = 4096
"""Most channels of device lines; a host with more lines times cores than that keeps the first that fired."""

WIDE = 64
"""A host with more cores has a table of megabytes: it is read in a thread of its own, and less often."""
CELL = 11
"""The kernel prints a count in ten columns behind a blank, and it has at most ten digits."""

WHOLE_HOST = (b"ERR:", b"MIS:", b"Err:")
"""Lines with one count for the whole host."""

_HARDWARE = re.compile(r"\d+|\d+-\S+|Level|Edge|None|level|edge|fasteoi")


def line_label(description: str) -> str:
    """Return what a device's line is for: the names behind controller, hardware number and trigger.

    >>> line_label("PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0")
    'virtio1-req.0'
    >>> line_label("IR-IO-APIC-fasteoi   ehci_hcd:usb1, mmc0")
    'ehci_hcd:usb1,mmc0'
    """
    words = description.split()[1:]
    while words and _HARDWARE.fullmatch(words[0]):
        words.pop(0)
    return "".join(words).replace("/", "_")


class Line:
    """A line of the table: its name, what it last said, and the slot of each core's count."""

    __slots__ = ("counts", "description", "instance", "key", "metric", "slots", "text")

    def __init__(self, key: bytes, description: bytes, metric: str, instance: str) -> None:
        self.key = key
        self.description = description
        self.metric = metric
        self.instance = instance
        self.text = b""
        self.counts: list[int] = []
        self.slots: dict[int, int] = {}

    def is_even(self) -> bool:
        """Return whether every count stands in a cell of its own width, as it does unless one outgrew it."""
        length = CELL * len(self.counts)
        text = self.text[len(self.key) : len(self.key) + length]
        if len(text) < length:
            return False
        cells = np.frombuffer(text, np.uint8).reshape(-1, CELL)
        blank, digit = cells == ord(" "), (cells >= ord("0")) & (cells <= ord("9"))
        ended = digit[:, :-1] & ~digit[:, 1:]  # a number that does not reach its cell's last column
        return bool(blank[:, 0].all() and digit[:, -1].all() and (blank | digit).all() and not ended.any())


class InterruptsPart(Part):
    """``/proc/interrupts``. Only lines that changed since the last read are parsed."""

    def __init__(self, file: HostFile, columns: Columns) -> None:
        super().__init__(file, columns)
        self.header = b""
        self.cores: list[str] = []
        self.lines: list[Line] = []
        self.totals: list[int] = []
        self.total_slots = Slots()
        self.cells = 0
        self.cells_left_out = 0
        self.counted: list[Line] = []
        self.cell_starts: npt.NDArray[np.int64] | None = None

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        if not self._parse_changes(data):
            self._parse_lines(data)
        self.columns.put(self.total_slots, self.totals)

    def _parse_lines(self, data: bytes) -> None:
        header, _, table = data.partition(b"\n")
        texts = [line for line in table.split(b"\n") if b":" in line]  # some kernels leave a line empty
        if (
            header != self.header
            or len(texts) != len(self.lines)
            or not all(text.startswith(line.key) for line, text in zip(self.lines, texts, strict=True))
        ):
            self._lay_out(header, texts)
        for line, text in zip(self.lines, texts, strict=True):
            if text != line.text and not self._parse_line(line, text):
                self._lay_out(header, texts)  # the line has gone to another device
                break
        self._map_cells(data, texts)

    def _parse_line(self, line: Line, text: bytes) -> bool:
        """Put a line's counts into the row; return whether it still describes the same device."""
        row = self.columns.row
        width = len(self.cores)
        words = text[len(line.key) :].split(None, width)
        if (words.pop() if len(words) > width else b"") != line.description:
            return False
        if line.key.strip() in WHOLE_HOST:
            if 0 in line.slots:
                row[line.slots[0]] = int(words[0])
        else:
            counts = list(map(int, words))
            if len(counts) != width:
                raise ValueError(f"line {line.key.decode('ascii', 'replace').strip()} is short")
            if len(line.slots) < width and line.metric:
                self._extend(line, counts)
            for core, slot in line.slots.items():
                row[slot] = counts[core]
            before = line.counts or [0] * width
            self.totals = [
                total + new - old for total, new, old in zip(self.totals, counts, before, strict=True)
            ]
            line.counts = counts
        line.text = text
        return True

    def _map_cells(self, data: bytes, texts: list[bytes]) -> None:
        """Work out where the counts of each line stand in the file, if they all stand in even cells."""
        self.cell_starts = None
        counted = [(n, line) for n, line in enumerate(self.lines) if line.counts]
        if len(self.cores) <= FULL_CORES or not all(line.is_even() for _, line in counted):
            return
        begins, at = [], data.find(b"\n") + 1
        for text in texts:
            at = data.index(text, at)
            begins.append(at)
            at += len(text)
        self.counted = [line for _, line in counted]
        self.cell_starts = np.array([begins[n] + len(line.key) for n, line in counted], dtype=np.int64)

    def _parse_changes(self, data: bytes) -> bool:
        """Take over only the counts that changed since the last read; return False if more did.

        On a wide host a table of megabytes differs in few places: a device fires on some of hundreds of
        cores.
        """
        starts, before = self.cell_starts, self.seen
        if starts is None or before is None or len(data) != len(before):
            return False
        changed = np.flatnonzero(np.frombuffer(data, np.uint8) != np.frombuffer(before, np.uint8))
        lines = np.searchsorted(starts, changed, side="right") - 1
        cells = (changed - starts[lines]) // CELL
        width = len(self.cores)
        if (lines < 0).any() or (cells >= width).any():
            return False
        row = self.columns.row
        for place in np.unique(lines * width + cells).tolist():
            number, core = divmod(place, width)
            line = self.counted[number]
            start = int(starts[number]) + core * CELL
            count = int(data[start : start + CELL])
            self.totals[core] += count - line.counts[core]
            line.counts[core] = count
            if core not in line.slots and line.metric:
                self._extend(line, line.counts)
            if (slot := line.slots.get(core)) is not None:
                row[slot] = count
        return True

    def _extend(self, line: Line, counts: list[int]) -> None:
        """Add channels of a line for cores where it now has something to say."""
        if line.metric == "irq.device":
            if len(counts) <= FULL_CORES:
                cores = list(range(len(counts))) if any(counts) else []
            else:
                cores = [core for core, count in enumerate(counts) if count]
        else:
            cores = list(range(len(counts)))
        for core in cores:
            if core in line.slots:
                continue
            if line.metric == "irq.device":
                if self.cells >= MAX_CELLS:
                    self.cells_left_out += 1
                    continue
                self.cells += 1
            instance = f"{line.instance}:{self.cores[core]}" if line.instance else self.cores[core]
            slot = self.add(line.metric, instance)
            if slot is None:  # a line of the architecture that the catalogue does not know
                line.metric = ""
                return
            line.slots[core] = slot

    def _lay_out(self, header: bytes, texts: list[bytes]) -> None:
        cores = header.split()
        if not cores or not all(core.startswith(b"CPU") for core in cores):
            raise ValueError("no header of cores")
        self.header = header
        self.cores = [core.decode("ascii", "replace").lower() for core in cores]
        names = [text.partition(b":")[0].strip().decode("ascii", "replace") for text in texts]
        width = len(cores)
        keys = [text[: text.find(b":") + 1] for text in texts]
        rests = [
            b"".join(text[len(key) :].split(None, width)[width:])
            for key, text in zip(keys, texts, strict=True)
        ]
        labels = [
            line_label(rest.decode("utf-8", "replace")) if name.isdigit() else ""
            for name, rest in zip(names, rests, strict=True)
        ]
        shared = Counter(labels)
        self.cells = self.cells_left_out = 0
        self.totals = [0] * len(cores)
        self.total_slots = Slots(self.add("irq.total", core) for core in self.cores)
        self.lines = []
        for name, label, key, rest in zip(names, labels, keys, rests, strict=True):
            if not name.isdigit():
                line = Line(key, rest, f"irq.{name}", "")
                if name.encode() + b":" in WHOLE_HOST and (slot := self.add(line.metric)) is not None:
                    line.slots[0] = slot
            elif shared[label] > 1 or not label:
                line = Line(key, rest, "irq.device", f"{label}-irq{name}".lstrip("-"))
            else:
                line = Line(key, rest, "irq.device", label)
            self.lines.append(line)
        for line, text in zip(self.lines, texts, strict=True):
            self._parse_line(line, text)
        kept = {slot for line in self.lines for slot in line.slots.values()}
        self.keep(kept.union(self.total_slots))

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.header = b""  # so the table is laid out anew


class InterruptsSource(Source):
    """Interrupts of each device line and of the architecture's own lines, per core, and each core's total."""

    name = "interrupts"
    period_ms = 500  # one of the dearest files there are: a line per device and core

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/interrupts")

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        left_out = sum(part.cells_left_out for part in self.parts if isinstance(part, InterruptsPart))
        return left_out_note(left_out, "lines on cores", MAX_CELLS)

    def open(self) -> None:
        """See `Source.open`."""
        file = HostFile(self.path("proc/interrupts"), size=16384)
        if file.read().partition(b"\n")[0].count(b"CPU") > WIDE:
            self.detached = True
            self.period_ms = 2000
        self.parts.append(InterruptsPart(file, self.columns))
