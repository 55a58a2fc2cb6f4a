"""Hardware counters of the processors, counted by one running ``perf stat``."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reveal_core.collect.columns import Columns
from reveal_core.collect.cpulist import cpu_list, sockets
from reveal_core.collect.files import read_text
from reveal_core.collect.source import Source
from reveal_core.collect.sources.perf_events import (
    DEVICES,
    Event,
    Processor,
    event_list,
    events_for,
    present_events,
    printed_name,
    processor_of,
)
from reveal_core.collect.sources.perf_lines import Scope, read_lines
from reveal_core.collect.sources.perf_part import PerfPart
from reveal_core.collect.sources.perf_stream import PerfStream, plain_environment

CPUS = "sys/devices/system/cpu"
MAX_LINES_PER_S = 2500
"""Lines of perf that are parsed in a second, some 4 us each: a channel apiece, at most 1 % of a core."""
MAX_COUNTS_PER_S = 10000
"""Counters that perf reads in a second, some 2 us each, for a foreign CPU must be interrupted to tell."""
SHORTEST_MS = 100
LONGEST_PER_CORE_MS = 500
"""A host that would have to be read more rarely than this per core is read per socket: 3 s windows want some
samples each."""
SPARE_FILES = 64
MIN_EVENTS = 4
"""Where file handles do not suffice for so many events on every CPU, only some of the CPUs are counted."""
TRIAL_S = 5.0
MAX_TRIALS = 12
_FORBIDDEN = ("access to performance", "not permitted", "permission", "operation not")


@dataclass(frozen=True)
class Plan:
    """How a host is counted.

    Attributes
    ----------
    scope
        ``cpu``, ``socket`` or empty for the whole host at once.
    interval_ms
        Interval of perf.
    events
        What is counted.
    cpus
        On how many CPUs, spread over the host; usually all.
    """

    scope: str
    interval_ms: int
    events: tuple[Event, ...]
    cpus: int


def make_plan(events: Sequence[Event], cpus: int, sockets: int, file_limit: int) -> Plan:
    """Return how a host is counted within `MAX_LINES_PER_S`, `MAX_COUNTS_PER_S` and its file handles.

    perf holds a file for each event on each CPU, whatever it prints. So the file limit costs events (the
    last go first) and then CPUs, the reading of counters costs rate, and the printing costs detail.
    """
    handles = max(MIN_EVENTS, file_limit - SPARE_FILES)
    kept = tuple(events[: max(MIN_EVENTS, handles // max(cpus, 1))])
    cpus = max(1, min(cpus, handles // max(len(kept), 1)))

    def interval(counts: int, per_s: int) -> int:
        """Return the shortest interval, in whole multiples of the shortest of all, that keeps a budget."""
        return max(1, -(-counts * 1000 // (per_s * SHORTEST_MS))) * SHORTEST_MS

    reading = interval(cpus * len(kept), MAX_COUNTS_PER_S)
    per_core = max(reading, interval(cpus * len(kept), MAX_LINES_PER_S))
    if per_core <= LONGEST_PER_CORE_MS:
        return Plan("cpu", per_core, kept, cpus)
    per_socket = max(reading, interval(sockets * len(kept), MAX_LINES_PER_S))
    return Plan("socket", per_socket, kept, cpus) if sockets > 1 else Plan("", reading, kept, cpus)


class PerfSource(Source):
    """Instructions, cycles, cache and branch misses, stalls, real clock rates and idle states.

    Rates are stored as gauges; see `reveal_core.collect.sources.perf_part.PerfPart`. The source is read at
    every tick, which costs one look into a pipe; perf's own interval is longer on a wide host.
    """

    name = "perf"
    period_ms = 100
    rescan_ms = 5000

    def __init__(self, root: Path, columns: Columns) -> None:
        super().__init__(root, columns)
        self.command = ""
        self.usable: list[Event] = []
        self.dropped: list[str] = []
        self.plan: Plan | None = None
        self.online = ""
        self.cpus = 0
        self.trials = 0

    def candidates(self, processor: Processor) -> Sequence[Event]:
        """Return the events to try on a processor, the most telling ones first."""
        return events_for(processor)

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if self.root != Path("/"):
            return "hardware counters belong to the running machine, not to a tree under --root"
        self.command = shutil.which("perf") or ""
        if not self.command:
            return "perf is not installed: apt install linux-perf (Ubuntu: linux-tools-generic)"
        processor = processor_of(read_text(self.path("proc/cpuinfo")) or "")
        wanted = present_events(self.candidates(processor), self.path(DEVICES))
        self.usable, refusal = self._try(wanted)
        names = {printed_name(event.event) for event in self.usable}
        self.dropped = [e.event for e in wanted if printed_name(e.event) not in names]
        if any(event.kind == "rate" for event in self.usable) or "msr/mperf/" in names:
            return None
        return self._why_nothing(refusal)

    def _why_nothing(self, refusal: str) -> str:
        if any(word in refusal.lower() for word in _FORBIDDEN):
            level = read_text(self.path("proc/sys/kernel/perf_event_paranoid")) or "unknown"
            return (
                f"counting on all CPUs is not permitted (kernel.perf_event_paranoid is {level}): "
                "sysctl kernel.perf_event_paranoid=0, or give the agent CAP_PERFMON"
            )
        if refusal:
            return f"perf cannot count: {refusal}"
        return (
            "this machine has no performance counters: usual in virtual machines, unless the host lends them"
        )

    def open(self) -> None:
        """See `Source.open`."""
        self._begin()

    def rescan(self) -> None:
        """See `Source.rescan`: CPUs that came or went need another perf, which counts those it found."""
        if self._online() != self.online:
            for part in self.parts:
                part.close()
            self._begin()

    @property
    def notes(self) -> list[str]:
        """See `Source.notes`."""
        if self.plan is None:
            return []
        where = {"cpu": "per CPU", "socket": "per socket", "": "for the whole host"}[self.plan.scope]
        notes = [f"{len(self.plan.events)} events are counted {where} every {self.plan.interval_ms} ms"]
        if self.plan.cpus < self.cpus:
            notes.append(f"on {self.plan.cpus} of {self.cpus} CPUs, for want of file handles (ulimit -n)")
        short = [event.event for event in self.usable[len(self.plan.events) :]]
        if short:
            notes.append(f"left out, for want of file handles (ulimit -n): {', '.join(short)}")
        if self.dropped:
            notes.append(f"not supported here: {', '.join(self.dropped)}")
        return notes

    def _online(self) -> str:
        return read_text(self.path(f"{CPUS}/online")) or ""

    def _begin(self) -> None:
        self.online = self._online()
        cpus = cpu_list(self.online) or list(range(os.cpu_count() or 1))
        found = sockets(self.path(CPUS), cpus)
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if limit == resource.RLIM_INFINITY:
            limit = 1 << 20
        self.plan = plan = make_plan(self.usable, len(cpus), len(set(found.values())), limit)
        self.cpus = len(cpus)
        flag = {"cpu": ["-A"], "socket": ["--per-socket"], "": []}[plan.scope]
        if plan.cpus < len(cpus):
            cpus = [cpus[number * len(cpus) // plan.cpus] for number in range(plan.cpus)]
            flag += ["-C", ",".join(map(str, cpus))]
        command = [self.command, "stat", "-a", *flag, "-I", str(plan.interval_ms), "-j", "--log-fd", "{fd}"]
        stream = PerfStream([*command, "-e", event_list(plan.events)], plan.interval_ms / 1000)
        scope = self._scope(plan.scope, cpus, found)
        self.parts = [PerfPart(stream, self.columns, plan.events, scope, plan.interval_ms / 1000)]

    def _scope(self, key: str, cpus: Sequence[int], socket_of: dict[int, int]) -> Scope:
        def instance(cpu: int) -> str:
            return {"cpu": f"cpu{cpu}", "socket": f"socket{socket_of[cpu]}", "": ""}[key]

        def tally(members: Sequence[int]) -> dict[str, int]:
            found: dict[str, int] = {}
            for cpu in members:
                found[instance(cpu)] = found.get(instance(cpu), 0) + 1
            return found

        units = {}
        for device in ("cstate_core", "cstate_pkg"):
            mask = cpu_list(read_text(self.path(f"{DEVICES}/{device}/cpumask")) or "")
            units[device] = tally([cpu for cpu in mask if cpu in socket_of])
        return Scope(key, tally(cpus), units)

    def _try(self, events: Sequence[Event]) -> tuple[list[Event], str]:
        """Return the events that perf takes and the processor has, and the last refusal.

        One that perf does not know, or that it may not count, spoils the whole call, so such are found by
        halving; a processor's lack of a counter is told event by event.
        """
        if not events or self.trials >= MAX_TRIALS:
            return [], ""
        self.trials += 1
        names = ",".join(event.event for event in events)
        try:
            done = subprocess.run(
                # Without an interval: with one, perf 6.1 on a busy host may end before it has printed any.
                [self.command, "stat", "-a", "-j", "-e", names, "--", "true"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TRIAL_S,
                env=plain_environment(),
                check=False,
            )
        except subprocess.TimeoutExpired:
            self.trials = MAX_TRIALS
            return [], f"it did not answer within {TRIAL_S:g} s"
        except OSError as error:
            return [], error.strerror or str(error)
        lines = done.stderr.split(b"\n")
        if done.returncode == 0:
            told = read_lines(lines)
            if not told:
                return [], "it printed no counts"
            supported = {
                printed_name(str(line["event"]))
                for line in told
                if line["counter-value"] != "<not supported>"
            }
            return [event for event in events if printed_name(event.event) in supported], ""
        words = [line.decode("utf-8", "replace").strip() for line in lines if line.strip()]
        refusal = next((word for word in words if word.lower() != "error:"), f"code {done.returncode}")
        if len(events) == 1 or any(word in refusal.lower() for word in _FORBIDDEN):
            return [], refusal
        half = len(events) // 2
        first, one = self._try(events[:half])
        second, other = self._try(events[half:])
        return first + second, other or one
