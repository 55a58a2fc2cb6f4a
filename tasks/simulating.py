"""A simulated fleet, written into a store as the collectors of its hosts would have."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UnavailableError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.planning import hardware_class, parse_range, plan_hosts, read_host

if TYPE_CHECKING:
    from reveal_core.lab.fleet import Fleet, FleetPlan
    from reveal_core.segment import Segment
    from reveal_core.telemetry import Telemetry
    from storage.store import Store

DONOR_S = 600.0
"""So much of a recording is taken, the newest: a simulation follows it there and back again."""
_WRITERS = 8
"""Segments that are written at once: on a disk a write waits for it, in an object store for the network."""
_WAITING = 4 * _WRITERS


@dataclass(frozen=True)
class Recording:
    """What hosts are made from.

    Attributes
    ----------
    store, host
        A store and a host in it, or a pattern of which the first host is taken.
    start, end
        A range without faults. Without a start `DONOR_S` before the end, without an end the newest sample.
    """

    store: str
    host: str = "*"
    start: str | None = None
    end: str | None = None


def simulate_fleet(
    store: str,
    plan: FleetPlan,
    *,
    recording: Recording | None = None,
    hours_before: int = 0,
    truth: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Write a fleet's telemetry into a store.

    Parameters
    ----------
    store
        Root of the store.
    plan
        What is simulated.
    recording
        What hosts are made from; a made-up host if not given, from which nothing can be learned of how hosts
        behave.
    hours_before
        For so many hours before, a short segment of each host too: see `reveal_core.lab.fleet_day`.
    truth
        File for the faults, as ``--faults`` of other commands takes it.
    say
        Told what is going on.

    Returns
    -------
    dict
        ``store``, ``start``, ``end``, ``history_start`` (None without a history), ``hosts``, ``shared``
        (hosts that have the values of another one), ``segments``, ``bytes``, ``classes`` (each ``class``,
        ``hosts``, ``channels``), ``faults`` (the truth), ``donor`` (``host`` and ``store``, None if it is
        made up), ``notes`` and ``seconds``.

    Raises
    ------
    UsageError
        If the recording is too short, or has nothing that a fault would show in.
    UnavailableError
        If a store cannot be reached or written, or the file of faults cannot be written.
    """
    from reveal_core.lab.fleet import Fleet
    from reveal_core.lab.fleet_day import sparse_hours
    from reveal_core.lab.fleet_donor import donor_of
    from storage.store import Store

    begun = time.perf_counter()
    target = Store(store)
    target.check(write=True)
    say("Reading the recording" if recording else "Making up a host")
    donor = donor_of(_recorded(recording) if recording else made_up_host())
    fleet = Fleet(donor, plan)
    faults = fleet.faults()
    if truth is not None:
        _write_truth(truth, faults)
    every = chain(sparse_hours(fleet, hours_before), fleet.segments())
    segments, size = _put_all(target, every, plan.hosts, say)
    end = plan.start + timedelta(seconds=plan.seconds)
    return {
        "store": store,
        "start": iso(plan.start),
        "end": iso(end),
        "history_start": iso(plan.start - timedelta(seconds=plan.history_s)) if plan.history_s else None,
        "hosts": plan.hosts,
        "shared": fleet.shared,
        "segments": segments,
        "bytes": size,
        "classes": _classes(fleet),
        "faults": faults,
        "donor": {"host": donor.host, "store": recording.store if recording else None},
        "notes": _notes(fleet, recording),
        "seconds": round(time.perf_counter() - begun, 1),
    }


def _put_all(
    target: Store, segments: Iterable[Segment], hosts: int, say: Callable[[str], None]
) -> tuple[int, int]:
    """Write segments while the next ones are made; return how many there were, and their bytes."""
    waiting: deque[Future[str]] = deque()
    named: set[str] = set()
    count = size = 0
    with ThreadPoolExecutor(_WRITERS) as pool:
        for segment in segments:
            if segment.host not in named:
                named.add(segment.host)
                say(f"Writing {segment.host} ({len(named)} of {hosts})")
            waiting.append(pool.submit(target.put_segment, segment))
            count, size = count + 1, size + len(segment.data)
            if len(waiting) >= _WAITING:
                waiting.popleft().result()
        for future in waiting:
            future.result()
    return count, size


def _recorded(recording: Recording) -> Telemetry:
    """Return the newest stretch of a recording's range."""
    from storage.store import Store

    parse_range(recording.start, recording.end)
    plan = plan_hosts(recording.store, host=recording.host, start=recording.start, end=recording.end)[0]
    if recording.start is None:
        newest = parse_time(plan["end"]) - timedelta(seconds=DONOR_S)
        start = max(parse_time(plan["start"]), newest)
        plan = {"host": plan["host"], "start": iso(start), "end": plan["end"]}
    return read_host(Store(recording.store), plan, warm_up=False).telemetry


def made_up_host() -> Telemetry:
    """Return telemetry of a host that does not exist, for want of a recording."""
    import polars as pl

    from reveal_core.lab.sample_host import SampleHost
    from reveal_core.telemetry import Telemetry
    from storage.decode import decode_segment

    host = SampleHost("made-up", datetime(2026, 1, 5, tzinfo=UTC), missing=0.0)
    decoded = [decode_segment(segment.data) for segment in host.segments(DONOR_S)]
    frame = pl.concat(segment.frame for segment in decoded)
    return Telemetry(host.name, frame, decoded[-1].channels, decoded[-1].facts)


def _write_truth(path: Path, faults: list[dict[str, Any]]) -> None:
    try:
        path.write_text(json.dumps(faults, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UnavailableError(f"{path} cannot be written: {error.strerror}") from error


def _classes(fleet: Fleet) -> list[dict[str, Any]]:
    counts = Counter(member.host_class for member in fleet.members)
    first = {member.host_class: member for member in reversed(fleet.members)}
    return [
        {
            "class": hardware_class(fleet.facts(first[one])),
            "hosts": counts[one],
            "channels": len(table),
        }
        for one, table in fleet.tables.items()
    ]


def _notes(fleet: Fleet, recording: Recording | None) -> list[str]:
    notes = []
    if recording is None:
        notes.append(
            "No recording was named: hosts are made from a made-up one, whose values are drawn and say "
            "nothing of how real hosts behave."
        )
    if fleet.shared:
        notes.append(
            f"{fleet.shared} of {fleet.plan.hosts} hosts have the values of another host of their class, "
            "under a name, a boot and a machine id of their own."
        )
    return notes
