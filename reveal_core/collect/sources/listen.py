"""Queues of listening TCP sockets: connections that wait for a program to accept them.

The kernel is asked for its listening sockets alone (``NETLINK_SOCK_DIAG``), which takes microseconds;
``/proc/net/tcp`` lists every connection there is.
"""

from __future__ import annotations

import socket
import struct

from reveal_core.collect.columns import Columns, Slots
from reveal_core.collect.netlink import Netlink, bodies, request
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source
from reveal_core.collect.sources.live import not_live
from reveal_core.collect.sources.protocols import HOST

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
TCP_LISTEN = 10
QUERY = struct.Struct("=BBBBI48x")
"""``struct inet_diag_req_v2``: family, protocol, extensions, padding, states, and an empty socket id."""
QUEUES = struct.Struct("=56xII")
"""``struct inet_diag_msg`` up to ``idiag_rqueue`` and ``idiag_wqueue``."""
ANSWER = 72
"""Its whole length."""

Queue = tuple[int, int]
"""Connections waiting, and the limit of the backlog."""


def query(family: int) -> bytes:
    """Return the request for all listening TCP sockets of an address family."""
    return request(SOCK_DIAG_BY_FAMILY, QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << TCP_LISTEN))


def queues(piece: bytes) -> tuple[list[Queue], bool]:
    """Return the queues that a piece of an answer tells of, and whether it is the last piece.

    Raises
    ------
    OSError
        If the kernel answered with an error.
    ValueError
        If the piece is malformed.
    """
    places, last = bodies(piece, SOCK_DIAG_BY_FAMILY, ANSWER)
    return [QUEUES.unpack_from(piece, at) for at, _ in places], last


class ListenFile(Netlink):
    """The kernel's list of listening sockets, asked over a socket that stays open."""

    path = "the kernel's list of listening sockets"

    def __init__(self) -> None:
        super().__init__(NETLINK_SOCK_DIAG)
        self.queries = [query(socket.AF_INET), query(socket.AF_INET6)]

    def read(self) -> tuple[Queue, ...]:
        """Return the queue of every listening socket.

        Raises
        ------
        OSError, ValueError
            If the kernel does not tell.
        """
        found: list[Queue] = []
        for message in self.queries:
            found += self.ask(message, queues)
        return tuple(found)


class ListenPart(Part):
    """Length of the queues, over all listening sockets."""

    METRICS = ("listen.sockets", "listen.queue_total", "listen.queue_max", "listen.fullest")

    def __init__(self, file: ListenFile, columns: Columns) -> None:
        super().__init__(file, columns)
        self.slots = Slots(
            self.add(metric, HOST, 0.01 if metric == "listen.fullest" else 1.0) for metric in self.METRICS
        )

    def parse(self, data: tuple[Queue, ...]) -> None:
        """See `Part.parse`."""
        waiting = [length for length, _ in data]
        # The kernel turns connections away once more wait than the limit says: the queue holds one more.
        fullest = max((length * 10_000 // (limit + 1) for length, limit in data if length), default=0)
        values = [len(data), sum(waiting), max(waiting, default=0), min(fullest, 10_000)]
        self.columns.put(self.slots, values)


class ListenSource(Source):
    """Connections that wait to be accepted, in the agent's own network namespace."""

    name = "listen"
    period_ms = 2000  # thirty times as dear as a value of a file

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if (elsewhere := not_live(self.root)) is not None:
            return elsewhere
        file = ListenFile()
        try:
            file.read()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"{file.path}: {str(reason).lower()}: modprobe tcp_diag may help"
        finally:
            file.close()
        return None

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(ListenPart(ListenFile(), self.columns))
