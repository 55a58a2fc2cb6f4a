"""Gradient exchange between the workload's two ranks over one TCP connection."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time

import numpy as np

from reveal_core.lab.lossfilter import attach_loss
from reveal_core.lab.model import Floats

_HEADER = struct.Struct("!4sIQII")
_MAGIC = b"RVLB"
_USER_TIMEOUT_MS = 5000
"""A connection whose data stays unacknowledged for so long is dead and is set up anew: after an outage, TCP's
own back-off would wait about as long again as the outage lasted."""


class LinkLost(Exception):
    """The connection broke; both ranks set it up anew and take up rank 0's state."""


class Exchange:
    """The connection of one rank to the other.

    Rank 0 listens, rank 1 connects. A new connection replaces a dead one; nothing is lost but the step under
    way.

    Parameters
    ----------
    rank
        0 or 1.
    address
        IPv4 address and port that rank 0 listens on.
    """

    def __init__(self, rank: int, address: tuple[str, int]) -> None:
        self.rank = rank
        self.address = address
        self._listener: socket.socket | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._loss = 0.0
        if rank == 0:
            self._listener = socket.create_server(address, backlog=2)
            self._listener.setblocking(False)

    @property
    def port(self) -> int:
        """Port that rank 0 listens on."""
        assert self._listener is not None
        return int(self._listener.getsockname()[1])

    def set_loss(self, probability: float) -> None:
        """Lose what this rank receives with a probability, now and on later connections; zero ends it."""
        with self._lock:
            if self._socket is not None and probability != self._loss:
                attach_loss(self._socket, probability)
            self._loss = probability

    def connect(self) -> None:
        """Set the connection up, waiting for the other rank for as long as it takes."""
        self.close()
        sock = self._accept() if self._listener is not None else self._dial()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _USER_TIMEOUT_MS)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        sock.setblocking(False)
        with self._lock:
            self._socket = sock
            if self._loss:
                attach_loss(sock, self._loss)

    def close(self) -> None:
        """Close the connection, if there is one."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = None

    def _accept(self) -> socket.socket:
        assert self._listener is not None
        while True:
            select.select([self._listener], [], [])
            try:
                return self._listener.accept()[0]
            except (BlockingIOError, ConnectionError):
                continue  # whoever knocked has gone again

    def _dial(self) -> socket.socket:
        while True:
            try:
                return socket.create_connection(self.address, timeout=1.0)
            except OSError:
                time.sleep(
                    0.1
                )  # rank 0 does not listen yet, or the link is down: an outage is not the end of a job

    def transfer(self, outgoing: memoryview | None, incoming: memoryview | None) -> None:
        """Send and receive at the same time, whole buffers.

        Raises
        ------
        LinkLost
            If the connection breaks, or the other rank has set up a new one.
        """
        sock = self._socket
        if sock is None:
            raise LinkLost("there is no connection")
        out = outgoing.cast("B") if outgoing is not None else memoryview(b"")
        into = incoming.cast("B") if incoming is not None else memoryview(bytearray())
        poll = select.poll()
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        while out or into:
            poll.register(sock, (select.POLLIN if into else 0) | (select.POLLOUT if out else 0))
            for descriptor, events in poll.poll():
                if descriptor != sock.fileno():
                    raise LinkLost("the other rank has set up a new connection")
                try:
                    if out and events & (select.POLLOUT | select.POLLERR | select.POLLHUP):
                        out = out[sock.send(out) :]
                    if into and events & (select.POLLIN | select.POLLERR | select.POLLHUP):
                        count = sock.recv_into(into)
                        if count == 0:
                            raise LinkLost("the other rank has closed the connection")
                        into = into[count:]
                except BlockingIOError:
                    continue
                except OSError as error:
                    raise LinkLost(str(error)) from None

    def meet(self, step: int, passes: int, then_evaluate: bool) -> tuple[int, int, bool]:
        """Swap step numbers and plans, and return rank 0's on both ranks.

        Raises
        ------
        LinkLost
            As `transfer`, and if the ranks are not at the same step.
        """
        mine = _HEADER.pack(_MAGIC, self.rank, step, passes, then_evaluate)
        theirs = bytearray(_HEADER.size)
        self.transfer(memoryview(mine), memoryview(theirs))
        magic, rank, other, *plan = _HEADER.unpack(theirs)
        if magic != _MAGIC or rank == self.rank or other != step:
            raise LinkLost(f"rank {self.rank} is at step {step}, and heard of step {other}")
        return (step, passes, then_evaluate) if self.rank == 0 else (other, int(plan[0]), bool(plan[1]))

    def adopt(self, step: int, passes: int, weights: Floats) -> tuple[int, int]:
        """Give rank 1 the step number, the plan and the weights of rank 0, after a connection was set up.

        Raises
        ------
        LinkLost
            As `transfer`.
        """
        header = bytearray(_HEADER.pack(_MAGIC, self.rank, step, passes, 0))
        if self.rank == 0:
            self.transfer(memoryview(header), None)
            self.transfer(weights.data, None)
            return step, passes
        self.transfer(None, memoryview(header))
        self.transfer(None, weights.data)
        _, _, step, passes, _ = _HEADER.unpack(header)
        return step, passes

    def all_reduce(self, values: Floats, inbox: Floats) -> None:
        """Replace a vector by its sum over both ranks: each adds up one half, then they swap the sums.

        Parameters
        ----------
        values
            Flat vector, summed in place.
        inbox
            Scratch of the same length.

        Raises
        ------
        LinkLost
            As `transfer`.
        """
        middle = len(values) // 2
        halves = (values[:middle], values[middle:])
        own, other = halves[self.rank], halves[1 - self.rank]
        arrived = inbox[: len(own)]
        self.transfer(other.data, arrived.data)
        np.add(own, arrived, out=own)
        self.transfer(own.data, other.data)
