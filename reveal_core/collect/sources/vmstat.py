"""Virtual memory statistics."""

from __future__ import annotations

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import FieldsPart
from reveal_core.collect.source import Source


class VmstatSource(Source):
    """Every field of ``/proc/vmstat`` that the catalogue knows."""

    name = "vmstat"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/vmstat")

    def open(self) -> None:
        """See `Source.open`."""
        file = HostFile(self.path("proc/vmstat"), size=8192, record=64)  # lines of a name and a number
        self.parts.append(
            FieldsPart(file, self.columns, lambda name: (f"vmstat.{name.decode('ascii', 'replace')}", 1.0))
        )
