"""The collector as others use it: what a host gives, and sampling it."""

from __future__ import annotations

import resource
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reveal_core.collect.adaptive import DENSE_MS, SIGNAL_SOURCES, AdaptivePace
from reveal_core.collect.collector import Collector, SourceStatus
from reveal_core.collect.delivery import Delivery
from reveal_core.collect.facts import boot_id, default_host, host_facts
from reveal_core.collect.loop import Clock, SystemClock, check_interval, prompt_scheduling, ticks
from reveal_core.errors import UnavailableError
from reveal_core.segment import Segment

__all__ = ["CollectStats", "Collector", "SourceStatus", "default_host", "open_sources", "run_collector"]

SWITCH_S = 0.0005


@dataclass(frozen=True)
class CollectStats:
    """What a run of the collector came to.

    Attributes
    ----------
    host
        Label.
    ticks, late_ticks, lost_ticks
        Passes made; of them late by more than half an interval; passes skipped because their time had passed.
    channels
        At the end.
    cpu_seconds
        User and system time that the process, and children that it started and that have ended, used during
        the run.
    start_cpu_seconds
        Those of them that it took to find and open what there is.
    rss_bytes
        Resident memory of the process at the end.
    rows, samples
        Rows of all segments (as many as ticks), and how many samples were read.
    segments, given_up_segments
        Handed on; and given up because they could not be for long.
    """

    host: str
    ticks: int
    late_ticks: int
    lost_ticks: int
    channels: int
    cpu_seconds: float
    start_cpu_seconds: float
    rss_bytes: int
    rows: int
    samples: int = 0
    segments: int = 0
    given_up_segments: int = 0


def open_sources(
    root: Path = Path("/"),
    tick_ms: int = 100,
    names: tuple[str, ...] | None = None,
    sparse_every: int | None = None,
) -> Collector:
    """Return a collector with every source that is here opened and read once; close it when done.

    Parameters
    ----------
    root
        Where the host's files begin: ``/``, or a captured tree.
    tick_ms
        Sampling interval in milliseconds.
    names
        Sources to use; None for all.
    sparse_every
        Where the interval follows the host: how many ticks apart the ticks of its sparse grid are.

    Raises
    ------
    UsageError
        If the root is no folder or a source is not known.
    """
    return Collector(root, tick_ms, names, sparse_every)


def run_collector(
    *,
    host: str,
    interval_s: float | None,
    duration_s: float | None,
    root: Path,
    segment_s: float,
    on_segment: Callable[[Segment], None],
    stop: threading.Event,
    sources: tuple[str, ...] | None = None,
    clock: Clock | None = None,
    watch: Callable[[Collector], None] | None = None,
    asked: Callable[[], float] | None = None,
) -> CollectStats:
    """Sample a host until the duration is over or the event is set.

    The current segment is handed on when it ends, however it ends, and when the wall clock is set, so that
    time never runs back within one. ``on_segment`` runs in a thread of its own. If it raises, its segment is
    kept and offered again with the next one and at the end, and sampling goes on; a `UsageError` stops the
    run at once. What cannot be delivered in the end is raised here.

    Parameters
    ----------
    host
        Label of the host in every segment.
    interval_s
        Time between ticks; None adapts it to what the host does (`reveal_core.collect.adaptive`).
    duration_s
        How long to sample; None for no end.
    root
        Where the host's files begin.
    segment_s
        How much time a segment holds.
    on_segment
        Called with each segment, in order.
    stop
        Set it to end the run; it is noticed within 0.2 s.
    sources
        Names of the sources to use; None for all.
    clock
        For tests.
    watch
        Called once with the collector before the first tick, by whoever wants to tell of its health.
    asked
        With an interval that adapts: called after each segment, in the thread that hands it on; returns for
        how many seconds somebody wants dense samples whatever the host does.

    Raises
    ------
    UsageError
        If interval, root or a source's name is wrong.
    UnavailableError
        If the root has no source at all, or segments could not be delivered.
    """
    pace = AdaptivePace() if interval_s is None else None
    interval_s = DENSE_MS / 1000 if interval_s is None else interval_s
    check_interval(interval_s)
    used_before = cpu_seconds()
    clock = clock or SystemClock()
    _allow_open_files()
    tick_ms = max(1, round(interval_s * 1000))
    collector = open_sources(root, tick_ms, sources, pace.calm_stride if pace else None)
    if not collector.opened:
        reasons = list(collector.absent.values())
        raise UnavailableError(f"{root}: no source is here, the first because {reasons[0]}")
    started = cpu_seconds()
    if watch is not None:
        watch(collector)
    count = None if duration_s is None else max(1, round(duration_s / interval_s))
    per_segment = max(1, round(segment_s / interval_s))
    facts, boot = host_facts(root), boot_id(root)
    facts["interval"] = "adaptive" if pace else f"{interval_s * 1000:g} ms"
    if pace:
        facts["calm_ms"] = pace.calm_stride * DENSE_MS
    # A thread that encodes a segment gives way to the one that samples after half a millisecond instead of
    # five: a tick makes dozens of calls that let go of the interpreter, and would wait after each.
    switch_before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)

    def hand_on(segment: Segment) -> None:
        on_segment(segment)
        if pace and asked:
            pace.hold(asked())

    delivery = Delivery(hand_on)
    made = sequence = 0
    stride = (lambda: pace.stride) if pace else (lambda: 1)
    try:
        segment_end = per_segment
        with prompt_scheduling() as nice:
            facts["collector_nice"] = nice
            for tick in ticks(clock, interval_s, count, stop, stride):
                if (tick.number >= segment_end or tick.step_ns) and collector.ts:
                    delivery.put(collector.cut(host, boot, sequence, facts))
                    sequence += 1
                segment_end = max(segment_end, (tick.number // per_segment + 1) * per_segment)
                collector.sample(tick)
                if pace and pace.due(tick.boot_ns):
                    pace.look(collector.latest(SIGNAL_SOURCES), tick.boot_ns)
                made += 1
                if delivery.fatal is not None:
                    break
    finally:
        if collector.ts:
            delivery.put(collector.cut(host, boot, sequence, facts))
            sequence += 1
        channels = len(collector.channels)
        collector.close()
        try:
            delivery.finish()
        finally:
            sys.setswitchinterval(switch_before)
    return CollectStats(
        host=host,
        ticks=made,
        late_ticks=collector.own.late_ticks,
        lost_ticks=collector.own.lost_ticks,
        channels=channels,
        cpu_seconds=cpu_seconds() - used_before,
        start_cpu_seconds=started - used_before,
        rss_bytes=resident_bytes(),
        rows=made,
        samples=collector.samples,
        segments=sequence - delivery.given_up,
        given_up_segments=delivery.given_up,
    )


def _allow_open_files() -> None:
    """Let the process open as many files as it may.

    A file that stays open is cheaper to read, and a wide host has thousands.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def cpu_seconds() -> float:
    """Return the CPU time that this process and its ended children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
