"""From the lines that ``perf stat -I … -j`` prints to rates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.parts import Part, Readable
from reveal_core.collect.sources.perf_events import Event, printed_name

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

BUSY, AVERAGE_MHZ, BUSY_MHZ = "perf.busy", "perf.average_mhz", "perf.busy_mhz"
RUNNING = "perf.running_share"


@dataclass(frozen=True)
class Scope:
    """What a line of perf's stands for.

    Attributes
    ----------
    key
        The JSON name that tells instances apart: ``cpu``, ``socket``, or empty for the whole host.
    instances
        Number of CPUs by instance (``cpu3``, ``socket0``, or empty).
    units
        By PMU (``cstate_core``): number of its counters by instance, where that is not the number of CPUs.
    """

    key: str
    instances: Mapping[str, int]
    units: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def instance(self, line: Mapping[str, Any]) -> str:
        """Return the instance that a line is of."""
        if self.key == "cpu":
            return f"cpu{line['cpu']}"
        if self.key == "socket":
            return f"socket{str(line['socket']).lstrip('S')}"
        return ""


Counts = dict[tuple[str, str], tuple[float, float]]
"""By instance and printed event: what was counted, and the seconds (per counter) that it was counted for."""


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
        self.events = {printed_name(event.event): event for event in events}
        self.names: dict[str, str] = {}
        self.scope = scope
        self.interval_s = interval_s
        self.clock = clock
        self.heard = clock()
        self.slots: dict[tuple[str, str], int | None] = {}
        self.start = -1
        self.rest = b""
        self.lines: list[dict[str, Any]] = []
        self.lines_of_interval = 0
        self.last_end: float | None = None
        self._lay_out(events)

    def parse(self, data: tuple[int, bytes]) -> None:
        """Take what perf wrote, and put the rates over the intervals that it completed into the row."""
        start, text = data
        if start != self.start:
            self._begin(start)
        now = self.clock()
        if text:
            intervals = [counts for counts in self._intervals(text) if counts]
            if intervals:
                self.heard = now
                self._publish(intervals)
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

    def _lay_out(self, events: Sequence[Event]) -> None:
        """Make the channels, so that they are known before perf has said anything."""
        names = {event.event for event in events}
        metrics = [event for event in events if event.kind != "part"]
        for instance in self.scope.instances:
            for event in metrics:
                if instance in self.scope.units.get(event.device, self.scope.instances):
                    self._put(event.metric, instance, None, 0.0)
            if {"msr/aperf/", "msr/mperf/", "msr/tsc/"} <= names:
                for metric in (BUSY, AVERAGE_MHZ, BUSY_MHZ):
                    self._put(metric, instance, None, 0.0)
            self._put(RUNNING, instance, None, 0.0)

    def _begin(self, start: int) -> None:
        self.start, self.rest = start, b""
        self._lose_track()

    def _lose_track(self) -> None:
        """Forget where intervals begin and end: the next one to end only tells where its successor begins."""
        self.lines, self.last_end = [], None
        self.lines_of_interval = 0

    def _intervals(self, text: bytes) -> list[Counts]:
        """Return the counts of each interval that is complete."""
        *lines, self.rest = (self.rest + text).split(b"\n")
        if len(self.rest) > MAX_REST:
            self.rest = b""
            self._lose_track()
            raise ValueError(f"a line of more than {MAX_REST} bytes")
        complete = []
        samples, whole = read_lines(lines)
        if not whole:  # samples may be among what could not be read
            self._lose_track()
        for line in samples:
            if self.lines and line["interval"] != self.lines[0]["interval"]:
                self.lines_of_interval = len(self.lines)
                complete.append(self._close_interval())
            if self.last_end is None or line["interval"] > self.last_end:
                self.lines.append(line)
            else:  # a straggler of an interval that was thought complete
                self.lines_of_interval = 0
        # Knowing how many lines to expect saves waiting for the next interval to see that one is complete.
        if self.lines and len(self.lines) == self.lines_of_interval:
            complete.append(self._close_interval())
        return complete

    def _close_interval(self) -> Counts:
        end = float(self.lines[0]["interval"])
        lines, self.lines = self.lines, []
        begin, self.last_end = self.last_end, end
        if begin is None:
            return {}
        counts: Counts = {}
        shares: dict[tuple[str, str], float] = {}
        for line in lines:
            known = self._known(line)
            if known is None:
                continue
            name, instance, value, share, runtime = known
            key = (instance, name)
            shares[key] = max(share, shares.get(key, 0.0))
            # A hybrid processor counts an event on either of two PMUs, or on both for the whole host.
            before = counts.get(key, (0.0, 0.0))
            if value is None or share < MIN_RUNNING_SHARE:
                counts[key] = before
                continue
            seconds = end - begin
            enabled = runtime / 1e9 / self._units(name, instance)
            if share == 100.0 and abs(enabled - seconds) <= RUNTIME_TOLERANCE * seconds:
                seconds = enabled
            counts[key] = (before[0] + value, seconds)
        for (instance, _), share in shares.items():
            least = counts.get((instance, RUNNING), (100.0, 1.0))[0]
            counts[instance, RUNNING] = (min(share, least), 1.0)
        return counts

    def _known(self, line: dict[str, Any]) -> tuple[str, str, float | None, float, float] | None:
        """Return name, instance, value, share of the time running in percent, and time running in ns."""
        try:
            printed = line["event"]
            name = self.names.get(printed)
            if name is None:
                name = printed_name(printed)
                if name not in self.events:
                    return None
                self.names[printed] = name
            instance = self.scope.instance(line)
            text = line["counter-value"]
            if instance not in self.scope.instances or text == "<not supported>":
                return None
            if text == "<not counted>":
                return name, instance, None, 0.0, 0.0
            share = min(100.0, float(line.get("pcnt-running", 100.0)))
            return name, instance, float(text), share, float(line.get("event-runtime", 0))
        except (KeyError, ValueError, TypeError):
            return None  # a line of another kind, or of a metric that perf works out itself

    def _units(self, name: str, instance: str) -> int:
        units = self.scope.units.get(name.partition("/")[0])
        return max(1, units.get(instance, 1) if units is not None else self.scope.instances[instance])

    def _publish(self, intervals: list[Counts]) -> None:
        """Put rates into the row: over all the intervals together, if more than one is complete."""
        totals: Counts = {}
        for counts in intervals:
            for key, (value, seconds) in counts.items():
                before = totals.get(key, (0.0, 0.0))
                totals[key] = (before[0] + value, before[1] + seconds)
        filled = set()
        for (instance, name), (value, seconds) in totals.items():
            if name == RUNNING:
                filled.add(self._put(RUNNING, instance, value / seconds, 100.0))
                continue
            event = self.events[name]
            if event.kind == "part":
                continue
            rate = value / seconds if seconds > 0 else None
            if event.kind == "share":
                tick_rate = self._tsc_hz(totals, instance)
                share = None if rate is None or tick_rate is None else 100.0 * rate / tick_rate
                if share is not None:
                    share /= self._units(name, instance)
                filled.add(self._put(event.metric, instance, share, 100.5))
            else:
                filled.add(self._put(event.metric, instance, rate, MAX_RATE * self.scope.instances[instance]))
        for instance in self.scope.instances:
            filled.update(self._clocks(totals, instance))
        self.columns.blank(self.owned - filled)

    def _clocks(self, totals: Counts, instance: str) -> list[int | None]:
        """Return the slots of what turbostat(8) calls Busy%, Avg_MHz and Bzy_MHz, filled.

        APERF counts actual and MPERF base cycles while a CPU is not idle, TSC base cycles all the time.
        """
        aperf, mperf = totals.get((instance, "msr/aperf/")), totals.get((instance, "msr/mperf/"))
        tsc = totals.get((instance, "msr/tsc/"))
        if aperf is None or mperf is None or tsc is None:
            return []
        hertz = self._tsc_hz(totals, instance)
        busy = average = busy_mhz = None
        if hertz is not None and aperf[1] > 0 and mperf[1] > 0:
            busy = 100.0 * mperf[0] / tsc[0]
            average = hertz * aperf[0] / tsc[0] / 1e6
            busy_mhz = hertz * aperf[0] / mperf[0] / 1e6 if mperf[0] > 0 else None
        return [
            self._put(BUSY, instance, busy, 101.0),
            self._put(AVERAGE_MHZ, instance, average, 20000.0),
            self._put(BUSY_MHZ, instance, busy_mhz, 20000.0),
        ]

    def _tsc_hz(self, totals: Counts, instance: str) -> float | None:
        """Return how fast the TSC of one CPU counts; None if it was not counted."""
        ticks, seconds = totals.get((instance, "msr/tsc/"), (0.0, 0.0))
        return ticks / seconds / self.scope.instances[instance] if ticks > 0 and seconds > 0 else None

    def _put(self, metric: str, instance: str, value: float | None, limit: float) -> int | None:
        """Put a value into its slot, missing beyond what is possible; return the slot, None without one."""
        key = (metric, instance)
        if key not in self.slots:
            slot = self.columns.add(metric, instance, RESOLUTION, round(self.interval_s * 1000))
            self.slots[key] = slot
            if slot is not None:
                self.owned.add(slot)
        slot = self.slots[key]
        if slot is not None:
            possible = value is not None and 0 <= value <= limit
            self.columns.row[slot] = round(value / RESOLUTION) if possible and value is not None else MISSING
        return slot


def read_lines(lines: Sequence[bytes]) -> tuple[list[dict[str, Any]], bool]:
    """Return the lines that are a sample of an interval, as perf's JSON gives them, and whether nothing else
    was among them.

    >>> read_lines([b'{"interval" : 1.0, "counter-value" : "7"}', b"", b"perf: oh"])
    ([{'interval': 1.0, 'counter-value': '7'}], False)
    """
    found = [line for line in lines if line.startswith(b"{")]
    whole = len(found) == sum(1 for line in lines if line.strip())
    values: list[Any]
    try:
        values = json.loads(b"[" + b",".join(found) + b"]")
    except ValueError:
        values = [_value(line) for line in found]
    samples = [value for value in values if isinstance(value, dict) and "interval" in value]
    good = [value for value in samples if _is_sample(value)]
    return good, whole and len(values) == len(found) == len(samples)


def _value(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _is_sample(value: dict[str, Any]) -> bool:
    """Return whether a line counts an event; others give a metric that perf worked out of two of them."""
    interval = value["interval"]
    return isinstance(interval, float | int) and 0 < interval < 1e12 and "counter-value" in value
