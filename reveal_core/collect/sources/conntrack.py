"""The kernel's table of tracked connections, which drops what does not fit."""

from __future__ import annotations

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import Part, SingleValuePart
from reveal_core.collect.source import Source
from reveal_core.collect.sources.protocols import HOST

LEVELS = {
    "proc/sys/net/netfilter/nf_conntrack_count": "conntrack.count",
    "proc/sys/net/netfilter/nf_conntrack_max": "conntrack.max",
}
STATISTICS = "proc/net/stat/nf_conntrack"
ZERO = b"00000000"
"""What most of the table holds, on a healthy host nearly all of it."""
ENTRIES = b"entries"
"""Size of the table, repeated in every row; it is no counter."""


class ConntrackPart(Part):
    """``/proc/net/stat/nf_conntrack``: a line of names, then a row per possible core, in hexadecimal.

    Each core's counters have 32 bits and wrap by themselves, so their sum is kept to 32 bits too: then it
    wraps like one of them. Columns that the kernel writes as constant zeros since 4.9 are not read.
    """

    def __init__(self, file: HostFile, columns: Columns) -> None:
        super().__init__(file, columns)
        self.head = b""
        self.places: list[tuple[int, int]] = []
        self.width = 0
        self.cores = 0

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        head, _, body = data.partition(b"\n")
        if head != self.head:
            self._lay_out(head)
        words = body.split()
        cores = body.count(b"\n")
        # The kernel writes a row of every core that could be there, so fewer rows are a torn read.
        if not body.endswith(b"\n") or cores < max(self.cores, 1) or len(words) != self.width * cores:
            raise ValueError("the table is not whole")
        self.cores = cores
        sums = [
            (slot, sum([int(word, 16) for word in words[place :: self.width] if word != ZERO]) & 0xFFFFFFFF)
            for place, slot in self.places
        ]
        for slot, value in sums:
            self.columns.row[slot] = value

    def _lay_out(self, head: bytes) -> None:
        names = head.split()
        if ENTRIES not in names:
            raise ValueError("the table has no names")
        self.places = [
            (place, slot)
            for place, name in enumerate(names)
            if name != ENTRIES
            and (slot := self.add(f"conntrack.{name.decode('ascii', 'replace')}", HOST)) is not None
        ]
        self.keep({slot for _, slot in self.places})
        self.head, self.width, self.cores = head, len(names), 0


class ConntrackSource(Source):
    """How full the table is, and what was dropped for it, in the agent's own network namespace."""

    name = "conntrack"
    period_ms = 1000

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing(
            *LEVELS,
            STATISTICS,
            hint="no connections are tracked here; modprobe nf_conntrack begins it",
        )

    def open(self) -> None:
        """See `Source.open`."""
        for file, metric in LEVELS.items():
            self.parts.append(
                SingleValuePart(HostFile(self.path(file), whole=True), self.columns, (metric, 1.0), HOST)
            )
        # A kernel may be built without the table of statistics.
        if self.path(STATISTICS).exists():
            self.parts.append(ConntrackPart(HostFile(self.path(STATISTICS)), self.columns))
