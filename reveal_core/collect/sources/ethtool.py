"""What the drivers of network cards count: drops, pauses, errors of the wire."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Hashable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.found import WatchedSource
from reveal_core.collect.hotplug import MakeParts
from reveal_core.collect.parts import Part, Readable
from reveal_core.collect.sources.ethtool_ioctl import Counters, EthtoolFile, Labels
from reveal_core.collect.sources.link import FOLDER, MAX_DEVICES, cards
from reveal_core.collect.sources.live import not_live
from reveal_core.collect.valuefiles import LARGEST

ANY = "*"
"""The table of drivers that have none of their own."""
PRIORITY = "priority"
"""Name of the group that stands for a traffic class."""

Pattern = re.Pattern[str]
Table = Mapping[str, Sequence[Sequence[Pattern]]]
"""For each kind the counters that are added up, each with its alternatives."""


def pattern(name: str) -> Pattern:
    """Return what matches a name of ``ethtool.toml``.

    >>> pattern("rx_prio{priority}_pause").fullmatch("rx_prio3_pause")["priority"]
    '3'
    """
    escaped = re.escape(name).replace(r"\{n\}", r"\d+").replace(r"\{priority\}", rf"(?P<{PRIORITY}>\d+)")
    return re.compile(escaped)


@cache
def load_tables() -> dict[str, Table]:
    """Return the tables of ``ethtool.toml`` by driver."""
    text = files(__package__).joinpath("ethtool.toml").read_text(encoding="utf-8")
    tables: dict[str, Table] = {}
    for driver, kinds in tomllib.loads(text).items():
        drivers = [driver, *kinds.pop("drivers", ())]
        table = {
            kind: [[pattern(name) for name in names.split("|")] for names in counters]
            for kind, counters in kinds.items()
        }
        tables.update(dict.fromkeys(drivers, table))
    return tables


def places(table: Table, names: Sequence[str]) -> dict[tuple[str, str], list[int]]:
    """Return which counters of a driver make which metric.

    Parameters
    ----------
    table
        Of the driver.
    names
        Of its counters, in order.

    Returns
    -------
    dict
        By kind and priority (``""`` where there is none), the places of the counters to add up.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for kind, counters in table.items():
        for alternatives in counters:
            for wanted in alternatives:
                matches = [
                    (place, match) for place, name in enumerate(names) if (match := wanted.fullmatch(name))
                ]
                for place, match in matches:
                    found.setdefault((kind, match.groupdict().get(PRIORITY, "")), []).append(place)
                if matches:
                    break
    return found


class EthtoolPart(Part):
    """The counters of one card."""

    def __init__(self, file: Readable, columns: Columns, interface: str) -> None:
        super().__init__(file, columns)
        self.interface = interface
        self.labels: Labels | None = None
        self.read_names = 0
        self.sums: list[tuple[int, list[int]]] = []

    def parse(self, data: Counters) -> None:
        """See `Part.parse`."""
        labels, raw = data
        if labels is not self.labels:
            self._lay_out(labels)
        if len(raw) != 8 * len(labels.names):
            raise ValueError("not as many values as names")
        values = memoryview(raw).cast("Q")
        row = self.columns.row
        for slot, at in self.sums:
            # All ones stand for "not known"; what is larger than a sample can hold is no count either.
            total = sum([values[place] for place in at])
            row[slot] = total if total < LARGEST else MISSING

    def _lay_out(self, labels: Labels) -> None:
        tables = load_tables()
        found = places(tables.get(labels.driver, tables[ANY]), labels.names)
        self.sums = []
        self.read_names = 0
        for (kind, priority), at in found.items():
            instance = f"{self.interface}:prio{priority}" if priority else self.interface
            slot = self.add(f"nic.{kind}", instance)
            if slot is not None:
                self.sums.append((slot, at))
                self.read_names += len(at)
        self.keep({slot for slot, _ in self.sums})
        self.labels = labels

    @property
    def note(self) -> str:
        """How many of the driver's counters are read."""
        if self.labels is None:
            return f"{self.interface}: its driver has not answered yet"
        driver, names = self.labels.driver, self.labels.names
        if not names:
            return f"{self.interface}: its driver {driver} counts nothing"
        known = "" if driver in load_tables() else ", by their usual names, for the driver is not known"
        return f"{self.interface} ({driver}): {self.read_names} of {len(names)} counters are read{known}"


class EthtoolSource(WatchedSource):
    """The drivers' counters of each card in the agent's own network namespace.

    A driver may ask the card's firmware, which can stall.
    """

    name = "ethtool"
    period_ms = 1000
    detached = True
    most = MAX_DEVICES

    def signature(self) -> object:
        """See `WatchedSource.signature`."""
        return self.listing(FOLDER)

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if (elsewhere := not_live(self.root)) is not None:
            return elsewhere
        folder = self.path(FOLDER)
        return None if self._cards() else f"{folder} holds no network card"

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        return [part.note for part in self.parts if isinstance(part, EthtoolPart)]

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {name: partial(self._open, name) for name in self._cards()}

    def _cards(self) -> list[str]:
        folder = self.path(FOLDER)
        return [name for name in cards(folder) if (folder / name / "device").exists()]

    def _open(self, name: str) -> list[Part]:
        return [EthtoolPart(EthtoolFile(name), self.columns, name)]
