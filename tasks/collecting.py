"""The collecting stage: samples a host and puts its segments into the store.

This module is what the agent runs, so it imports no data frames, no orchestrator and no tracker.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from reveal_core.collect.agent import Collector, default_host, run_collector
from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.segment import Segment
from storage.spool import MAX_BYTES, Spool, Uploader
from storage.store import Store
from tasks.tethered import tethered

FLUSH_S = 3.0
"""How long the last segments may take to the store before they are left in the spool."""
MAX_KEYS = 10_000
"""Keys of stored segments that a run remembers: a week of one a minute."""
EXIT_GRACE_S = 60.0
"""How long a collector may take to flush its last segment before it is killed."""

log = logging.getLogger(__name__)


class SegmentSink:
    """Where segments go: into the store, or into a spool until the store is there.

    Parameters
    ----------
    store
        The store.
    spool
        For a store that may be away; None puts segments into the store at once.
    on_stored
        Called with key and bytes of each segment that is safely stored.

    Attributes
    ----------
    keys, bytes
        The latest segments that were stored, and how much all of them hold.
    """

    def __init__(
        self, store: Store, spool: Spool | None, on_stored: Callable[[str, int], None] | None = None
    ) -> None:
        self.store = store
        self.spool = spool
        self.keys: deque[str] = deque(maxlen=MAX_KEYS)
        self.bytes = 0
        self.segments = 0
        self._on_stored = on_stored
        self.uploader = Uploader(spool, store, self._stored) if spool is not None else None

    def put(self, segment: Segment) -> None:
        """Take a segment; when this returns it is on a disk or in the store."""
        if self.spool is None or self.uploader is None:
            self._stored(self.store.put_segment(segment), len(segment.data))
        else:
            self.spool.add(segment)
            self.uploader.notify()

    def finish(self, timeout_s: float) -> int:
        """Return how many segments wait in the spool after they had some time to go."""
        return self.uploader.finish(timeout_s) if self.uploader is not None else 0

    def _stored(self, key: str, size: int) -> None:
        self.keys.append(key)
        self.bytes += size
        self.segments += 1
        if self._on_stored:
            self._on_stored(key, size)


def open_sink(
    store: str,
    *,
    spool: str | None,
    spool_bytes: int = MAX_BYTES,
    may_wait: bool = False,
    on_stored: Callable[[str, int], None] | None = None,
) -> SegmentSink:
    """Return where the segments go.

    Parameters
    ----------
    store
        Root of the store.
    spool
        Folder for segments that wait for a store that is not on this machine's disk; None for no spool.
    spool_bytes
        Its bound.
    may_wait
        Begin although the store is away: the spool takes what comes.
    on_stored
        As in `SegmentSink`.

    Raises
    ------
    UnavailableError
        If store or spool cannot be written.
    """
    target = Store(store)
    if target.backend.local or spool is None:
        target.check(write=True)
        return SegmentSink(target, None, on_stored)
    keep = Spool(Path(spool), spool_bytes)
    try:
        target.check(write=True)
    except UnavailableError as error:
        if not may_wait:
            raise
        log.warning("%s; segments wait in %s", error, spool)
    return SegmentSink(target, keep, on_stored)


def collect(
    store: str,
    *,
    host: str | None,
    interval_s: float | None,
    duration_s: float | None,
    segment_s: float,
    root: str = "/",
    spool: str | None = None,
    spool_bytes: int = MAX_BYTES,
    stop: threading.Event | None = None,
    on_stored: Callable[[str, int], None] | None = None,
    watch: Callable[[Collector, SegmentSink], None] | None = None,
) -> dict[str, Any]:
    """Collecting telemetry.

    Parameters
    ----------
    store
        Root of the store.
    host
        The host's label; its host name if None.
    interval_s, segment_s
        Seconds between samples, None to follow what the host does; and seconds that one segment holds.
    duration_s
        Seconds to collect; None goes on until ``stop`` is set.
    root
        Where ``/proc`` and ``/sys`` are looked for.
    spool, spool_bytes
        Folder, and its bound, for segments that wait for a store that is not on this machine's disk; without
        one they wait in memory.
    stop
        Set by whoever wants to end it early; what was sampled is still stored.
    on_stored
        Called with key and bytes of each segment that is safely stored.
    watch
        Called once with the collector and the sink, by whoever wants to tell of their health.

    Returns
    -------
    dict
        ``host``, ``ticks``, ``late_ticks``, ``lost_ticks``, ``channels``, ``segments`` (keys), ``bytes``,
        ``cpu_seconds``, ``start_cpu_seconds``, ``rss_bytes``, ``samples``, ``spooled`` (segments that wait in
        the spool) and ``given_up``.

    Raises
    ------
    UnavailableError
        If the store cannot be written, or ``root`` holds nothing to sample.
    """
    if not Path(root).is_dir():
        raise UsageError(f"--root {root} is no folder")
    sink = open_sink(
        store, spool=spool, spool_bytes=spool_bytes, may_wait=duration_s is None, on_stored=on_stored
    )
    label = host or default_host()
    stats = run_collector(
        host=label,
        interval_s=interval_s,
        duration_s=duration_s,
        root=Path(root),
        segment_s=segment_s,
        on_segment=sink.put,
        stop=stop or threading.Event(),
        watch=None if watch is None else lambda collector: watch(collector, sink),
        asked=lambda: asked_dense_s(sink.store, label),
    )
    spooled = sink.finish(FLUSH_S)
    return {
        "host": stats.host,
        "ticks": stats.ticks,
        "late_ticks": stats.late_ticks,
        "lost_ticks": stats.lost_ticks,
        "channels": stats.channels,
        "segments": list(sink.keys),
        "bytes": sink.bytes,
        "cpu_seconds": stats.cpu_seconds,
        "start_cpu_seconds": stats.start_cpu_seconds,
        "rss_bytes": stats.rss_bytes,
        "samples": stats.samples,
        "spooled": spooled,
        "given_up": stats.given_up_segments + (sink.spool.given_up if sink.spool is not None else 0),
    }


def asked_dense_s(store: Store, host: str) -> float:
    """Return for how many seconds a host is asked to sample densely; 0 where nobody asks or can be heard."""
    try:
        until = store.dense_until(host)
    except UnavailableError as error:
        # Sampling goes on as it is; that the store is away, or closed to readers, is told where it matters.
        log.debug("%s", error)
        return 0.0
    return max(0.0, (until - datetime.now(UTC)).total_seconds()) if until is not None else 0.0


def collect_apart(
    store: str,
    *,
    host: str | None,
    interval: str,
    duration: str | None,
    segment: str,
    root: str = "/",
) -> dict[str, Any]:
    """Collecting telemetry in a process of its own.

    An orchestrator's threads would make ticks late, and its memory would count as the agent's; so a flow
    collects through ``reveal collect``. Arguments are as on its command line, the result is that of
    `collect`.

    Raises
    ------
    RevealError
        What the command reported, with its exit code's meaning.
    """
    command = [sys.executable, "-m", "flows.cli", "collect", "--json", "--no-flow", "--store", store]
    for option, value in (
        ("--host", host),
        ("--interval", interval),
        ("--duration", duration),
        ("--segment", segment),
        ("--root", root),
    ):
        command += [option, value] if value is not None else []
    process = subprocess.Popen(tethered(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    interrupted = False
    try:
        output, errors = process.communicate()
    except KeyboardInterrupt:
        # The terminal sends an interrupt to both; the collector flushes and ends by itself.
        interrupted = True
        output, errors = _end(process)
    except BaseException:
        _end(process)
        raise
    if process.returncode != 0:
        line = (errors.strip().splitlines() or [f"collector ended with code {process.returncode}"])[-1]
        kind = UsageError if process.returncode == UsageError.exit_code else UnavailableError
        raise kind(line.removeprefix("reveal: "))
    try:
        return dict(json.loads(output))
    except ValueError as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise RevealError(f"collector printed no result: {output[:200]!r}") from error


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End a collector in good order: it stores what it has, and is killed only if that takes too long."""
    if process.poll() is None:
        process.terminate()
    try:
        return process.communicate(timeout=EXIT_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()
