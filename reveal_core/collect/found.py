"""Sources whose files come and go: CPUs that are taken off line, sensors whose driver is loaded anew."""

from __future__ import annotations

import os
import resource
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from reveal_core.collect.columns import MISSING, Columns, Slots
from reveal_core.collect.hotplug import HotplugSource, MakeParts
from reveal_core.collect.parts import Part, Readable
from reveal_core.collect.valuefiles import SIZE, ValueFiles, Values, count

CPU_FOLDER = "sys/devices/system/cpu"
WIDE = 64
"""With more CPUs than this, what each of them says is put together: or their channels outnumber the rest."""

HANDLES_SHARE = 8
"""A source keeps its files open if they take at most this part of the handles that the process may have."""


class WatchedSource(HotplugSource):
    """A source that looks for its devices only when a cheap sign of them has changed."""

    rescan_ms: ClassVar[int] = 5000

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.sign: object = None

    @abstractmethod
    def signature(self) -> object:
        """Return something that differs when there may be other devices."""

    def rescan(self) -> None:
        """See `HotplugSource.rescan`."""
        sign = self.signature()
        if sign != self.sign:
            super().rescan()
            self.sign = sign

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the names in a folder, none if it is not there: a usual signature."""
        try:
            return tuple(sorted(os.listdir(self.path(folder))))
        except OSError:
            return ()


def one(kind: Callable[..., Part], *arguments: object, **options: object) -> MakeParts:
    """Return how to make a device's only part."""
    return lambda: [kind(*arguments, **options)]


class CpuSource(WatchedSource):
    """A source of files below each CPU's folder."""

    def signature(self) -> object:
        """See `WatchedSource.signature`: the CPUs on line, as the kernel writes them."""
        try:
            return self.path(f"{CPU_FOLDER}/online").read_bytes()
        except OSError:
            return self.listing(CPU_FOLDER)

    def folders(self, name: str) -> dict[str, Path]:
        """Return a folder or file of each CPU that has it, by ``cpu0`` and so on, in order."""
        found = self.path(CPU_FOLDER).glob(f"cpu[0-9]*/{name}")
        depth = name.count("/") + 2
        paths = {path.parts[-depth]: path for path in found if path.parts[-depth][3:].isdigit()}
        return {cpu: paths[cpu] for cpu in sorted(paths, key=lambda cpu: int(cpu[3:]))}


class BriefFiles:
    """Files of one value each, opened for the moment of reading only.

    Parameters
    ----------
    path
        Names them in errors.
    files
        The files.
    """

    def __init__(self, path: Path, files: Sequence[Path]) -> None:
        self.path = path
        self.files = [os.fspath(file) for file in files]

    def read(self) -> Values:
        """Return what each file holds; None for one that cannot be read.

        Raises
        ------
        OSError
            If none can.
        """
        values: list[bytes | None] = []
        failure: OSError | None = None
        for file in self.files:
            try:
                fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                failure = error
                values.append(None)
                continue
            try:
                values.append(os.pread(fd, SIZE, 0))
            except OSError as error:
                failure = error
                values.append(None)
            finally:
                os.close(fd)
        if failure is not None and all(value is None for value in values):
            raise failure
        return tuple(values)

    def close(self) -> None:
        """Nothing stays open."""


def value_files(folder: Path, names: Sequence[str], total: int) -> Readable:
    """Return some files of a folder as they are best read.

    Kept open between two reads, which costs a third, unless the host has so many CPUs that this would use up
    the process's file handles.

    Parameters
    ----------
    folder, names
        The files.
    total
        How many files the source has in all.
    """
    handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if handles == resource.RLIM_INFINITY or total * HANDLES_SHARE <= handles:
        return ValueFiles(folder, names)
    return BriefFiles(folder, [folder / name for name in names])


class ValuesPart(Part):
    """Files of one value each, each with a channel of its own.

    Parameters
    ----------
    file
        Gives the values.
    columns
        Where they go.
    targets
        Metric, instance and scale of each value, in order.
    """

    def __init__(self, file: Readable, columns: Columns, targets: Sequence[tuple[str, str, float]]) -> None:
        super().__init__(file, columns)
        self.slots = Slots(self.add(*target) for target in targets)

    def parse(self, data: Values) -> None:
        """See `Part.parse`."""
        self.columns.put(self.slots, [signed(value) for value in data])


class SumPart(Part):
    """Counters of many CPUs put together, each metric over all of them.

    What is summed is how much each counter grew, so that a CPU that goes or comes, with a counter that starts
    at any value, is no step of the sum.

    Parameters
    ----------
    file
        Gives the values.
    columns
        Where the sums go.
    metrics
        Metric of each value, in order.
    mean
        Divide the growth by the number of CPUs that told theirs.
    """

    def __init__(
        self, file: Readable, columns: Columns, metrics: Sequence[str], *, mean: bool = False
    ) -> None:
        super().__init__(file, columns)
        self.mean = mean
        self.places: dict[int, list[int]] = {}
        for place, metric in enumerate(metrics):
            slot = self.add(metric)
            if slot is not None:
                self.places.setdefault(slot, []).append(place)
        self.totals = dict.fromkeys(self.places, 0.0)
        self.last: list[int] = [MISSING] * len(metrics)

    def parse(self, data: Values) -> None:
        """See `Part.parse`."""
        last, self.last = self.last, [count(value) for value in data]
        now = self.last
        row = self.columns.row
        for slot, places in self.places.items():
            grown = told = 0
            for place in places:
                if now[place] != MISSING:
                    told += 1
                    if last[place] != MISSING and now[place] > last[place]:
                        grown += now[place] - last[place]
            if told:
                self.totals[slot] += grown / told if self.mean else grown
            row[slot] = int(self.totals[slot]) if told else MISSING


class LowestPart(Part):
    """Levels of many CPUs, of which the lowest is told, by metric."""

    def __init__(self, file: Readable, columns: Columns, targets: Sequence[tuple[str, float]]) -> None:
        super().__init__(file, columns)
        self.slots = [self.add(metric, "", scale) for metric, scale in targets]

    def parse(self, data: Values) -> None:
        """See `Part.parse`."""
        lowest: dict[int, int] = {}
        for slot, value in zip(self.slots, data, strict=True):
            number = count(value)
            if slot is not None and number != MISSING:
                lowest[slot] = min(number, lowest.get(slot, number))
        for slot in self.owned:
            self.columns.row[slot] = lowest.get(slot, MISSING)


def signed(value: bytes | None) -> int:
    """Return a whole number, which may be below zero, or `MISSING` for what is none.

    >>> signed(b"-5000\\n"), signed(b"<unsupported>\\n") == MISSING, signed(None) == MISSING
    (-5000, True, True)
    """
    if value is None:
        return MISSING
    text = value.strip()
    if text.startswith(b"-"):
        number = count(text[1:])
        return number if number == MISSING else -number
    return count(text)
