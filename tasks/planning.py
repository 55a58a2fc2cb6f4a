"""The planning stages: which hosts, which time, cut into groups that a task handles."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from reveal_core.errors import NoTelemetryError, UsageError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from storage.store import Store

if TYPE_CHECKING:
    from reveal_core.telemetry import Telemetry
    from storage.telemetry import TelemetryRead

NEWEST = timedelta(hours=1)
"""How much is looked at where no start is given: what is read must fit into memory."""
WARM_UP = timedelta(seconds=10)
"""Telemetry before a range's start that its first windows and rates need."""


def parse_range(start: str | None, end: str | None) -> tuple[datetime | None, datetime | None]:
    """Return start and end as times; None stays None.

    Raises
    ------
    UsageError
        If one is no time, or the end is not after the start.
    """
    first = parse_time(start) if start is not None else None
    last = parse_time(end) if end is not None else None
    if first is not None and last is not None and last <= first:
        raise UsageError(f"the range ends ({iso(last)}) before it starts ({iso(first)})")
    return first, last


def plan_hosts(store: str, *, host: str, start: str | None, end: str | None) -> list[dict[str, str]]:
    """Looking for telemetry.

    Parameters
    ----------
    store
        Root of the store.
    host
        A host's label, or a shell pattern over labels.
    start, end
        The range asked for. Without an end it goes to each host's newest sample, without a start it is the
        last hour.

    Returns
    -------
    list of dict
        ``host``, ``start``, ``end`` (ISO 8601) of each host that has telemetry then, in order of name; the
        range is cut to what the host has. ``read_from`` and ``read_to`` go on to where files that cannot be
        read may lie.

    Raises
    ------
    UsageError
        If the store is empty, no host matches, or none has telemetry in the range.
    UnavailableError
        If the store cannot be reached.
    """
    first, last = parse_range(start, end)
    source = Store(store)
    source.check()
    known = source.hosts()
    if not known:
        raise UsageError(
            f"store {store} holds no telemetry yet: reveal collect --store {store} puts some there"
        )
    matching = [label for label in known if fnmatchcase(label, host)]
    if not matching:
        raise UsageError(f"no host {host!r} in store {store}: it holds {_some(known)}")
    plans, extents = [], {}
    for label, extent in zip(matching, source.extents(matching), strict=True):
        if extent is None:
            continue
        extents[label] = extent
        until = min(last, extent[1]) if last else extent[1]
        since = max(first, extent[0]) if first else max(until - NEWEST, extent[0])
        if since < until:
            wider = _reading(since, until, extent)
            plans.append({"host": label, "start": iso(since), "end": iso_end(until), **wider})
    if not plans:
        wanted = f"from {iso(first) if first else 'the start'} to {iso(last) if last else 'the end'}"
        have = (
            ", ".join(f"{h} {iso(a)} to {iso(b)}" for h, (a, b) in list(extents.items())[:3])
            or "nothing readable"
        )
        raise UsageError(f"no telemetry of {host!r} {wanted} in store {store}: it has {have}")
    return plans


def _reading(since: datetime, until: datetime, extent: tuple[datetime, datetime]) -> dict[str, str]:
    """Return how far to read where a range ends with what a host has: files beyond may be damaged ones."""
    wider = {}
    if since <= extent[0]:
        wider["read_from"] = iso(extent[0] - NEWEST)
    if until >= extent[1]:
        wider["read_to"] = iso_end(extent[1] + NEWEST)
    return wider


def iso_end(time: datetime) -> str:
    """Return a time as `iso` does, rounded up, so that the newest sample stays inside."""
    return iso(time + timedelta(microseconds=-time.microsecond % 1000))


def _some(names: Sequence[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def groups_of(plans: Sequence[Mapping[str, Any]], size: int) -> list[list[dict[str, Any]]]:
    """Return host plans cut into groups of at most ``size``, in order."""
    return [[dict(plan) for plan in plans[at : at + size]] for at in range(0, len(plans), size)]


def classify_hosts(store: str, *, plans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Telling hardware classes apart.

    Returns
    -------
    list of dict
        The plans with ``hardware_class`` added where it is missing; ``""``, and why as ``reason``, where
        nothing of the range can be read.
    """
    source = Store(store)
    classified = []
    for plan in plans:
        if "hardware_class" in plan:
            classified.append(dict(plan))
            continue
        try:
            facts = newest_facts(source, plan["host"], parse_time(plan["start"]), parse_time(plan["end"]))
        except NoTelemetryError as error:
            classified.append({**plan, "hardware_class": "", "reason": str(error)})
            continue
        classified.append({**plan, "hardware_class": hardware_class(facts)})
    return classified


def newest_facts(source: Store, host: str, start: datetime, end: datetime) -> dict[str, Any]:
    """Return a host's facts as its newest segment in a range has them.

    Raises
    ------
    NoTelemetryError
        If it has none there.
    """
    # The last seconds are enough where samples are dense and cost one file; sparse ones may have none there.
    recent = max(start, end - WARM_UP)
    try:
        return source.read_telemetry(host, recent, end, columns=[]).telemetry.facts
    except NoTelemetryError:
        if recent == start:
            raise
        return source.read_telemetry(host, start, end, columns=[]).telemetry.facts


def hardware_class(facts: Mapping[str, Any]) -> str:
    """Return the name of a host's hardware class: hosts of one class may share a model.

    Logical CPUs, GPUs and the CPU's vendor tell classes apart: features do not depend on how many disks or
    network interfaces there are, and a finer class would leave each model with less to learn from.

    >>> hardware_class({"cpu": {"logical": 2, "model": "Intel(R) Xeon(R) CPU @ 2.20GHz"}, "gpus": []})
    '2cpu-0gpu-intel'
    """
    cpu = facts.get("cpu") or {}
    vendor = re.match(r"[a-z0-9]+", str(cpu.get("model") or "").lower())
    return (
        f"{cpu.get('logical') or 0}cpu-{len(facts.get('gpus') or ())}gpu-{vendor[0] if vendor else 'unknown'}"
    )


def read_host(source: Store, plan: Mapping[str, Any], *, warm_up: bool) -> TelemetryRead:
    """Return a host's telemetry of a plan's range, with what comes shortly before it if ``warm_up``."""
    if not warm_up:
        return _read(source, plan, timedelta())
    read = _read(source, plan, WARM_UP)
    periods = [channel.period_ms for channel in read.telemetry.channels.values() if channel.period_ms > 0]
    needed = 2 * timedelta(milliseconds=min(periods, default=0))
    # Imported telemetry may be so coarse that the usual time holds no sample, or one alone.
    return _read(source, plan, needed) if needed > WARM_UP else read


def _read(source: Store, plan: Mapping[str, Any], before: timedelta) -> TelemetryRead:
    import polars as pl

    start, end = parse_time(plan["start"]), parse_time(plan["end"])
    since = start - before
    read_from = min(since, parse_time(plan["read_from"])) if "read_from" in plan else since
    read = source.read_telemetry(plan["host"], read_from, parse_time(plan.get("read_to", plan["end"])))
    frame = read.telemetry.frame
    if "read_from" in plan or "read_to" in plan:  # what is beyond was read for files that cannot be read
        frame = frame.filter(pl.col("ts") >= since, pl.col("ts") < end)
    return replace(read, telemetry=replace(read.telemetry, frame=frame))


def read_hosts(source: Store, plans: Sequence[Mapping[str, Any]]) -> list[Telemetry]:
    """Return the telemetry of several hosts, each over its own range."""
    return [read_host(source, plan, warm_up=False).telemetry for plan in plans]
