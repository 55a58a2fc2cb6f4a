"""What the collector says of itself: late and lost ticks, and what each source cost, missed and failed."""

from __future__ import annotations

from collections.abc import Sequence

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.channels import Channel
from reveal_core.collect.columns import MISSING, Columns, Slots
from reveal_core.collect.loop import Tick
from reveal_core.collect.opened import BATCH, OpenSource
from reveal_core.collect.segments import Block

SOURCES_MS = 1000
"""What each source cost is told this often: what it says at every read costs as much as many a source."""


class SelfMetrics:
    """The collector's own columns and blocks.

    Parameters
    ----------
    tick_ms
        Sampling interval.
    sparse_every
        Where the interval follows the host: how many ticks apart the ticks of its sparse grid are.

    Attributes
    ----------
    late_ticks, lost_ticks
        Passes that began late, and that were skipped because their time had passed.
    clock_steps
        How often the wall clock was set.
    """

    def __init__(self, tick_ms: int, sparse_every: int | None = None) -> None:
        # A multiple of the sparse grid, so that it is told as often whatever the pace.
        grid = sparse_every or 1
        self.every = max(1, -(-SOURCES_MS // (tick_ms * grid))) * grid
        self.of_ticks = Columns("reveal", tick_ms, load_catalog(), load_left_out())
        self.of_sources = Columns("reveal", self.every * tick_ms, load_catalog(), load_left_out())
        self.late_ticks = 0
        self.lost_ticks = 0
        self.clock_steps = 0
        self._sparse_every = sparse_every
        names = ["late_ticks", "lost_ticks", "clock_steps", "clock_step", "interval"]
        names += ["sparse_grid"] if sparse_every else []
        self._tick_slots = Slots(_slot(self.of_ticks, name) for name in names)
        self._source_slots: dict[str, Slots] = {}
        self._pending: list[tuple[int, list[int]]] = []
        self._blocks = (Block(), Block())

    def record(self, tick: Tick, row: int, sources: Sequence[OpenSource]) -> None:
        """Note a tick, after its sources were read."""
        self.late_ticks += tick.late
        self.lost_ticks += tick.lost
        self.clock_steps += tick.step_ns != 0
        values = [
            self.late_ticks,
            self.lost_ticks,
            self.clock_steps,
            tick.step_ns // 1_000_000,
            tick.interval_ms,
        ]
        if self._sparse_every:
            values.append(int(tick.number % self._sparse_every == 0))
        self._pending.append((row, values))
        if len(self._pending) >= BATCH:
            self.settle()
        if tick.number % self.every == 0:
            self._record_sources(row, sources)

    def _record_sources(self, row: int, sources: Sequence[OpenSource]) -> None:
        for opened in sources:
            name = opened.source.name
            slots = self._source_slots.get(name) or self._open(name, opened.period_ms)
            self.of_sources.put(slots, [opened.worst_us, opened.late, opened.failed])
            opened.worst_us = MISSING
        self._blocks[1].append(row, self.of_sources.row)

    def _open(self, name: str, period_ms: int) -> Slots:
        columns = self.of_sources
        slots = Slots(
            (
                _slot(columns, "read_time", name, max(period_ms, columns.period_ms)),
                _slot(columns, "late_reads", name),
                _slot(columns, "failed_reads", name),
            )
        )
        self._source_slots[name] = slots
        return slots

    def settle(self) -> None:
        """Put what was noted into the block; together, for the reason that `BATCH` gives."""
        for row, values in self._pending:
            self.of_ticks.put(self._tick_slots, values)
            self._blocks[0].append(row, self.of_ticks.row)
        self._pending = []

    @property
    def channels(self) -> list[Channel]:
        """The channels that are there now."""
        return self.of_ticks.channels + self.of_sources.channels

    def cut(self) -> tuple[Block, Block]:
        """Return what was noted since the last cut, and begin anew."""
        self.settle()
        blocks = self._blocks
        for block, columns in zip(blocks, (self.of_ticks, self.of_sources), strict=True):
            block.seal(columns)
        self._blocks = (Block(), Block())
        return blocks


def _slot(columns: Columns, metric: str, source: str = "", period_ms: int | None = None) -> int:
    slot = columns.add(f"reveal.{metric}", source, period_ms=period_ms)
    if slot is None:
        raise ValueError(f"reveal.{metric} is not in the catalogue")
    return slot
