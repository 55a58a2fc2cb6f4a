"""Queues of listening TCP sockets: connections that wait for a program to accept them.

The kernel is asked for its listening sockets alone (``NETLINK_SOCK_DIAG``), which takes microseconds;
``/proc/net/tcp`` lists every connection there is.
"""

from __future__ import annotations

import os
import socket
import struct

from reveal_core.collect.columns import Columns, Slots
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source
from reveal_core.collect.sources.live import not_live
from reveal_core.collect.sources.protocols import HOST

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_REQUEST_DUMP = 0x001 | 0x300
TCP_LISTEN = 10
HEADER = struct.Struct("=IHHII")
"""``struct nlmsghdr``: length, type, flags, sequence, port."""
QUERY = struct.Struct("=BBBBI48x")
"""``struct inet_diag_req_v2``: family, protocol, extensions, padding, states, and an empty socket id."""
QUEUES = struct.Struct("=56xII")
"""``struct inet_diag_msg`` up to ``idiag_rqueue`` and ``idiag_wqueue``."""
ANSWER = 72
"""Its whole length."""
STATUS = struct.Struct("=i")
SEQUENCE = 1
"""The same at every read, so that answers can be compared; a socket that failed is not used again."""
ROOM = 65536
"""The kernel answers in pieces of at most 32 KiB."""
MAX_PIECES = 4096

Queue = tuple[int, int]
"""Connections waiting, and the limit of the backlog."""


def query(family: int) -> bytes:
    """Return the request for all listening TCP sockets of an address family."""
    body = QUERY.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << TCP_LISTEN)
    size = HEADER.size + len(body)
    return HEADER.pack(size, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, SEQUENCE, 0) + body


def queues(piece: bytes) -> tuple[list[Queue], bool]:
    """Return the queues that a piece of an answer tells of, and whether it is the last piece.

    Raises
    ------
    OSError
        If the kernel answered with an error.
    ValueError
        If the piece is malformed.
    """
    found: list[Queue] = []
    at = 0
    while at < len(piece):
        if len(piece) - at < HEADER.size:
            raise ValueError("a message without its header")
        size, kind, _, sequence, _ = HEADER.unpack_from(piece, at)
        if not HEADER.size <= size <= len(piece) - at or sequence != SEQUENCE:
            raise ValueError("a message of a wrong length or sequence")
        body = at + HEADER.size
        if kind in (NLMSG_ERROR, NLMSG_DONE):
            code = STATUS.unpack_from(piece, body)[0] if size >= HEADER.size + STATUS.size else 0
            if code < 0:
                raise OSError(-code, os.strerror(-code))
            return found, True
        if kind == SOCK_DIAG_BY_FAMILY:
            if size < HEADER.size + ANSWER:
                raise ValueError("an answer that is too short")
            found.append(QUEUES.unpack_from(piece, body))
        at += (size + 3) & ~3
    return found, False


class ListenFile:
    """The kernel's list of listening sockets, asked over a socket that stays open."""

    path = "the kernel's list of listening sockets"

    def __init__(self) -> None:
        self.socket: socket.socket | None = None
        self.queries = [query(socket.AF_INET), query(socket.AF_INET6)]

    def read(self) -> tuple[Queue, ...]:
        """Return the queue of every listening socket.

        Raises
        ------
        OSError, ValueError
            If the kernel does not tell.
        """
        try:
            if self.socket is None:
                self.socket = socket.socket(
                    socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_SOCK_DIAG
                )
                self.socket.setblocking(False)  # an answer is made by the call that asks for it
            found: list[Queue] = []
            for message in self.queries:
                self.socket.send(message)
                found += self._answer(self.socket)
        except (OSError, ValueError):
            self.close()
            raise
        return tuple(found)

    @staticmethod
    def _answer(asked: socket.socket) -> list[Queue]:
        found: list[Queue] = []
        for _ in range(MAX_PIECES):
            more, last = queues(asked.recv(ROOM))
            found += more
            if last:
                return found
        raise ValueError("an answer without an end")

    def close(self) -> None:
        """Close the socket; a later read opens another."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None


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
