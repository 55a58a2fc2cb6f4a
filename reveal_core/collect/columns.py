"""The columns of a source: which channel lies where in its row of samples."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reveal_core.catalog import Metric
from reveal_core.channels import Channel, channel_name

MISSING = -(2**63)
"""Stands for a missing sample in a row; no counter or level takes this value."""
MAX_ERRORS = 50
"""An agent that runs for months must not collect error texts without end."""


@dataclass(frozen=True, slots=True)
class Column:
    """A channel and what its raw integers are multiplied with to get its unit."""

    channel: Channel
    metric: Metric
    scale: float


class Slots(tuple[int, ...]):
    """Slots that are filled together; -1 stands for a value that nobody wants.

    Attributes
    ----------
    first
        The first slot if they lie side by side in this order, as those do that were added one after another:
        then one slice fills them, at a tenth of what single items cost. Else -1.
    """

    first: int

    def __new__(cls, slots: Iterable[int | None] = ()) -> Slots:
        """Return slots; None stands for a value that nobody wants."""
        made = super().__new__(cls, (-1 if slot is None else slot for slot in slots))
        side_by_side = bool(made) and made[0] >= 0 and made == tuple(range(made[0], made[0] + len(made)))
        made.first = made[0] if side_by_side else -1
        return made


class Columns:
    """The row of a source, and which channel each slot of it holds.

    Samples are integers as the kernel wrote them, so a row is a plain list; `MISSING` marks one that is not
    there. Slots are added while sampling when a channel appears. The slot of a channel that is gone stays
    until the segment ends, then serves another: so a host whose containers come and go does not grow.

    Attributes
    ----------
    row
        The latest sample of each slot.
    slots
        The column of each slot; None where a slot is free.
    unknown
        Names that are not in the catalogue, for ``reveal doctor``.
    errors
        How often each error was met.
    failures
        How many there were.
    """

    def __init__(
        self, source: str, period_ms: int, catalog: Mapping[str, Metric], left_out: Mapping[str, str]
    ) -> None:
        self.source = source
        self.period_ms = period_ms
        self.catalog = catalog
        self.left_out = left_out
        self.row: list[int] = []
        self.slots: list[Column | None] = []
        self.unknown: set[str] = set()
        self.errors: Counter[str] = Counter()
        self.failures = 0
        self._by_name: dict[str, int] = {}
        self._retired: set[int] = set()
        self._free: list[int] = []

    def add(
        self, metric: str, instance: str = "", scale: float = 1.0, period_ms: int | None = None
    ) -> int | None:
        """Return the slot of a channel, which may be new; None if the catalogue does not hold the metric.

        Parameters
        ----------
        metric, instance
            The channel.
        scale
            What a raw integer is multiplied with to get the catalogue's unit; a whole number for a counter.
        period_ms
            How often it is sampled, where that is not the period of the whole source.
        """
        name = channel_name(metric, instance)
        slot = self._by_name.get(name)
        if slot is not None:
            self._retired.discard(slot)
            return slot
        entry = self.catalog.get(metric)
        if entry is None:
            if metric not in self.left_out:
                self.unknown.add(metric)
            return None
        column = Column(entry.channel(instance, self.source, period_ms or self.period_ms), entry, scale)
        if self._free:
            slot = self._free.pop()
            self.slots[slot] = column
        else:
            slot = len(self.slots)
            self.slots.append(column)
            self.row.append(MISSING)
        self._by_name[name] = slot
        return slot

    def failed(self, error: str) -> None:
        """Count an error, of which at most `MAX_ERRORS` kinds are told apart."""
        self.failures += 1
        if error in self.errors or len(self.errors) < MAX_ERRORS:
            self.errors[error] += 1

    def set_period(self, period_ms: int) -> None:
        """Say that the source is read at another period from now on."""
        if period_ms == self.period_ms:
            return
        for slot, column in enumerate(self.slots):
            if column is not None and column.channel.period_ms == self.period_ms:
                channel = dataclasses.replace(column.channel, period_ms=period_ms)
                self.slots[slot] = dataclasses.replace(column, channel=channel)
        self.period_ms = period_ms

    def put(self, slots: Slots, values: list[int]) -> None:
        """Put values into slots, both in the same order.

        Raises
        ------
        ValueError
            If there are more or fewer values than slots.
        """
        if slots.first >= 0:
            if len(values) != len(slots):
                raise ValueError(f"{len(values)} values for {len(slots)} channels")
            self.row[slots.first : slots.first + len(values)] = values
            return
        row = self.row
        for slot, value in zip(slots, values, strict=True):
            if slot >= 0:
                row[slot] = value

    def blank(self, slots: Iterable[int]) -> None:
        """Mark the samples of slots as missing."""
        for slot in slots:
            self.row[slot] = MISSING

    def retire(self, slots: Iterable[int]) -> None:
        """Say that the channels of slots are gone."""
        slots = list(slots)
        self.blank(slots)
        self._retired.update(slots)

    @property
    def gone(self) -> set[int]:
        """Slots whose channel is gone."""
        return set(self._retired)

    def end_segment(self) -> None:
        """Free the slots of channels that are gone, now that no segment needs them any more.

        Free slots at the end go altogether, so that a crowd that has left costs nothing any more.
        """
        for slot in self._retired:
            column = self.slots[slot]
            if column is not None:
                del self._by_name[column.channel.name]
                self.slots[slot] = None
                self._free.append(slot)
        self._retired.clear()
        while self.slots and self.slots[-1] is None:
            self.slots.pop()
            self.row.pop()
        # The first one is taken first, so that the end can go.
        self._free = sorted((slot for slot in self._free if slot < len(self.slots)), reverse=True)

    @property
    def channels(self) -> list[Channel]:
        """The channels that are there now."""
        return [
            column.channel
            for slot, column in enumerate(self.slots)
            if column is not None and slot not in self._retired
        ]
