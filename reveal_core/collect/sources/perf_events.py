"""Which hardware events are counted on which processor; the list itself is data, in ``perf_events.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

DEVICES = "sys/bus/event_source/devices"

EventKind = Literal["rate", "share", "part"]


@dataclass(frozen=True, slots=True)
class Event:
    """An event that perf counts.

    Attributes
    ----------
    metric
        What its rate is called in the catalogue.
    event
        As ``perf stat -e`` takes it.
    group
        Events of one group are counted at the same moments, where they fit.
    kind
        ``rate``: stored per second. ``share``: counted in TSC cycles while a state lasts, stored in percent
        of the time. ``part``: an input of others only.
    on
        Kinds of processors that have it; empty for all.
    """

    metric: str
    event: str
    group: str = ""
    kind: EventKind = "rate"
    on: tuple[str, ...] = ()

    @property
    def device(self) -> str:
        """The PMU that the event names, such as ``msr``; empty for an event that perf knows everywhere."""
        return self.event.partition("/")[0] if "/" in self.event else ""


@dataclass(frozen=True, slots=True)
class Processor:
    """Vendor, family and model of the processors, as ``/proc/cpuinfo`` gives them.

    On ARM the vendor is the implementer (``0x41``), the family the architecture, the model the part number.
    """

    vendor: str
    family: int
    model: int


_NAMES = {
    "vendor_id": "vendor",
    "cpu family": "family",
    "model": "model",
    "CPU implementer": "vendor",
    "CPU architecture": "family",
    "CPU part": "model",
}


def processor_of(cpuinfo: str) -> Processor:
    """Return the first processor of a ``/proc/cpuinfo``; vendor empty and numbers -1 where it does not say.

    >>> processor_of("vendor_id : GenuineIntel\\ncpu family : 6\\nmodel : 106\\n")
    Processor(vendor='GenuineIntel', family=6, model=106)
    """
    found: dict[str, str] = {}
    for line in cpuinfo.splitlines():
        name, _, value = line.partition(":")
        field = _NAMES.get(name.strip())
        if field is not None:
            found.setdefault(field, value.strip())
    return Processor(
        found.get("vendor", ""), _number(found.get("family", "")), _number(found.get("model", ""))
    )


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return -1


@cache
def _tables() -> tuple[dict[str, dict[str, Any]], tuple[Event, ...]]:
    """Return the kinds of processors and every event."""
    data = tomllib.loads(files(__package__).joinpath("perf_events.toml").read_text(encoding="utf-8"))
    events = tuple(Event(**{**entry, "on": tuple(entry.get("on", ()))}) for entry in data["events"])
    return data["processors"], events


def processor_kinds(processor: Processor) -> set[str]:
    """Return the kinds that a processor is of, by the names of ``perf_events.toml``."""
    kinds = set()
    for name, kind in _tables()[0].items():
        if (
            kind["vendor"] == processor.vendor
            and kind.get("family", processor.family) == processor.family
            and any(low <= processor.model <= high for low, high in kind.get("models", [[-1, 1 << 32]]))
        ):
            kinds.add(name)
    return kinds


def events_for(processor: Processor) -> tuple[Event, ...]:
    """Return the events worth counting on a processor, the most telling ones first.

    An unknown one gets those that perf knows everywhere.
    """
    kinds = processor_kinds(processor)
    return tuple(event for event in _tables()[1] if not event.on or kinds.intersection(event.on))


def present_events(events: Sequence[Event], devices: Path) -> list[Event]:
    """Return the events whose PMU the kernel offers, with ``*`` in a PMU's name filled in.

    Parameters
    ----------
    events
        Candidates.
    devices
        ``/sys/bus/event_source/devices``.
    """
    present = []
    for event in events:
        if not event.device:
            present.append(event)
            continue
        found = sorted(devices.glob(event.device))
        if not found:
            continue
        terms = event.event.partition("/")[2].rstrip("/")
        if "=" in terms or (found[0] / "events" / terms).exists():
            present.append(replace(event, event=f"{found[0].name}/{terms}/"))
    return present


def printed_name(event: str) -> str:
    """Return what an event is known by, whichever way perf spells it in its output.

    A name that was given wins; modifiers go; so does the PMU of a core, of which hybrid processors have two.

    >>> printed_name("cpu/event=0xa3,umask=0x6,name=stalls_l3_miss/")
    'stalls_l3_miss'
    >>> printed_name("cpu_core/instructions/"), printed_name("cycles:u"), printed_name("msr/aperf/")
    ('instructions', 'cycles', 'msr/aperf/')
    """
    given = re.search(r"\bname=([\w.-]+)", event)
    if given:
        return given[1]
    device, slash, rest = event.partition("/")
    if not slash:
        return event.partition(":")[0]
    terms = rest.partition("/")[0]
    return terms if re.match(r"cpu|armv8", device) else f"{device}/{terms}/"


def event_list(events: Sequence[Event]) -> str:
    """Return the argument of ``perf stat -e``: events of a group stand in braces.

    ``:W`` makes the group weak: perf counts its events one by one where the processor cannot take it whole.
    """
    groups: dict[str, list[str]] = {}
    for event in events:
        groups.setdefault(event.group or f" {event.event}", []).append(event.event)
    return ",".join(f"{{{','.join(names)}}}:W" if len(names) > 1 else names[0] for names in groups.values())
