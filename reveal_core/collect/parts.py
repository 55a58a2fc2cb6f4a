"""Parts of a source: one file each, with what is needed to parse it cheaply.

Where a field lies in a file hardly ever changes, so its place is worked out once; each read checks cheaply
that the names still stand where they stood, and works the places out anew if not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

from reveal_core.collect.columns import MISSING, Columns, Slots
from reveal_core.collect.files import HostFile

_VALUES = b"0123456789 \t\n"
"""Without these, what a file of names and values says is its names; while they stand as they stood, so do the
values.
"""

_NONE = Slots()

Picker = Callable[[Sequence[bytes]], tuple[bytes, ...]]


def integers(tokens: Iterable[bytes], base: int = 10) -> list[int]:
    """Return tokens as integers; one that is no 64-bit integer becomes `MISSING`.

    >>> integers([b"7", b"N/A"])
    [7, -9223372036854775808]
    """
    tokens = list(tokens)
    try:
        return [int(token, base) for token in tokens] if base != 10 else list(map(int, tokens))
    except ValueError:
        return [_integer(token, base) for token in tokens]


def _integer(token: bytes, base: int) -> int:
    try:
        return int(token, base)
    except ValueError:
        return MISSING


def picker(positions: Sequence[int]) -> Picker:
    """Return a function that takes the items at some positions out of a sequence, as a tuple.

    >>> picker([2])([b"a", b"b", b"c"])
    (b'c',)
    """
    if not positions:
        return lambda tokens: ()
    if len(positions) == 1:
        position = positions[0]
        return lambda tokens: (tokens[position],)
    return itemgetter(*positions)


class Readable(Protocol):
    """What a part reads: a kernel file, or whatever else answers.

    Attributes
    ----------
    path
        Names it in errors.
    """

    @property
    def path(self) -> Path | str:
        """See above."""

    def read(self) -> Any:
        """Return what it says now: bytes, or any value that can be compared.

        In a detached source this runs in a thread of its own and may hang, so it touches nothing else.

        Raises
        ------
        OSError, ValueError
            If it says nothing.
        """

    def close(self) -> None:
        """Let go of it; a later read opens it again."""


class Part(ABC):
    """One file of a source, or whatever else it reads by itself. Its failure makes its own samples missing
    and no others.

    Attributes
    ----------
    owned
        The slots that this part fills.
    """

    def __init__(self, file: Readable, columns: Columns) -> None:
        self.file = file
        self.columns = columns
        self.owned: set[int] = set()
        self.seen: Any = None

    @abstractmethod
    def parse(self, data: Any) -> None:
        """Put what a file says into the row.

        Raises
        ------
        ValueError, IndexError
            If the file is malformed beyond single values.
        """

    def update(self) -> bool:
        """Read the file into the row; return whether that worked."""
        return self.accept(*self.snapshot())

    def snapshot(self) -> tuple[Any, Exception | None]:
        """Return what the file says now, or the error that it raised, for `accept`."""
        try:
            return self.file.read(), None
        except (OSError, ValueError, IndexError) as error:
            return None, error

    def accept(self, data: Any, failure: Exception | None) -> bool:
        """Put into the row what a read gave, or mark its samples missing after an error; return whether it is
        good.
        """
        if failure is None:
            try:
                if data != self.seen:  # else the row holds these values already
                    self.parse(data)
                    self.seen = data
            except (OSError, ValueError, IndexError) as error:
                failure = error
        if failure is not None:
            self._fail(failure)
        return failure is None

    def _fail(self, error: Exception) -> None:
        self.forget()
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
        elif isinstance(error, (ValueError, IndexError)):
            reason = str(error)
        else:
            reason = f"{type(error).__name__}: {error}"
        self.columns.failed(f"{self.file.path}: {reason}")

    def forget(self) -> None:
        """Make every sample missing, and parse the next read anew even if the file is the same."""
        self.columns.blank(self.owned)
        self.seen = None

    def add(self, metric: str, instance: str = "", scale: float = 1.0) -> int | None:
        """Return the slot of a channel that this part fills; None if the catalogue lacks the metric."""
        slot = self.columns.add(metric, instance, scale)
        if slot is not None:
            self.owned.add(slot)
        return slot

    def keep(self, slots: Iterable[int]) -> None:
        """Say which of the owned slots are still there; the others are gone."""
        gone = self.owned.difference(slots)
        if gone:
            self.columns.retire(gone)
            self.owned -= gone

    def close(self) -> None:
        """Close the file and retire the channels."""
        self.file.close()
        self.columns.retire(self.owned)
        self.owned.clear()


Target = tuple[str, float]
"""A metric and the scale of its raw integers."""


class FieldsPart(Part):
    """A file of names and values, one pair a line (``pgfault 12``, ``MemFree:  12 kB``, ``Node 0 MemFree: 12
    kB``).

    Parameters
    ----------
    file, columns
        The file, and where its values go.
    instance
        The instance of every channel in it.
    target
        Gives metric and scale for a name; None for a name that is not meant to be read.
    key
        Which word of a line is the name; the value follows it.
    """

    def __init__(
        self,
        file: HostFile,
        columns: Columns,
        target: Callable[[bytes], Target | None],
        instance: str = "",
        key: int = 0,
    ) -> None:
        super().__init__(file, columns)
        self.target = target
        self.instance = instance
        self.key = key
        self.values: Picker = picker([])
        self.expected = b""
        self.count = -1
        self.slots = Slots()

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        tokens = data.split()
        if len(tokens) != self.count or data.translate(None, _VALUES) != self.expected:
            self._lay_out(data, len(tokens))
        self.columns.put(self.slots, integers(self.values(tokens)))

    def _lay_out(self, data: bytes, count: int) -> None:
        value_places: list[int] = []
        slots: list[int] = []
        position = 0
        for line in data.split(b"\n"):
            words = line.split()
            target = self.target(words[self.key]) if len(words) > self.key + 1 else None
            slot = None if target is None else self.add(target[0], self.instance, target[1])
            if slot is not None and slot not in slots:
                value_places.append(position + self.key + 1)
                slots.append(slot)
            position += len(words)
        self.expected = data.translate(None, _VALUES)
        self.values = picker(value_places)
        self.count = count
        self.slots = Slots(slots)
        self.keep(slots)


class RowsPart(Part):
    """A table: a row per instance, a column per metric. Rows come and go.

    A row whose values are all zero has no channels until something happens on it: an interface or disk that
    was never used says nothing.
    """

    metrics: tuple[str, ...] = ()
    base = 10
    idle_rows = False
    """Whether a row of zeros gets channels too."""
    most: int | None = None
    """Most rows with channels, None for all: a host of containers has an interface for each."""

    def __init__(self, file: HostFile, columns: Columns) -> None:
        super().__init__(file, columns)
        self.rows: dict[bytes, tuple[list[bytes], Slots]] = {}

    @property
    def left_out(self) -> int:
        """Rows without channels although something happened on them, for ``most`` others have some."""
        return sum(
            1 for values, slots in self.rows.values() if not slots and any(integers(values, self.base))
        )

    @abstractmethod
    def split(self, data: bytes) -> Iterable[tuple[bytes, list[bytes]]]:
        """Yield key and values of each row that is wanted; the values follow the order of ``metrics``."""

    def instance(self, key: bytes) -> str:
        """Return the instance that a row's key names."""
        return key.decode("utf-8", "replace")

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        found: dict[bytes, tuple[list[bytes], Slots]] = {}
        for key, values in self.split(data):
            if key in found:
                continue  # a key that stands twice says nothing the second time
            known = self.rows.get(key)
            if known is not None and known[0] == values:
                found[key] = known
                continue
            numbers = integers(values, self.base)
            slots = known[1] if known is not None else _NONE
            if len(slots) != min(len(values), len(self.metrics)) and (self.idle_rows or any(numbers)):
                slots = self._slots(key, len(values)) if slots or self._has_room(found) else _NONE
            numbers += [MISSING] * (len(slots) - len(numbers))  # a row that came short
            self.columns.put(slots, numbers[: len(slots)])
            found[key] = (values, slots)
        if found.keys() != self.rows.keys():
            self.keep({slot for _, slots in found.values() for slot in slots})
        self.rows = found

    def _has_room(self, found: dict[bytes, tuple[list[bytes], Slots]]) -> bool:
        """Return whether another row may have channels, after those that have any and those just found."""
        if self.most is None:
            return True
        have = {key for rows in (self.rows, found) for key, (_, slots) in rows.items() if slots}
        return len(have) < self.most

    def _slots(self, key: bytes, width: int) -> Slots:
        instance = self.instance(key)
        return Slots(self.add(metric, instance) for metric in self.metrics[:width])

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.rows = {key: ([], slots) for key, (_, slots) in self.rows.items()}


class SingleValuePart(Part):
    """A file that holds one integer."""

    def __init__(self, file: HostFile, columns: Columns, target: Target, instance: str = "") -> None:
        super().__init__(file, columns)
        self.slot = self.add(target[0], instance, target[1])

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        if self.slot is not None:
            self.columns.row[self.slot] = int(data)


def target_table(metrics: dict[bytes, Any]) -> Callable[[bytes], Target | None]:
    """Return a `FieldsPart` target from a table of name to metric, or to metric and scale."""
    table = {name: (value, 1.0) if isinstance(value, str) else value for name, value in metrics.items()}
    return table.get
