"""Links of the network cards and bonds: speed, carrier, duplex."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.found import WatchedSource
from reveal_core.collect.hotplug import MakeParts
from reveal_core.collect.parts import Part
from reveal_core.collect.valuefiles import ValueFiles, Values, count

FOLDER = "sys/class/net"
MAX_DEVICES = 32
"""Virtual functions are cards too; more than these are not read."""

OPERSTATES = {
    b"unknown": 0,
    b"notpresent": 1,
    b"down": 2,
    b"lowerlayerdown": 3,
    b"testing": 4,
    b"dormant": 5,
    b"up": 6,
}
"""Numbers of the states as the kernel has them (``IF_OPER_*`` in linux/if.h, after RFC 2863)."""
DUPLEX = {b"half": 0, b"full": 1}
MAX_SPEED = 10_000_000
"""In Mbit/s. A driver that does not know says -1, which older kernels print as 4294967295."""


def _speed(value: bytes | None) -> int:
    number = count(value)
    return number if 0 < number <= MAX_SPEED else MISSING


def _word(table: dict[bytes, int]) -> Callable[[bytes | None], int]:
    return lambda value: MISSING if value is None else table.get(value.strip(), MISSING)


FIELDS: dict[str, Callable[[bytes | None], int]] = {
    "speed": _speed,
    "carrier": count,
    "carrier_changes": count,
    "carrier_down_count": count,
    "duplex": _word(DUPLEX),
    "mtu": count,
    "operstate": _word(OPERSTATES),
}
SCALES = {"speed": 1e6}


def cards(folder: Path) -> list[str]:
    """Return the interfaces that belong to hardware, and bonds of them, in order.

    Parameters
    ----------
    folder
        ``/sys/class/net``; it shows the reader's own network namespace.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [name for name in names if (folder / name / "bonding").is_dir() or is_hardware(folder / name)]


def is_hardware(path: Path) -> bool:
    """Return whether an interface belongs to a card; a captured tree may lack the link to its device."""
    if (path / "device").exists():
        return True
    try:
        return "/virtual/" not in os.readlink(path)
    except OSError:
        return False


class LinkPart(Part):
    """The link of one interface.

    An interface that is down has no speed, duplex or carrier: the kernel refuses to tell, which is no error.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        names = [name for name in FIELDS if (path / name).exists()]
        super().__init__(ValueFiles(path, names), columns)
        self.fields: list[tuple[int, Callable[[bytes | None], int]]] = []
        for name in names:
            slot = self.add(f"link.{name}", path.name, SCALES.get(name, 1.0))
            if slot is not None:
                self.fields.append((slot, FIELDS[name]))

    def parse(self, data: Values) -> None:
        """See `Part.parse`."""
        row = self.columns.row
        for (slot, number), value in zip(self.fields, data, strict=True):
            row[slot] = number(value)


class LinkSource(WatchedSource):
    """Speed, carrier and duplex of each card and bond.

    Asking for speed and duplex is a call into the driver under a lock that all of networking shares, so it
    can wait long.
    """

    name = "link"
    period_ms = 2000
    detached = True
    most = MAX_DEVICES
    things = "interfaces are there"

    def signature(self) -> object:
        """See `WatchedSource.signature`."""
        return self.listing(FOLDER)

    def probe(self) -> str | None:
        """See `Source.probe`."""
        folder = self.path(FOLDER)
        return None if cards(folder) else f"{folder} holds no network card or bond"

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        folder = self.path(FOLDER)
        return {name: partial(self._open, folder / name) for name in cards(folder)}

    def _open(self, path: Path) -> list[Part]:
        return [LinkPart(path, self.columns)]
