"""From what ``perf stat`` counts in its intervals to rates."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.parts import Part, Readable
from reveal_core.collect.sources.perf_events import Event, printed_name
from reveal_core.collect.sources.perf_lines import Cell, Counts, Floats, Layout, Scope

MIN_RUNNING_SHARE = 5.0
"""Percent of the time that an event must have had a counter; perf's extrapolation from less is a guess."""
MAX_RATE = 1e11
"""Most events a second that one CPU can count (10 GHz times 10 instructions); more is no count."""
RUNTIME_TOLERANCE = 0.1
HELD_INTERVALS = 2.5
"""A value stands until so many intervals have passed without a new one: perf's beat and ours drift."""
MAX_REST = 1 << 20
"""Longest line, in bytes; a longer one is no line of perf's."""
RESOLUTION = 1e-3
"""What one step of a stored integer is worth."""

APERF, MPERF, TSC = "msr/aperf/", "msr/mperf/", "msr/tsc/"
CLOCKS = {"perf.busy": 101.0, "perf.average_mhz": 20000.0, "perf.busy_mhz": 20000.0}
"""What follows from APERF, MPERF and TSC, each with the most that it can be."""
RUNNING = "perf.running_share"
MAX_SHARE = 100.5

Integers = npt.NDArray[np.int64]

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
        self.names = frozenset(name for _, name in self.cells.order)
        self.layout: Layout | None = None
        self.layout_cells = np.array([], dtype=np.int64)
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
                self.layout = layout = Layout(text, self.names, self.scope)
            except ValueError:
                self._skip()
                return False
            self.layout_cells = self.cells.places(layout.cells)
            counts = layout.read(text)
        if counts is None:
            return False
        self.cells.add(self.layout_cells, counts, end - begin)
        return True


class Cells:
    """What is counted of each event on each instance, and the rates that follow.

    Attributes
    ----------
    order
        The cells.
    channels
        Metric and instance of each rate, in the order of `rates`.
    """

    def __init__(self, events: Sequence[Event], scope: Scope) -> None:
        self.instances = list(scope.instances)
        self.order: list[Cell] = [
            (instance, name)
            for name, event in ((printed_name(event.event), event) for event in events)
            for instance in self.instances
            if instance in scope.units.get(event.device, scope.instances)
        ]
        self.number = {cell: place for place, cell in enumerate(self.order)}
        by_name = {printed_name(event.event): event for event in events}
        self.counters = np.array([scope.counters(cell) for cell in self.order], dtype=np.float64)
        self.cpus = np.array([scope.instances[name] for name in self.instances], dtype=np.float64)
        where = {name: place for place, name in enumerate(self.instances)}
        self.instance_of = np.array([where[instance] for instance, _ in self.order], dtype=np.int64)
        kinds = [by_name[name].kind for _, name in self.order]
        self.stored = np.array([kind != "part" for kind in kinds], dtype=bool)
        self.timed = np.array([kind == "share" for kind in kinds], dtype=bool)
        self.limits = np.where(self.timed, MAX_SHARE, MAX_RATE * self.cpus[self.instance_of])
        self.clocks = all(name in by_name for name in (APERF, MPERF, TSC))
        self.hardware = {name: self._column(name) for name in (APERF, MPERF, TSC)}
        self.channels = [
            (by_name[name].metric, instance)
            for (instance, name), kind in zip(self.order, kinds, strict=True)
            if kind != "part"
        ]
        if self.clocks:
            self.channels += [(metric, instance) for metric in CLOCKS for instance in self.instances]
        self.channels += [(RUNNING, instance) for instance in self.instances]
        self.clear()

    def _column(self, name: str) -> Integers:
        """Return the cell of an event on each instance; the one behind the last where there is none."""
        none = len(self.order)
        return np.array([self.number.get((i, name), none) for i in self.instances], dtype=np.int64)

    def places(self, cells: Sequence[Cell]) -> Integers:
        """Return the numbers of some cells; those that are not counted here get one behind the last."""
        return np.array([self.number.get(cell, len(self.order)) for cell in cells], dtype=np.int64)

    def clear(self) -> None:
        """Begin anew, before the intervals of a read."""
        self.totals = np.zeros(len(self.order))
        self.seconds = np.zeros(len(self.order))
        self.shares = np.zeros(len(self.order))
        self.intervals = 0

    def add(self, places: Integers, counts: Counts, length: float) -> None:
        """Add what an interval of some length counted.

        A hybrid processor counts an event on either of two PMUs, or on both for the whole host: then two
        lines are of one cell, and their counts are added up.
        """
        size = len(self.order)
        counted = ~np.isnan(counts.values) & (counts.shares >= MIN_RUNNING_SHARE)
        values = np.bincount(places, np.where(counted, counts.values, 0.0), size + 1)[:size]
        runtimes = np.bincount(places, np.where(counted, counts.runtimes, 0.0), size + 1)[:size]
        shares = np.zeros(size + 1)
        np.maximum.at(shares, places, np.nan_to_num(counts.shares))
        seen = np.bincount(places[counted], minlength=size + 1)[:size] > 0
        enabled = runtimes / 1e9 / self.counters
        plausible = (shares[:size] >= 100.0) & (np.abs(enabled - length) <= RUNTIME_TOLERANCE * length)
        self.totals += values
        self.seconds += np.where(seen, np.where(plausible, enabled, length), 0.0)
        self.shares += shares[:size]
        self.intervals += 1

    def rates(self) -> list[int]:
        """Return the rates over all the intervals that were added, as stored integers, `MISSING` where there
        is none.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = np.where(self.seconds > 0, self.totals / self.seconds, math.nan)
            hertz, mperf, aperf = (self._of(rates, name) for name in (TSC, MPERF, APERF))
            hertz = np.where(hertz > 0, hertz / self.cpus, math.nan)
            shares = 100.0 * rates / self.counters / hertz[self.instance_of]
            found = [_stored(np.where(self.timed, shares, rates), self.limits)[self.stored]]
            if self.clocks:
                # turbostat(8): APERF counts actual and MPERF base cycles while a CPU is not idle, TSC base
                # cycles all the time.
                worked = self._counted(APERF) & self._counted(MPERF)
                busy = np.where(worked, mperf / self.cpus / hertz, math.nan)
                average = np.where(worked, aperf / self.cpus, math.nan)
                values = (100.0 * busy, average / 1e6, np.where(busy > 0, average / busy, math.nan) / 1e6)
                limits = CLOCKS.values()
                found += [_stored(value, limit) for value, limit in zip(values, limits, strict=True)]
            least = np.full(len(self.instances), 100.0)
            np.minimum.at(least, self.instance_of, self.shares / max(1, self.intervals))
            found.append(_stored(least, 100.0))
        return [value for values in found for value in values.tolist()]

    def _of(self, rates: Floats, name: str) -> Floats:
        """Return the rate of an event on each instance; NaN where it is not counted."""
        return np.append(rates, math.nan)[self.hardware[name]]

    def _counted(self, name: str) -> npt.NDArray[np.bool_]:
        return np.append(self.seconds, 0.0)[self.hardware[name]] > 0


def _stored(values: Floats, limits: Floats | float) -> Integers:
    """Return values as stored integers; `MISSING` for what cannot be."""
    possible = (values >= 0) & (values <= limits)
    return np.where(possible, np.rint(np.where(possible, values, 0.0) / RESOLUTION), MISSING).astype(np.int64)
