"""From what ``perf stat`` counts in its intervals to rates."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.parts import Part, Readable
from reveal_core.collect.sources.perf_cells import RESOLUTION, Cells
from reveal_core.collect.sources.perf_events import Event
from reveal_core.collect.sources.perf_lines import Layout, Scope

HELD_INTERVALS = 2.5
"""A value stands until so many intervals have passed without a new one: perf's beat and ours drift."""
MAX_REST = 1 << 20
"""Longest line, in bytes; a longer one is no line of perf's."""
_HEAD = re.compile(rb'\{\s*"interval"\s*:\s*(\d+(?:\.\d+)?),')


class PerfPart(Part):
    """The output of perf, interval by interval.

    Parameters
    ----------
    file
        Gives the number of perf's start and what it wrote since the last read.
    columns
        Where rates go.
    events
        What is counted.
    scope
        What the lines stand for.
    interval_s
        Interval that perf was asked for.
    clock
        Seconds on a clock that does not step.

    Notes
    -----
    Rates, not counts, are stored: perf prints what it counted since its last interval, so there is no
    cumulative counter that would survive a lost interval; a sum kept here would hide one as an undercount,
    where a rate is missing. The rate is over the time that perf itself gives: the time that the event was
    enabled on its CPUs where it ran all along, else the length of the interval.
    """

    def __init__(
        self,
        file: Readable,
        columns: Columns,
        events: Sequence[Event],
        scope: Scope,
        interval_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(file, columns)
        self.scope = scope
        self.interval_s = interval_s
        self.clock = clock
        self.heard = clock()
        self.start = -1
        self.cells = Cells(events, scope)
        self.layout: Layout | None = None
        self.layout_cells: list[int] = []
        self.slots = [self._slot(metric, instance) for metric, instance in self.cells.channels]
        self._lose_track()

    def _slot(self, metric: str, instance: str) -> int:
        slot = self.columns.add(metric, instance, RESOLUTION, round(self.interval_s * 1000))
        if slot is None:
            raise ValueError(f"{metric} is not in the catalogue")
        self.columns.row[slot] = MISSING
        self.owned.add(slot)
        return slot

    def parse(self, data: tuple[int, bytes]) -> None:
        """Take what perf wrote, and put the rates over the intervals that it completed into the row."""
        start, text = data
        if start != self.start:
            self.start = start
            self._lose_track()
        now = self.clock()
        if text and self._take(self.rest + text):
            self.heard = now
            row = self.columns.row
            for slot, value in zip(self.slots, self.cells.rates(), strict=True):
                row[slot] = value
        if now - self.heard > HELD_INTERVALS * self.interval_s:
            self.columns.blank(self.owned)

    def update(self) -> bool:
        """See `Part.update`; silence is something to look at too."""
        self.seen = None
        return super().update()

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.start = -1

    def _lose_track(self) -> None:
        """Forget where intervals begin and end: the next one to end only tells where its successor begins."""
        self.rest = b""
        self.head = b""
        self.pieces: list[bytes] = []
        self.lines = 0
        self.lines_of_interval = 0
        self.last_end: float | None = None

    def _skip(self) -> None:
        """Go on behind something that cannot be read, among which there may be samples."""
        self.columns.failed(f"{self.file.path}: a line that is no sample of perf's")
        self._lose_track()

    def _take(self, text: bytes) -> bool:
        """Cut what perf wrote into intervals and count those that are complete; return whether any was."""
        cut = text.rfind(b"\n") + 1
        if len(text) - cut > MAX_REST:
            self._lose_track()
            raise ValueError(f"a line of more than {MAX_REST} bytes")
        rest = text[cut:]
        self.cells.clear()
        at = 0
        complete = 0
        while at < cut:
            found = _HEAD.match(text, at)
            if found is None:
                end = text.index(b"\n", at) + 1
                if text[at:end].strip():
                    self._skip()
                at = end
                continue
            head = found[0]
            end = text.index(b"\n", max(at, text.rfind(b"\n" + head, at, cut) + 1)) + 1
            if head != self.head and self.pieces:
                self.lines_of_interval = self.lines
                complete += self._close()
            if self.last_end is not None and float(found[1]) <= self.last_end:
                if float(found[1]) < self.last_end:
                    self._skip()
                self.lines_of_interval = 0  # a straggler of an interval that was thought complete
            else:
                self.head = head
                self.pieces.append(text[at:end])
                self.lines += text.count(b"\n", at, end)
                # Knowing how many lines to expect saves waiting for the next interval to see that one is
                # complete.
                if self.lines == self.lines_of_interval:
                    complete += self._close()
            at = end
        self.rest = rest
        return complete > 0

    def _close(self) -> bool:
        """Count the lines of an interval; return whether that worked."""
        text = b"".join(self.pieces)
        end = float(self.head.partition(b":")[2].rstrip(b","))
        begin, self.last_end = self.last_end, end
        self.pieces, self.lines = [], 0
        if begin is None:
            return False
        counts = None if self.layout is None else self.layout.read(text)
        if counts is None:
            try:
                self.layout = layout = Layout(text, self.cells.number, self.scope)
            except ValueError:
                self._skip()
                return False
            self.layout_cells = self.cells.places(layout.cells)
            counts = layout.read(text)
        if counts is None:
            return False
        self.cells.add(self.layout_cells, counts, end - begin)
        return True
