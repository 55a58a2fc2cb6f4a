"""Questions to the kernel over netlink that it answers with a list, in pieces of many messages.

An answer is made by the calls that ask for it and take it, so nothing here ever waits for one to arrive.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from typing import TypeVar

# linux/netlink.h
NLMSG_ERROR = 2
NLMSG_DONE = 3
NLM_F_REQUEST_DUMP = 0x001 | 0x300
HEADER = struct.Struct("=IHHII")
"""``struct nlmsghdr``: length, type, flags, sequence, port."""
STATUS = struct.Struct("=i")
SEQUENCE = 1
"""The same at every read, so that answers can be compared; a socket that failed is not used again."""
ROOM = 65536
"""The kernel answers in pieces of at most 32 KiB."""
MAX_PIECES = 4096

Item = TypeVar("Item")


def request(kind: int, body: bytes) -> bytes:
    """Return the message that asks for all there is of a kind."""
    return HEADER.pack(HEADER.size + len(body), kind, NLM_F_REQUEST_DUMP, SEQUENCE, 0) + body


def bodies(piece: bytes, kind: int, least: int) -> tuple[list[tuple[int, int]], bool]:
    """Return where the messages of a kind begin and end in a piece, and whether it is the last piece.

    Parameters
    ----------
    piece
        Of an answer.
    kind
        Type of the messages that are wanted.
    least
        How long each of them is at least, without its header.

    Raises
    ------
    OSError
        If the kernel answered with an error.
    ValueError
        If the piece is malformed.
    """
    found: list[tuple[int, int]] = []
    at = 0
    while at < len(piece):
        if len(piece) - at < HEADER.size:
            raise ValueError("a message without its header")
        size, this, _, sequence, _ = HEADER.unpack_from(piece, at)
        if not HEADER.size <= size <= len(piece) - at or sequence != SEQUENCE:
            raise ValueError("a message of a wrong length or sequence")
        body = at + HEADER.size
        if this in (NLMSG_ERROR, NLMSG_DONE):
            code = STATUS.unpack_from(piece, body)[0] if size >= HEADER.size + STATUS.size else 0
            if code < 0:
                raise OSError(-code, os.strerror(-code))
            return found, True
        if this == kind:
            if size < HEADER.size + least:
                raise ValueError("an answer that is too short")
            found.append((body, at + size))
        at += (size + 3) & ~3
    return found, False


class Netlink:
    """A socket to one part of the kernel that stays open between questions.

    Parameters
    ----------
    protocol
        The part of the kernel: ``NETLINK_*``.
    """

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol
        self.socket: socket.socket | None = None

    def ask(self, message: bytes, items: Callable[[bytes], tuple[list[Item], bool]]) -> list[Item]:
        """Send a request and return what all pieces of its answer tell of.

        Parameters
        ----------
        message
            The request.
        items
            Returns what one piece tells of, and whether it is the last piece.

        Raises
        ------
        OSError, ValueError
            If the kernel does not tell.
        """
        try:
            if self.socket is None:
                self.socket = socket.socket(
                    socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, self.protocol
                )
                self.socket.setblocking(False)
            self.socket.send(message)
            found: list[Item] = []
            for _ in range(MAX_PIECES):
                more, last = items(self.socket.recv(ROOM))
                found += more
                if last:
                    return found
            raise ValueError("an answer without an end")
        except (OSError, ValueError):
            self.close()
            raise

    def close(self) -> None:
        """Close the socket; a later question opens another."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
