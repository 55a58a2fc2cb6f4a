"""Sources whose devices come and go while the host runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from pathlib import Path
from typing import ClassVar

from reveal_core.collect.columns import Columns
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source, left_out_note

MakeParts = Callable[[], Iterable[Part]]
"""Makes the parts of a device, called once when the device is found."""


class HotplugSource(Source):
    """A source that looks for its devices anew every ``rescan_ms`` and has some parts for each.

    The parts of a device that is gone are closed, and its channels with them; another that takes its place
    under the same key gets new ones.

    Attributes
    ----------
    most
        How many devices are read at most, the first that `find` names; None for all.
    things
        What they are, for the note on those that are left out: ``ports are there``.
    left_out
        How many they were at the last look.
    """

    rescan_ms: ClassVar[int] = 10_000
    most: ClassVar[int | None] = None
    things: ClassVar[str] = "devices are there"

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.devices: dict[Hashable, list[Part]] = {}
        self.left_out = 0

    @abstractmethod
    def find(self) -> dict[Hashable, MakeParts]:
        """Return how to make the parts of each device that is there now, by what tells it from the others.

        Must not hang, and be cheap: it looks at folders, not into devices.
        """

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        return left_out_note(self.left_out, self.things, self.most)

    def open(self) -> None:
        """See `Source.open`; the first read finds the devices."""

    def rescan(self) -> None:
        """See `Source.rescan`; what is known stays if looking fails."""
        try:
            found = self.find()
        except OSError as error:  # a folder went away while it was listed: the next look finds what is left
            self.columns.failed(f"{error.filename or self.name}: {error.strerror or error}")
            return
        if self.most is not None:
            self.left_out = max(0, len(found) - self.most)
            found = dict(islice(found.items(), self.most))
        if found.keys() == self.devices.keys():
            return
        for key in self.devices.keys() - found.keys():
            for part in self.devices.pop(key):
                part.close()
        for key, make in found.items():
            if key not in self.devices:
                self.devices[key] = list(make())
        self.parts = [part for parts in self.devices.values() for part in parts]

    def close(self) -> None:
        """See `Source.close`."""
        super().close()
        self.devices.clear()


def device_number(name: str, prefix: str) -> int:
    """Return the number in a device's name, for sorting ``node10`` after ``node9``; -1 where there is none.

    >>> device_number("node10", "node"), device_number("nodes", "node")
    (10, -1)
    """
    number = name.removeprefix(prefix)
    return int(number) if name.startswith(prefix) and number.isdigit() else -1


def devices(folder: Path, prefix: str) -> list[Path]:
    """Return the folders ``prefix<number>`` in a folder, by number."""
    found = [path for path in folder.glob(f"{prefix}[0-9]*") if device_number(path.name, prefix) >= 0]
    return sorted(found, key=lambda path: device_number(path.name, prefix))
