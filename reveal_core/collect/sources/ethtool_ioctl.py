"""What a driver of a network card counts, asked of the kernel by ``SIOCETHTOOL`` as ``ethtool -S`` does."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import struct
from array import array
from dataclasses import dataclass

from reveal_core.collect.guarded import GuardedFile

# linux/sockios.h, linux/ethtool.h
SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 0x03
ETHTOOL_GSTRINGS = 0x1B
ETHTOOL_GSTATS = 0x1D
ETHTOOL_GSSET_INFO = 0x37
ETH_SS_STATS = 1
STRING = 32
"""``ETH_GSTRING_LEN``: bytes of a name, ended by a zero."""
DRIVER_INFO = struct.Struct("=I32s164x")
"""``struct ethtool_drvinfo``: command and driver; version, firmware, bus and sizes are not looked at."""
SET_INFO = struct.Struct("=IIQI4x")
"""``struct ethtool_sset_info`` with room for the size of one set."""
HEAD = struct.Struct("=II")
"""``struct ethtool_stats``: command and number of values, which follow in 64 bits each."""
STRINGS_HEAD = struct.Struct("=III")
"""``struct ethtool_gstrings``: command, set and number of names, which follow."""
REQUEST = struct.Struct("@16sP16x")
"""``struct ifreq``: the interface's name and the address of what is asked for."""
SPARE = 16384
"""The kernel writes as many values as the driver has at that moment, not as many as were asked for, so there
is room for so many more: a driver whose queues were just added must not write over other memory.
"""
NO_COUNTERS = frozenset({errno.EOPNOTSUPP, errno.ENOTTY})


@dataclass(frozen=True, eq=False)
class Labels:
    """What tells the counters of a card apart: its driver and their names, in order.

    Two are the same only if they are one object, so that comparing them costs nothing.
    """

    driver: str
    names: tuple[str, ...]


Counters = tuple[Labels, bytes]
"""Labels, and the values as 64-bit integers of the machine."""


class EthtoolFile(GuardedFile[Counters]):
    """The driver's counters of one interface in the agent's own network namespace.

    Parameters
    ----------
    interface
        Its name.
    """

    def __init__(self, interface: str) -> None:
        super().__init__()
        self.path = f"driver counters of {interface}"
        self.interface = interface
        self.labels: Labels | None = None
        self._buffer = array("Q")
        self._socket: socket.socket | None = None

    def _read(self) -> Counters:
        """Return the counters; none where the driver has none.

        Raises
        ------
        OSError
            If the interface is gone or its driver refuses.
        """
        labels = self.labels
        count = self._count()
        if labels is None or len(labels.names) != count:
            labels = self.labels = Labels(self._driver(), self._names(count))
            self._buffer = array("Q", bytes(8 * (1 + count + SPARE)))
        if count == 0:
            return labels, b""
        HEAD.pack_into(self._buffer, 0, ETHTOOL_GSTATS, count)
        self._ask(self._buffer)
        given = HEAD.unpack_from(self._buffer, 0)[1]
        if given != count:
            self.labels = None
            raise OSError(errno.EAGAIN, "the driver's counters changed while they were read")
        return labels, memoryview(self._buffer)[1 : 1 + count].tobytes()

    def _driver(self) -> str:
        buffer = array("B", DRIVER_INFO.pack(ETHTOOL_GDRVINFO, b""))
        try:
            self._ask(buffer)
        except OSError as error:
            if error.errno not in NO_COUNTERS:
                raise  # an interface that has no driver, such as loopback, has no counters either
        return _text(DRIVER_INFO.unpack(buffer)[1])

    def _count(self) -> int:
        """Return how many counters there are now."""
        buffer = array("B", SET_INFO.pack(ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS, 0))
        try:
            self._ask(buffer)
        except OSError as error:
            if error.errno in NO_COUNTERS:
                return 0
            raise
        _, _, known, count = SET_INFO.unpack(buffer)
        return int(count) if known else 0  # a driver without the set clears its bit

    def _names(self, count: int) -> tuple[str, ...]:
        head = STRINGS_HEAD.pack(ETHTOOL_GSTRINGS, ETH_SS_STATS, count)
        buffer = array("B", head + bytes(STRING * (count + SPARE)))
        if count:
            self._ask(buffer)
        text = buffer.tobytes()[STRINGS_HEAD.size :]
        return tuple(_text(text[at : at + STRING]) for at in range(0, STRING * count, STRING))

    def _ask(self, buffer: array[int]) -> None:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        request = REQUEST.pack(os.fsencode(self.interface)[:15], buffer.buffer_info()[0])
        fcntl.ioctl(self._socket, SIOCETHTOOL, request)

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _text(field: bytes) -> str:
    """Return a name that is ended by a zero, without the blanks that drivers indent with."""
    return field.partition(b"\0")[0].decode("utf-8", "replace").strip()
