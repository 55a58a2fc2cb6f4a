"""Memory of the host."""

from __future__ import annotations

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import FieldsPart, Target
from reveal_core.collect.source import Source


def meminfo_target(family: str, name: bytes) -> Target:
    """Return metric and scale of a name of a meminfo file: kB of 1024 bytes, but huge pages are counted."""
    field = name.decode("ascii", "replace").rstrip(":").replace("(", "_").rstrip(")")
    return f"{family}.{field}", 1.0 if field.startswith("HugePages_") else 1024.0


class MeminfoSource(Source):
    """Every field of ``/proc/meminfo`` that can move."""

    name = "meminfo"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/meminfo")

    def open(self) -> None:
        """See `Source.open`."""
        file = HostFile(self.path("proc/meminfo"), whole=True)
        self.parts.append(FieldsPart(file, self.columns, lambda name: meminfo_target("meminfo", name)))
