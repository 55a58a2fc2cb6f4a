"""Pressure stall information."""

from __future__ import annotations

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import Part, integers
from reveal_core.collect.source import Source

RESOURCES = ("cpu", "memory", "io", "irq")


class PressurePart(Part):
    """A pressure file: ``some avg10=0.00 avg60=0.00 avg300=0.00 total=12`` and the same for ``full``.

    Only the totals are read: the averages are made from them.
    """

    def __init__(self, file: HostFile, columns: Columns, prefix: str, instance: str = "") -> None:
        super().__init__(file, columns)
        self.prefix = prefix
        self.instance = instance
        self.kinds: list[bytes] = []
        self.slots: list[int | None] = []

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        tokens = data.split()
        kinds = tokens[0::5]
        if kinds != self.kinds:
            self.slots = [
                self.add(self.prefix + kind.decode("ascii", "replace"), self.instance) for kind in kinds
            ]
            self.kinds = kinds
            self.keep({slot for slot in self.slots if slot is not None})
        totals = [token.removeprefix(b"total=") for token in tokens[4::5]]
        for slot, value in zip(self.slots, integers(totals), strict=True):
            if slot is not None:
                self.columns.row[slot] = value


class PressureSource(Source):
    """Stall time of the host for CPU, memory, I/O and interrupts."""

    name = "pressure"
    period_ms = 200  # a file for one or two values

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing(
            *(f"proc/pressure/{name}" for name in RESOURCES),
            hint="the kernel was built without CONFIG_PSI or started with psi=0",
        )

    def open(self) -> None:
        """See `Source.open`."""
        for name in RESOURCES:
            path = self.path(f"proc/pressure/{name}")
            if path.exists():
                self.parts.append(PressurePart(HostFile(path, whole=True), self.columns, f"psi.{name}_"))
