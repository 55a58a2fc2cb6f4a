"""Run queue delay per core."""

from __future__ import annotations

from collections.abc import Iterable

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import RowsPart
from reveal_core.collect.source import Source


class SchedstatPart(RowsPart):
    """``/proc/schedstat``: the last three of a core's nine numbers: run time, run delay, time slices."""

    metrics = ("sched.run_time", "sched.run_delay", "sched.timeslices")
    idle_rows = True

    def split(self, data: bytes) -> Iterable[tuple[bytes, list[bytes]]]:
        """See `RowsPart.split`."""
        for line in data.split(b"\n"):
            if line.startswith(b"cpu"):
                words = line.split()
                yield words[0], words[7:10]


class SchedstatSource(Source):
    """Time that tasks ran and waited, per core."""

    name = "schedstat"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/schedstat", hint="the kernel was built without CONFIG_SCHEDSTATS")

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(SchedstatPart(HostFile(self.path("proc/schedstat")), self.columns))
