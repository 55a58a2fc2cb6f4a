"""What the collector says of itself: late and lost ticks, and what each source cost, missed and failed."""

from __future__ import annotations

from collections.abc import Sequence

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns, Slots
from reveal_core.collect.loop import Tick
from reveal_core.collect.opened import BATCH, OpenSource
from reveal_core.collect.segments import Block


class SelfMetrics:
    """The collector's own columns and block.

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
        self.columns = Columns("reveal", tick_ms, load_catalog(), load_left_out())
        self.block = Block()
        self.late_ticks = 0
        self.lost_ticks = 0
        self.clock_steps = 0
        self._sparse_every = sparse_every
        names = ["late_ticks", "lost_ticks", "clock_steps", "clock_step", "interval"]
        names += ["sparse_grid"] if sparse_every else []
        self._of_ticks = Slots(self._slot(name) for name in names)
        self._of_source: dict[str, tuple[int, int, int]] = {}
        self._pending: list[tuple[int, list[int], list[tuple[OpenSource, int, int, int]]]] = []

    def _slot(self, metric: str, source: str = "", period_ms: int | None = None) -> int:
        slot = self.columns.add(f"reveal.{metric}", source, period_ms=period_ms)
        if slot is None:
            raise ValueError(f"reveal.{metric} is not in the catalogue")
        return slot

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
        read = [(s, s.taken_us, s.late, s.failed) for s in sources if s.taken_us != MISSING]
        self._pending.append((row, values, read))
        if len(self._pending) >= BATCH:
            self.settle()

    def settle(self) -> None:
        """Put what was noted into the block; together, for the reason that `BATCH` gives."""
        own = self.columns.row
        for row, values, read in self._pending:
            for slots in self._of_source.values():
                own[slots[0]] = own[slots[1]] = own[slots[2]] = MISSING
            self.columns.put(self._of_ticks, values)
            for opened, taken_us, late, failed in read:
                slots = self._of_source.get(opened.source.name) or self._open(opened)
                own[slots[0]], own[slots[1]], own[slots[2]] = taken_us, late, failed
            self.block.append(row, own)
        self._pending = []

    def _open(self, opened: OpenSource) -> tuple[int, int, int]:
        name = opened.source.name
        slots = (
            self._slot("read_time", name, opened.period_ms),
            self._slot("late_reads", name, opened.period_ms),
            self._slot("failed_reads", name, opened.period_ms),
        )
        self._of_source[name] = slots
        return slots

    def cut(self) -> Block:
        """Return what was noted since the last cut, and begin anew."""
        self.settle()
        block = self.block
        block.seal(self.columns)
        self.block = Block()
        return block
