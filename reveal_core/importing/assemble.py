"""From chunks to segments: pieces of at most an hour on a fixed grid, by the collector's own encoder."""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reveal_core.collect.columns import MISSING, Column
from reveal_core.collect.segments import Batch, Block, encode_batch
from reveal_core.importing.findings import Findings
from reveal_core.importing.types import NO_TIME, Chunk, ImportedColumn, Ints, Layout
from reveal_core.segment import Segment

BOOT = "import"
"""Boot of every imported segment: all files of a host are one stretch of time."""
CELLS_S = (3600, 1800, 600, 300, 60, 30, 10)
"""Lengths of a segment; each divides the one before, so that none crosses an hour."""
CELL_VALUES = 6_000_000
"""Most samples of a segment, more or less: what is held of one is a few times this in bytes."""
MOST_VALUES = 24_000_000
"""Samples of all hosts together that may wait to be written."""
OPEN_CELLS = 2
"""Cells of a layout that wait for rows that come late."""
DEFAULT_PERIOD_MS = 1000
"""Of a file with a single row, which says nothing of its period."""

_SEQUENCES = 1000


class _Table(Block):
    """Columns that are there as arrays already, for the collector's encoder."""

    def __init__(self, columns: list[Column], values: NDArray[Any]) -> None:
        super().__init__(columns=list(columns), gone=set(range(len(columns))))
        self.values = values

    def matrix(self, rows: int) -> NDArray[Any]:
        """See `Block.matrix`. A column without any sample is left out, for every slot counts as gone."""
        return self.values


