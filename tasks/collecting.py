"""The collecting stage: samples a host and puts its segments into the store.

This module is what the agent runs, so it imports no data frames, no orchestrator and no tracker.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reveal_core.collect.agent import default_host, run_collector
from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.segment import Segment
from storage.store import Store
from tasks.tethered import tethered

EXIT_GRACE_S = 60.0
"""How long a collector may take to flush its last segment before it is killed."""


def collect(
    store: str,
    *,
    host: str | None,
    interval_s: float,
    duration_s: float | None,
    segment_s: float,
    root: str = "/",
    stop: threading.Event | None = None,
    on_stored: Callable[[str, int], None] | None = None,
) -> dict[str, Any]:
    """Collecting telemetry.

    Parameters
    ----------
    store
        Root of the store.
    host
        The host's label; its host name if None.
    interval_s, segment_s
        Seconds between samples, and seconds that one segment holds.
    duration_s
        Seconds to collect; None goes on until ``stop`` is set.
    root
        Where ``/proc`` and ``/sys`` are looked for.
    stop
        Set by whoever wants to end it early; what was sampled is still stored.
    on_stored
        Called with key and bytes of each segment that is safely stored.

    Returns
    -------
    dict
        ``host``, ``ticks``, ``late_ticks``, ``lost_ticks``, ``channels``, ``segments`` (keys), ``bytes``,
        ``cpu_seconds``, ``rss_bytes``.

    Raises
    ------
    UnavailableError
        If the store cannot be written, or ``root`` holds nothing to sample.
    """
    if not Path(root).is_dir():
        raise UsageError(f"--root {root} is no folder")
    target = Store(store)
    target.check(write=True)
    keys: list[str] = []
    sizes: list[int] = []

    def put(segment: Segment) -> None:
        keys.append(target.put_segment(segment))
        sizes.append(len(segment.data))
        if on_stored:
            on_stored(keys[-1], sizes[-1])

    stats = run_collector(
        host=host or default_host(),
        interval_s=interval_s,
        duration_s=duration_s,
        root=Path(root),
        segment_s=segment_s,
        on_segment=put,
        stop=stop or threading.Event(),
    )
    return {
        "host": stats.host,
        "ticks": stats.ticks,
        "late_ticks": stats.late_ticks,
        "lost_ticks": stats.lost_ticks,
        "channels": stats.channels,
        "segments": keys,
        "bytes": sum(sizes),
        "cpu_seconds": stats.cpu_seconds,
        "rss_bytes": stats.rss_bytes,
    }


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
