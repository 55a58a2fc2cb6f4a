"""What perf counted of each event on each instance, and the rates that follow."""

from __future__ import annotations

from collections.abc import Sequence

from reveal_core.collect.columns import MISSING
from reveal_core.collect.sources.perf_events import Event, printed_name
from reveal_core.collect.sources.perf_lines import Cell, Counts, Scope

MIN_RUNNING_SHARE = 5.0
"""Percent of the time that an event must have had a counter; perf's extrapolation from less is a guess."""
MAX_RATE = 1e11
"""Most events a second that one CPU can count (10 GHz times 10 instructions); more is no count."""
MAX_SHARE = 100.5
RUNTIME_TOLERANCE = 0.1
RESOLUTION = 1e-3
"""What one step of a stored integer is worth."""
STEPS = 1000.0

APERF, MPERF, TSC = "msr/aperf/", "msr/mperf/", "msr/tsc/"
CLOCKS = {"perf.busy": 101.0, "perf.average_mhz": 20000.0, "perf.busy_mhz": 20000.0}
"""What follows from APERF, MPERF and TSC, each with the most that it can be."""
RUNNING = "perf.running_share"


class Cells:
    """Counts of the intervals of one read, by event and instance.

    The numbers are few and are worked with one by one: arrays would cost several times as much here.

    Parameters
    ----------
    events
        What is counted.
    scope
        On what.

    Attributes
    ----------
    order
        The cells.
    channels
        Metric and instance of each rate, in the order of `rates`.
    """

    def __init__(self, events: Sequence[Event], scope: Scope) -> None:
        self.instances = list(scope.instances)
        self.cpus = list(scope.instances.values())
        by_name = {printed_name(event.event): event for event in events}
        self.order: list[Cell] = [
            (instance, name)
            for name, event in by_name.items()
            for instance in self.instances
            if instance in scope.units.get(event.device, scope.instances)
        ]
        self.number = {cell: place for place, cell in enumerate(self.order)}
        where = {name: place for place, name in enumerate(self.instances)}
        self.instance_of = [where[instance] for instance, _ in self.order]
        self.counters = [scope.counters(cell) for cell in self.order]
        self.channels: list[tuple[str, str]] = []
        self.stored: list[tuple[int, float]] = []
        self.timed: list[int] = []
        for place, (instance, name) in enumerate(self.order):
            event = by_name[name]
            if event.kind == "part":
                continue
            if event.kind == "share":
                self.timed.append(len(self.channels))
            self.channels.append((event.metric, instance))
            self.stored.append((place, MAX_RATE * scope.instances[instance]))
        self.aperf, self.mperf, self.tsc = (
            self.places([(instance, name) for instance in self.instances]) for name in (APERF, MPERF, TSC)
        )
        self.clocks = {APERF, MPERF, TSC} <= by_name.keys()
        if self.clocks:
            self.channels += [(metric, instance) for instance in self.instances for metric in CLOCKS]
        self.channels += [(RUNNING, instance) for instance in self.instances]
        self.clear()

    def clear(self) -> None:
        """Begin anew, before the intervals of a read."""
        size = len(self.order)
        self.totals = [0.0] * size
        self.seconds = [0.0] * size
        self.shares = [0.0] * size
        self.intervals = 0

    def places(self, cells: Sequence[Cell]) -> list[int]:
        """Return the places of some cells, -1 for one that is not counted."""
        return [self.number.get(cell, -1) for cell in cells]

    def add(self, places: Sequence[int], counts: Counts, length: float) -> None:
        """Add what an interval of some length counted.

        A hybrid processor counts an event on either of two PMUs, or on both for the whole host: then two
        lines are of one cell, and their counts are added up.
        """
        if len(set(places)) < len(places):
            places, counts = merge(places, counts)
        least, most = length * (1.0 - RUNTIME_TOLERANCE), length * (1.0 + RUNTIME_TOLERANCE)
        totals, seconds, shares, counters = self.totals, self.seconds, self.shares, self.counters
        for place, value, share, runtime in zip(
            places, counts.values, counts.shares, counts.runtimes, strict=True
        ):
            shares[place] += share
            if share >= MIN_RUNNING_SHARE and value == value:
                totals[place] += value
                enabled = runtime * 1e-9 / counters[place]
                seconds[place] += enabled if share == 100.0 and least <= enabled <= most else length
        self.intervals += 1

    def rates(self) -> list[int]:
        """Return the rates over all the intervals that were added, as stored integers, `MISSING` where there
        is none.
        """
        totals, seconds = self.totals, self.seconds
        found = [
            int(rate * STEPS + 0.5)
            if seconds[place] > 0.0 and 0.0 <= (rate := totals[place] / seconds[place]) <= limit
            else MISSING
            for place, limit in self.stored
        ]
        hertz = [self._hertz(instance) for instance in range(len(self.instances))]
        for index in self.timed:
            found[index] = self._time_share(self.stored[index][0], hertz)
        if self.clocks:
            for instance, ticks in enumerate(hertz):
                found += self._clock_rates(instance, ticks)
        running = [100.0] * len(self.instances)
        intervals = max(1, self.intervals)
        for instance, total in zip(self.instance_of, self.shares, strict=True):
            if not total >= running[instance] * intervals:
                running[instance] = total / intervals
        return found + [stored(share, 100.0) for share in running]

    def _rate(self, places: Sequence[int], instance: int) -> float | None:
        """Return the rate of an event on an instance; None where it was not counted."""
        place = places[instance]
        return self.totals[place] / self.seconds[place] if place >= 0 and self.seconds[place] > 0.0 else None

    def _hertz(self, instance: int) -> float | None:
        """Return how fast the TSC of one CPU counts."""
        rate = self._rate(self.tsc, instance)
        return rate / self.cpus[instance] if rate else None

    def _time_share(self, place: int, hertz: Sequence[float | None]) -> int:
        """Return the stored share of the time of a state that is counted in ticks of the TSC."""
        ticks = hertz[self.instance_of[place]]
        if ticks is None or self.seconds[place] <= 0.0:
            return MISSING
        rate = self.totals[place] / self.seconds[place] / self.counters[place]
        return stored(100.0 * rate / ticks, MAX_SHARE)

    def _clock_rates(self, instance: int, hertz: float | None) -> list[int]:
        """Return what turbostat(8) calls Busy%, Avg_MHz and Bzy_MHz, as stored.

        APERF counts actual and MPERF base cycles while a CPU is not idle, TSC base cycles all the time.
        """
        aperf, mperf = self._rate(self.aperf, instance), self._rate(self.mperf, instance)
        if hertz is None or aperf is None or mperf is None:
            return [MISSING] * len(CLOCKS)
        average = aperf / self.cpus[instance] / 1e6
        busy = mperf / self.cpus[instance] / hertz
        values = (100.0 * busy, average, average / busy if busy > 0.0 else None)
        return [stored(value, limit) for value, limit in zip(values, CLOCKS.values(), strict=True)]


def merge(places: Sequence[int], counts: Counts) -> tuple[list[int], Counts]:
    """Return the counts with those of one cell put together."""
    merged: dict[int, tuple[float, float, float]] = {}
    for place, value, share, runtime in zip(
        places, counts.values, counts.shares, counts.runtimes, strict=True
    ):
        before = merged.get(place)
        if before is None or not before[1] >= MIN_RUNNING_SHARE:
            merged[place] = (value, share, runtime)
        elif share >= MIN_RUNNING_SHARE and value == value:
            merged[place] = (before[0] + value, max(before[1], share), before[2] + runtime)
    cells = list(merged.values())
    parts = (
        [value for value, _, _ in cells],
        [share for _, share, _ in cells],
        [time for _, _, time in cells],
    )
    return list(merged), Counts(*parts)


def stored(value: float | None, limit: float) -> int:
    """Return a value as a stored integer; `MISSING` for none, and for what cannot be.

    >>> stored(40.0, 101.0), stored(200.0, 101.0) == MISSING, stored(float("nan"), 1.0) == MISSING
    (40000, True, True)
    """
    return int(value * STEPS + 0.5) if value is not None and 0.0 <= value <= limit else MISSING
