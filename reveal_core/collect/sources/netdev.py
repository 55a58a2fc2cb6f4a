"""Network interfaces."""

from __future__ import annotations

from collections.abc import Iterable

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import RowsPart
from reveal_core.collect.source import Source, left_out_note

MAX_INTERFACES = 64
"""Most interfaces of a namespace that are read, in the kernel's order: cards stand before containers' own."""


class NetdevPart(RowsPart):
    """``/proc/net/dev`` of a network namespace.

    Parameters
    ----------
    file, columns
        The file, and where its values go.
    namespace
        Put before the names of another namespace's interfaces; ``""`` for the agent's own.
    """

    most = MAX_INTERFACES
    metrics = (
        "net.rx_bytes",
        "net.rx_packets",
        "net.rx_errors",
        "net.rx_dropped",
        "net.rx_fifo_errors",
        "net.rx_frame_errors",
        "net.rx_compressed",
        "net.multicast",
        "net.tx_bytes",
        "net.tx_packets",
        "net.tx_errors",
        "net.tx_dropped",
        "net.tx_fifo_errors",
        "net.collisions",
        "net.tx_carrier_errors",
        "net.tx_compressed",
    )

    def __init__(self, file: HostFile, columns: Columns, namespace: str = "") -> None:
        super().__init__(file, columns)
        self.prefix = f"{namespace}:" if namespace else ""

    def split(self, data: bytes) -> Iterable[tuple[bytes, list[bytes]]]:
        """See `RowsPart.split`."""
        for line in data.split(b"\n")[2:]:
            name, colon, values = line.rpartition(b":")
            if colon:
                yield name.strip(), values.split()

    def instance(self, key: bytes) -> str:
        """See `RowsPart.instance`."""
        return self.prefix + super().instance(key)


class NetdevSource(Source):
    """Traffic, errors and drops of each interface that was ever used."""

    name = "netdev"

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/net/dev")

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        more = sum(part.left_out for part in self.parts if isinstance(part, NetdevPart))
        return left_out_note(more, "interfaces are in use", MAX_INTERFACES)

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(NetdevPart(HostFile(self.path("proc/net/dev")), self.columns))
