"""The collector as others use it: what a host gives, and sampling it."""

from __future__ import annotations

import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reveal_core.collect.collector import Collector, SourceStatus
from reveal_core.collect.delivery import Delivery
from reveal_core.collect.facts import boot_id, default_host, host_facts
from reveal_core.collect.loop import Clock, SystemClock, check_interval, prompt_scheduling, ticks
from reveal_core.errors import UnavailableError
from reveal_core.segment import Segment

__all__ = ["CollectStats", "Collector", "SourceStatus", "default_host", "open_sources", "run_collector"]


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
        User and system time that the process used during the run.
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
    rss_bytes: int
    rows: int
    samples: int = 0
    segments: int = 0
    given_up_segments: int = 0


def open_sources(
    root: Path = Path("/"), tick_ms: int = 100, names: tuple[str, ...] | None = None
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

    Raises
    ------
    UsageError
        If the root is no folder or a source is not known.
    """
    return Collector(root, tick_ms, names)


def run_collector(
    *,
    host: str,
    interval_s: float,
    duration_s: float | None,
    root: Path,
    segment_s: float,
    on_segment: Callable[[Segment], None],
    stop: threading.Event,
    sources: tuple[str, ...] | None = None,
    clock: Clock | None = None,
) -> CollectStats:
    """Sample a host until the duration is over or the event is set.

    The current segment is handed on when it ends, however it ends. ``on_segment`` runs in a thread of its
    own. If it raises, its segment is kept and offered again with the next one and at the end, and sampling
    goes on; a `UsageError` stops the run at once. What cannot be delivered in the end is raised here.

    Parameters
    ----------
    host
        Label of the host in every segment.
    interval_s
        Time between ticks.
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

    Raises
    ------
    UsageError
        If interval, root or a source's name is wrong.
    UnavailableError
        If the root has no source at all, or segments could not be delivered.
    """
    check_interval(interval_s)
    used_before = _cpu_seconds()
    clock = clock or SystemClock()
    collector = open_sources(root, max(1, round(interval_s * 1000)), sources)
    if not collector.opened:
        raise UnavailableError(f"{root}: no source is here, the first because {collector.absent[0].reason}")
    count = None if duration_s is None else max(1, round(duration_s / interval_s))
    per_segment = max(1, round(segment_s / interval_s))
    facts, boot = host_facts(root), boot_id(root)
    delivery = Delivery(on_segment)
    made = sequence = 0
    try:
        segment_end = per_segment
        with prompt_scheduling() as nice:
            facts["collector_nice"] = nice
            for tick in ticks(clock, interval_s, count, stop):
                if tick.number >= segment_end and collector.ts:
                    delivery.put(collector.cut(host, boot, sequence, facts))
                    sequence += 1
                segment_end = max(segment_end, (tick.number // per_segment + 1) * per_segment)
                collector.sample(tick)
                made += 1
                if delivery.fatal is not None:
                    break
    finally:
        if collector.ts:
            delivery.put(collector.cut(host, boot, sequence, facts))
            sequence += 1
        channels = len(collector.channels)
        collector.close()
        delivery.finish()
    return CollectStats(
        host=host,
        ticks=made,
        late_ticks=collector.late_ticks,
        lost_ticks=collector.lost_ticks,
        channels=channels,
        cpu_seconds=_cpu_seconds() - used_before,
        rss_bytes=_resident_bytes(),
        rows=made,
        samples=collector.samples,
        segments=sequence - delivery.given_up,
        given_up_segments=delivery.given_up,
    )


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
