"""Sources that are sampled: read at once by the loop, or by workers when a read may hang."""

from __future__ import annotations

import time
from typing import Any

from reveal_core.channels import Channel
from reveal_core.collect.columns import MISSING
from reveal_core.collect.lanes import Lanes
from reveal_core.collect.parts import Part
from reveal_core.collect.segments import Block
from reveal_core.collect.source import Source

BATCH = 60
"""So many reads are parsed together.

Between two ticks a machine that works forgets everything about us: parsing one read alone takes three times
as long as parsing it after another of its kind.
"""
BURST_US = 3_000
"""A batch is smaller where parsing it would take longer than this."""
SLOW_SHARE = 0.2
"""A source that takes more than this share of a tick, again and again, is read half as often."""
SLOW_READS = 10
CALM_READS = 100
"""So many reads in a row must be slow before it is slowed down, or cheap before it is read faster again."""
MAX_STRETCH = 16

Snapshot = tuple[Part, Any, Exception | None]
"""A part, and what it said or the error that reading it raised."""


class OpenSource:
    """A source whose files always answer, read in the sampling thread: how often, and what it said in the
    present segment.

    Parameters
    ----------
    source
        Opened and read once.
    every
        Ticks between two reads.
    phase
        Slow sources are spread over the ticks after the first, so that no tick carries them all.
    tick_ms
        Length of a tick.
    coverage
        The channel of the share of samples that were there.

    Attributes
    ----------
    late
        Reads that took longer than they may, or whose answer did not come in time.
    worst_us
        The longest that a read took since somebody last set this to `MISSING`.
    samples
        How many samples were read.
    """

    def __init__(self, source: Source, every: int, phase: int, tick_ms: int, coverage: Channel) -> None:
        self.source = source
        self.every = every
        self.stretch = 1
        self.phase = phase % every
        self.tick_ms = tick_ms
        self.due = 0
        self.coverage = coverage
        self.block = Block(coverage=coverage)
        self.late = 0
        self.worst_us = MISSING
        self.samples = 0
        self._pending: list[tuple[int, list[Snapshot]]] = []
        self._batch = 1  # until it is known what parsing takes
        self._parse_us = 0
        self._slow = 0
        self._calm = 0
        self._slow_us = round(SLOW_SHARE * tick_ms * 1000)
        source.settle = self.settle

    @property
    def failed(self) -> int:
        """Reads that failed."""
        return self.source.columns.failures

    @property
    def period_ms(self) -> int:
        """Time between two reads."""
        return self.every * self.stretch * self.tick_ms

    @property
    def notes(self) -> list[str]:
        """What a person should know about it, for ``reveal doctor``."""
        if self.stretch == 1:
            return []
        return [f"read every {self.period_ms} ms only: it takes more than its share of a tick"]

    def sample(self, tick: int, row: int) -> None:
        """Read the source for a row of the segment, if it is due."""
        if tick < self.due:
            return
        started = time.perf_counter_ns()
        self._read(row)
        self.plan(tick)
        # What parsing it will take is part of what it costs.
        taken_us = (time.perf_counter_ns() - started) // 1000 + self._parse_us
        if len(self._pending) >= self._batch:
            self.settle()
        if taken_us > self.worst_us:
            self.worst_us = taken_us
        if taken_us > self._slow_us or self._slow or self.stretch > 1:
            self._weigh(taken_us)

    def _read(self, row: int) -> None:
        """Keep what the source's files say now, to be parsed with the next ones."""
        source = self.source
        try:
            source.refresh()
            self._pending.append((row, [(part, *part.snapshot()) for part in source.parts]))
        except Exception as error:  # noqa: BLE001 - a broken source must not cost the others their samples
            self.settle()
            self._give_up(error)
            self.block.append(row, source.columns.row)

    def settle(self) -> None:
        """Parse what was read and is not parsed yet."""
        pending = self._pending
        if not pending:
            return
        self._pending = []
        started = time.perf_counter_ns()
        columns = self.source.columns
        for row, snapshots in pending:
            try:
                for part, data, failure in snapshots:
                    part.accept(data, failure)
            except Exception as error:  # noqa: BLE001 - see above
                self._give_up(error)
            self.block.append(row, columns.row)
            self.samples += len(columns.row)
        self._parse_us = (time.perf_counter_ns() - started) // (1000 * len(pending))
        self._batch = max(1, min(BATCH, BURST_US // max(1, self._parse_us)))

    def _give_up(self, error: Exception) -> None:
        """Mark every sample missing after a mistake in the source."""
        columns = self.source.columns
        columns.failed(f"{type(error).__name__}: {error}")
        for part in self.source.parts:
            part.forget()
        columns.blank(range(len(columns.row)))

    def plan(self, tick: int) -> None:
        """Say when it is due after a read."""
        every = self.every * self.stretch
        self.due = (tick + self.phase) // every * every + every - self.phase

    def _weigh(self, taken_us: int) -> None:
        """Read a source that proves slow less often, and more often again once it is cheap."""
        if taken_us > self._slow_us:
            self._slow, self._calm = self._slow + 1, 0
            self.late += 1
            if self._slow >= SLOW_READS and self.stretch < MAX_STRETCH:
                self.stretch *= 2
                self._slow = 0
        else:
            self._slow = 0
            self._calm += taken_us * 2 < self._slow_us
            if self._calm >= CALM_READS and self.stretch > 1:
                self.stretch //= 2
                self._calm = 0

    def cut(self) -> Block:
        """Return what was sampled since the last cut, and begin anew."""
        self.settle()
        block = self.block
        block.seal(self.source.columns)
        self.source.columns.set_period(self.period_ms)
        self.block = Block(coverage=self.coverage)
        return block

    def close(self) -> None:
        """Close the source."""
        self.settle()
        self.source.close()


class SelfReadingSource(OpenSource):
    """A source that reads in a way of its own, not part by part: parsed at once."""

    def _read(self, row: int) -> None:
        source = self.source
        try:
            source.read()
        except Exception as error:  # noqa: BLE001 - a broken source must not cost the others their samples
            self._give_up(error)
        self.block.append(row, source.columns.row)
        self.samples += len(source.columns.row)


class DetachedSource(OpenSource):
    """A source that is read by workers. A round is asked for when it is due and recorded at the first tick
    that finds it complete, or else a period later, without what has not come.
    """

    def __init__(self, source: Source, every: int, phase: int, tick_ms: int, coverage: Channel) -> None:
        super().__init__(source, every, phase, tick_ms, coverage)
        self.lanes = Lanes(source.name, every * tick_ms / 1000)
        self.asked: int | None = None
        self.round = 0

    @property
    def notes(self) -> list[str]:
        """See `OpenSource.notes`."""
        return [f"{what} does not answer" for what in self.lanes.hanging()]

    def sample(self, tick: int, row: int) -> None:
        """Collect what has come, record a round that is over, and ask for the next one if it is due."""
        if self.asked is None and tick < self.due:
            return
        complete = self.lanes.collect(self.round)
        if self.asked is not None and (complete or tick >= self.asked + self.every):
            if not complete:
                self.lanes.close_round(self.round)
                self.late = self.lanes.late
            samples = self.source.columns.row
            self.block.append(row, samples)
            self.samples += len(samples)
            self.worst_us = max(self.worst_us, self.lanes.took_us)
            self.asked = None
        if self.asked is None and tick >= self.due:
            self.source.refresh()
            self.round += 1
            self.lanes.ask(self.source.parts, self.round)
            self.asked = tick
            self.plan(tick)

    def close(self) -> None:
        """Close the source; a file that is being read is left to its worker."""
        waiting = self.lanes.outstanding
        self.lanes.close()
        if not waiting:
            self.source.close()


def wrap(source: Source, number: int, every: int, tick_ms: int, coverage: Channel) -> OpenSource:
    """Return a source as it is to be sampled; ``number`` is its place among the sources."""
    kind: type[OpenSource]
    if source.detached:
        kind = DetachedSource
    elif type(source).read is not Source.read:
        kind = SelfReadingSource
    else:
        kind = OpenSource
    return kind(source, every, number, tick_ms, coverage)