class _Pile:
    """The chunks of one layout that are not written yet, by cell of the grid."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.cell_ns = 0
        self.cells: dict[int, list[Chunk]] = {}
        self.values = 0
        self.periods: list[int] | None = None
        self.seen = np.zeros(len(layout.gauges) + len(layout.counters), dtype=bool)
        self.numbers: Counter[int] = Counter()
        number = hashlib.sha256(f"{layout.host}\0{layout.identity}".encode()).digest()[:5]
        self.first_number = int.from_bytes(number) * _SEQUENCES

    @property
    def width(self) -> int:
        return len(self.seen)


class Assembler:
    """Takes chunks in the order of their source and makes segments.

    Rows may come late: they are sorted within a cell, and cells stay open for a while. Later still they
    become a segment of their own, which readers put together with the others. Rows of the same time become
    one; where both have a sample, the first one's stays and that is told.

    Parameters
    ----------
    findings
        Is told what is not stored.
    on_segment
        Takes the segments.

    Attributes
    ----------
    samples
        Samples in the segments so far.
    hosts
        Hosts with a segment so far.
    rows_by_period
        How many rows came at which distance, in ms.
    first_ns, last_ns
        Times of the first and the last sample, ns since 1970.
    """

    def __init__(self, findings: Findings, on_segment: Callable[[Segment], None]) -> None:
        self.findings = findings
        self.on_segment = on_segment
        self.samples = 0
        self.segments = 0
        self.hosts: set[str] = set()
        self.rows_by_period: Counter[int] = Counter()
        self.first_ns, self.last_ns = 0, 0
        self._piles: dict[Layout, _Pile] = {}

    def add(self, chunk: Chunk) -> None:
        """Take a chunk; rows without a time are left out, as their reader has told."""
        good = chunk.ts != NO_TIME
        if not good.all():
            chunk = _rows(chunk, good)
        if not len(chunk.ts):
            return
        pile = self._piles.get(chunk.layout)
        if pile is None:
            pile = self._piles[chunk.layout] = _Pile(chunk.layout)
            pile.cell_ns = _cell_ns(chunk.ts, pile.width, chunk.layout.period_ms)
        cells = chunk.ts // pile.cell_ns
        several = np.unique(cells)
        for cell in several:
            part = chunk if len(several) == 1 else _rows(chunk, cells == cell)
            pile.cells.setdefault(int(cell), []).append(part)
            pile.values += len(part.ts) * pile.width
        while len(pile.cells) > OPEN_CELLS:
            self._write(pile, min(pile.cells))
        while sum(one.values for one in self._piles.values()) > MOST_VALUES:
            largest = max(self._piles.values(), key=lambda one: one.values)
            self._write(largest, min(largest.cells))

    def end(self, layout: Layout | None = None) -> None:
        """Write what waits, of one layout or of all, and say which columns never had a sample."""
        for pile in [one for one in self._piles.values() if layout in (None, one.layout)]:
            for cell in sorted(pile.cells):
                self._write(pile, cell)
            del self._piles[pile.layout]
            columns = [*pile.layout.gauges, *pile.layout.counters]
            empty = {column.metric.name for column, seen in zip(columns, pile.seen, strict=True) if not seen}
            for metric in sorted(empty):
                self.findings.skip("columns that are empty throughout a file", item=metric)

    def _write(self, pile: _Pile, cell: int) -> None:
        chunks = pile.cells.pop(cell)
        pile.values -= sum(len(chunk.ts) for chunk in chunks) * pile.width
        layout = pile.layout
        ts = np.concatenate([chunk.ts for chunk in chunks])
        gauges = np.concatenate([chunk.gauges for chunk in chunks], axis=1)
        counters = (
            np.concatenate([chunk.counters for chunk in chunks], axis=1)
            if layout.counters
            else np.empty((0, len(ts)), dtype=np.int64)
        )
        ts, gauges, counters = self._in_order(ts, gauges, counters)
        infinite = np.isinf(gauges)
        if infinite.any():
            self.findings.skip("samples that are infinite", count=int(infinite.sum()))
            gauges[infinite] = np.nan
        self._within_range(layout, gauges, counters)
        missing = np.isnan(gauges)
        present = np.concatenate([~missing, counters != MISSING])
        pile.seen |= present.any(axis=1)
        if not present.any():
            self.findings.skip("rows without any sample", count=len(ts))
            return
        if pile.periods is None or len(ts) > 1:
            pile.periods = _periods(ts, present, pile.periods, layout.period_ms)
        gauges[missing] = np.float32(MISSING)
        columns = [
            _column(column, period)
            for column, period in zip((*layout.gauges, *layout.counters), pile.periods, strict=True)
        ]
        split = len(layout.gauges)
        blocks: list[Block] = [_Table(columns[:split], gauges), _Table(columns[split:], counters)]
        start_ms = int(ts[0]) // 1_000_000
        number = pile.first_number + pile.numbers[start_ms]
        pile.numbers[start_ms] += 1
        clock = array("q", ts.tobytes())
        # Their times are the only clock that such samples have, so they stand for the time since boot too.
        batch = Batch(layout.host, BOOT, number, layout.facts, clock, clock, [b for b in blocks if b.columns])
        self.on_segment(encode_batch(batch))
        self.samples += int(present.sum())
        self.rows_by_period[_round_ms(_typical_ms(ts, layout.period_ms))] += len(ts)
        first, last = int(ts[0]), int(ts[-1])
        self.first_ns = min(self.first_ns, first) if self.segments else first
        self.last_ns = max(self.last_ns, last) if self.segments else last
        self.segments += 1
        self.hosts.add(layout.host)

    def _within_range(self, layout: Layout, gauges: NDArray[np.float32], counters: Ints) -> None:
        """Take out what the catalogue calls impossible, and say so; the encoder would do it in silence."""
        for columns, values, missing in (
            (layout.gauges, gauges, np.nan),
            (layout.counters, counters, MISSING),
        ):
            for column, row in zip(columns, values, strict=False):
                low, high = column.metric.minimum, column.metric.maximum
                if column.metric.kind == "counter" and low is None:
                    low = 0
                if low is None and high is None:
                    continue
                outside = np.zeros(len(row), dtype=bool)
                if low is not None:
                    outside |= row < low
                if high is not None:
                    outside |= row > high
                if column.metric.kind == "counter":
                    outside &= row != MISSING
                if outside.any():
                    first = float(row[outside.argmax()])
                    self.findings.skip(
                        "samples outside the range that the catalogue gives",
                        item=column.metric.name,
                        detail=f"{first:g}",
                        count=int(outside.sum()),
                    )
                    row[outside] = missing

    def _in_order(
        self, ts: Ints, gauges: NDArray[np.float32], counters: Ints
    ) -> tuple[Ints, NDArray[np.float32], Ints]:
        steps = np.diff(ts)
        if (steps > 0).all():
            return ts, gauges, counters
        order = np.argsort(ts, kind="stable")
        ts, gauges, counters = ts[order], gauges[:, order], counters[:, order]
        first = np.concatenate([[True], np.diff(ts) > 0])
        if first.all():
            return ts, gauges, counters
        firsts = np.flatnonzero(first)
        clashes = 0
        for row in np.flatnonzero(~first):
            keep = firsts[np.searchsorted(firsts, row) - 1]
            g, c = gauges[:, row], counters[:, row]
            there_g, there_c = ~np.isnan(g), c != MISSING
            free_g, free_c = np.isnan(gauges[:, keep]), counters[:, keep] == MISSING
            clashes += bool((there_g & ~free_g).any() or (there_c & ~free_c).any())
            gauges[:, keep] = np.where(free_g, g, gauges[:, keep])
            counters[:, keep] = np.where(free_c, c, counters[:, keep])
        if clashes:
            self.findings.skip(
                "rows of a time that another row had already; only samples that were missing there are kept",
                count=clashes,
            )
        return ts[first], gauges[:, first], counters[:, first]


def _rows(chunk: Chunk, wanted: NDArray[np.bool_]) -> Chunk:
    counters = chunk.counters[:, wanted] if chunk.layout.counters else chunk.counters
    return Chunk(chunk.layout, chunk.ts[wanted], chunk.gauges[:, wanted], counters)


def _column(column: ImportedColumn, period_ms: int) -> Column:
    return Column(column.metric.channel(column.instance, column.source, period_ms), column.metric, 1.0)


def _cell_ns(ts: Ints, width: int, known_ms: int | None) -> int:
    """Return the length of a cell, so that a segment holds some `CELL_VALUES` samples at most."""
    period_s = _typical_ms(ts, known_ms) / 1000
    for seconds in CELLS_S:
        if seconds / period_s * width <= CELL_VALUES:
            break
    return seconds * 1_000_000_000


def _typical_ms(ts: Ints, known_ms: int | None = None) -> float:
    """Return the median time between rows in ms; what is known where there is but one, else the default."""
    steps = np.diff(np.unique(ts))
    return float(np.median(steps)) / 1e6 if len(steps) else float(known_ms or DEFAULT_PERIOD_MS)


def _periods(
    ts: Ints, present: NDArray[np.bool_], known: list[int] | None, known_ms: int | None
) -> list[int]:
    """Return the sampling period of each column in ms.

    It is the median time between samples, to three digits, so that jitter does not make every segment
    another; of a column with fewer than two samples it is what was known, else the rows'.
    """
    usual = _round_ms(_typical_ms(ts, known_ms))
    counts = present.sum(axis=1)
    found = []
    for row, count in enumerate(counts):
        if count * 2 > len(ts) and count > 1:
            # A few samples that are missing do not make a column slower than its rows.
            found.append(usual)
        elif count > 1:
            found.append(_round_ms(_typical_ms(ts[present[row]])))
        else:
            found.append(known[row] if known is not None else usual)
    return found


def _round_ms(milliseconds: float) -> int:
    """Return a period to three digits, at least 1 ms.

    >>> _round_ms(1000.4), _round_ms(59_973.0)
    (1000, 60000)
    """
    return max(1, round(float(f"{milliseconds:.3g}")))
