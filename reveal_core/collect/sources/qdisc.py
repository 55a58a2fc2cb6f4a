"""Queueing disciplines: packets that wait to be sent by an interface, and those that are dropped there.

``/proc/net/dev`` does not know them: what a shaper or a full queue drops never reaches the driver. The kernel
is asked for its disciplines (``NETLINK_ROUTE``) as ``tc -s qdisc`` does.
"""

from __future__ import annotations

import os
import socket
import struct

from reveal_core.collect.columns import MISSING, Columns, Slots
from reveal_core.collect.guarded import GuardedFile
from reveal_core.collect.netlink import Netlink, bodies, request
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source
from reveal_core.collect.sources.live import not_live
from reveal_core.collect.sources.netdev import MAX_INTERFACES

# linux/rtnetlink.h, linux/pkt_sched.h, linux/gen_stats.h
NETLINK_ROUTE = 0
RTM_NEWQDISC = 36
RTM_GETQDISC = 38
TC_H_ROOT = 0xFFFFFFFF
TCA_KIND = 1
TCA_STATS = 3
TCA_STATS2 = 7
TCA_STATS_BASIC = 1
TCA_STATS_QUEUE = 3
TCMSG = struct.Struct("=4xI4xI4x")
"""``struct tcmsg``: interface and parent; family, handle and info are not looked at."""
ATTRIBUTE = struct.Struct("=HH")
"""``struct nlattr``: length with this header, and type."""
TYPE = 0x3FFF
"""The bits above tell how a value is written."""
BASIC = struct.Struct("=QI")
"""``struct gnet_stats_basic``: bytes and packets that were sent."""
QUEUE = struct.Struct("=IIIII")
"""``struct gnet_stats_queue``: packets and bytes that wait, drops, requeues, overlimits."""
OLD = struct.Struct("=QIII8xII")
"""``struct tc_stats``: bytes, packets, drops, overlimits; rates; packets and bytes that wait."""
NO_QUEUE = ATTRIBUTE.pack(12, TCA_KIND) + b"noqueue\0"
"""How the attributes of an interface without a queue begin: the kernel writes the kind first."""
LOOPBACK = "lo"
NAMES_FOR = 10
"""Reads until the names are asked anew: an interface may get another name and keep its index."""

METRICS = ("drops", "overlimits", "requeues", "backlog_bytes", "backlog_packets")
Counts = tuple[int, int, int, int, int]
"""In the order of ``METRICS``."""
Root = tuple[int, bool, Counts]
"""Index of an interface, whether anything was ever sent or counted there, and the counts."""
Row = tuple[str, bool, Counts]
"""The same with the interface's name."""
Place = tuple[int, int]


def attributes(piece: bytes, place: Place) -> dict[int, Place]:
    """Return where the value of each attribute begins and ends, by type.

    Parameters
    ----------
    piece
        Of an answer.
    place
        Where the attributes begin and end in it.

    Raises
    ------
    ValueError
        If they are malformed.
    """
    found: dict[int, Place] = {}
    at, end = place
    while at < end:
        size, kind = _unpack(ATTRIBUTE, piece, (at, end))
        if not ATTRIBUTE.size <= size <= end - at:
            raise ValueError("an attribute of a wrong length")
        found[kind & TYPE] = (at + ATTRIBUTE.size, at + size)
        at += (size + 3) & ~3
    return found


def roots(piece: bytes) -> tuple[list[Root], bool]:
    """Return the roots that a piece of an answer tells of, and whether it is the last piece.

    A discipline below a root is left out: it is in the root's counts, of ``mq`` and of those with classes
    too. So is ``noqueue``, which holds nothing and counts nothing.

    Raises
    ------
    OSError
        If the kernel answered with an error.
    ValueError
        If the piece is malformed.
    """
    places, last = bodies(piece, RTM_NEWQDISC, TCMSG.size)
    found: list[Root] = []
    for at, end in places:
        index, parent = TCMSG.unpack_from(piece, at)
        at += TCMSG.size
        # Most interfaces of a host of containers have no queue, so these are told apart before the rest.
        if parent != TC_H_ROOT or piece.startswith(NO_QUEUE, at, end):
            continue
        counted = _counted(piece, attributes(piece, (at, end)))
        if counted is not None:
            found.append((index, *counted))
    return found, last


