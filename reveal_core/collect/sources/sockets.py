"""Sockets by protocol."""

from __future__ import annotations

from collections.abc import Iterable

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import RowsPart
from reveal_core.collect.source import Source


class SocketsPart(RowsPart):
    """``/proc/net/protocols``: name, size of a socket, sockets, and what the protocol can do.

    It has what sockstat lacks: UNIX, SCTP and netlink sockets, which leak like any others.
    """

    metrics = ("sockets.in_use",)

    def split(self, data: bytes) -> Iterable[tuple[bytes, list[bytes]]]:
        """See `RowsPart.split`."""
        for line in data.split(b"\n")[1:]:
            words = line.split(None, 3)
            if len(words) == 4:
                yield words[0], [words[2]]


class SocketsSource(Source):
    """Sockets of each protocol that is in use, in the agent's own network namespace."""

    name = "sockets"
    period_ms = 1000

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/net/protocols")

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(SocketsPart(HostFile(self.path("proc/net/protocols")), self.columns))
