"""Packets that each core takes off the cards' queues."""

from __future__ import annotations

from collections.abc import Iterable

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import RowsPart
from reveal_core.collect.source import Source

FIELDS = (0, 1, 2, 9, 10)
"""Places of processed, dropped, time_squeeze, received_rps and flow_limit_count; the others are always zero
or no counts.
"""
CORE = 12
"""Place of the core's number, written by Linux 5.10 and later; before, a row's place was all there was."""


class SoftnetPart(RowsPart):
    """``/proc/net/softnet_stat``: a row per core, in hexadecimal, without a header."""

    metrics = (
        "softnet.processed",
        "softnet.dropped",
        "softnet.time_squeeze",
        "softnet.received_rps",
        "softnet.flow_limit",
    )
    base = 16
    idle_rows = True

    def split(self, data: bytes) -> Iterable[tuple[bytes, list[bytes]]]:
        """See `RowsPart.split`."""
        for number, line in enumerate(data.splitlines()):
            words = line.split()
            core = int(words[CORE], 16) if len(words) > CORE else number
            yield b"cpu%d" % core, [words[place] for place in FIELDS if place < len(words)]


class SoftnetSource(Source):
    """Packets processed and dropped by each core."""

    name = "softnet"
    period_ms = 200

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/net/softnet_stat")

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(SoftnetPart(HostFile(self.path("proc/net/softnet_stat")), self.columns))