def _counted(piece: bytes, given: dict[int, Place]) -> tuple[bool, Counts] | None:
    nested = attributes(piece, given[TCA_STATS2]) if TCA_STATS2 in given else {}
    if TCA_STATS_QUEUE in nested:
        waiting, size, drops, requeues, overlimits = _unpack(QUEUE, piece, nested[TCA_STATS_QUEUE])
        sent = _unpack(BASIC, piece, nested[TCA_STATS_BASIC])[1] if TCA_STATS_BASIC in nested else 0
    elif TCA_STATS in given:
        _, sent, drops, overlimits, waiting, size = _unpack(OLD, piece, given[TCA_STATS])
        requeues = MISSING
    else:
        return None
    used = bool(sent or drops or overlimits or waiting or requeues not in (0, MISSING))
    return used, (drops, overlimits, requeues, size, waiting)


def _unpack(form: struct.Struct, piece: bytes, place: Place) -> tuple[int, ...]:
    if place[1] - place[0] < form.size:
        raise ValueError("an attribute that is too short")
    return form.unpack_from(piece, place[0])


class QdiscFile(GuardedFile[tuple[Row, ...]]):
    """The kernel's list of queueing disciplines, asked over a socket that stays open."""

    path = "the kernel's list of queueing disciplines"

    def __init__(self) -> None:
        super().__init__()
        self.netlink = Netlink(NETLINK_ROUTE)
        self.query = request(RTM_GETQDISC, bytes(TCMSG.size))
        self.names: dict[int, str] = {}
        self.reads_to_names = 0

    def _read(self) -> tuple[Row, ...]:
        """Return what the root of every interface but loopback counted.

        Raises
        ------
        OSError, ValueError
            If the kernel does not tell.
        """
        found = self.netlink.ask(self.query, roots)
        if self.reads_to_names == 0:
            self.names = {}
            self.reads_to_names = NAMES_FOR
        self.reads_to_names -= 1
        self.names = {index: self.names.get(index) or _name(index) for index, _, _ in found}
        return tuple(
            (name, used, counts)
            for index, used, counts in found
            if (name := self.names[index]) not in ("", LOOPBACK)
        )

    def _close(self) -> None:
        self.netlink.close()


def _name(index: int) -> str:
    """Return the name of an interface; ``""`` if it is gone by now."""
    try:
        return os.fsencode(socket.if_indextoname(index)).decode("utf-8", "replace")
    except OSError:
        return ""


class QdiscPart(Part):
    """What waits and is dropped at the root of each interface.

    An interface that never sent anything has no channels, as in `RowsPart`.
    """

    def __init__(self, file: QdiscFile, columns: Columns) -> None:
        super().__init__(file, columns)
        self.interfaces: dict[str, Slots] = {}

    def parse(self, data: tuple[Row, ...]) -> None:
        """See `Part.parse`."""
        found: dict[str, Slots] = {}
        for name, used, counts in data:
            slots = self.interfaces.get(name, Slots())
            if not slots and used and sum(map(bool, found.values())) < MAX_INTERFACES:
                slots = Slots(self.add(f"qdisc.{metric}", name) for metric in METRICS)
            if slots:
                self.columns.put(slots, list(counts))
            found[name] = slots
        if found.keys() != self.interfaces.keys():
            self.keep({slot for slots in found.values() for slot in slots})
        self.interfaces = found


class QdiscSource(Source):
    """Packets that wait and are dropped before an interface sends them, in the agent's own network namespace.

    The kernel tells it under a lock that all of networking shares, so it can wait long.
    """

    name = "qdisc"
    period_ms = 1000
    detached = True

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if (elsewhere := not_live(self.root)) is not None:
            return elsewhere
        # Asking may wait; this file is there if the kernel has queueing disciplines at all.
        return self.missing("proc/net/psched", hint="this kernel has no queueing disciplines")

    def open(self) -> None:
        """See `Source.open`."""
        self.parts.append(QdiscPart(QdiscFile(), self.columns))
