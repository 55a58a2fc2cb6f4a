"""The metric catalogue: what Reveal knows of every metric, as data in ``metrics/*.toml``.

A file holds ``[defaults]`` and ``[metrics]``; a metric's entry overrides the defaults. ``[left_out]`` names
fields of the kernel that are known and not collected, each with the reason: so a name in neither table is
news. This module is read by the collector, so it imports nothing but the standard library.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from itertools import takewhile
from typing import Any

from reveal_core.channels import KINDS, SUBSYSTEMS, Channel, channel_name


@dataclass(frozen=True, slots=True)
class Metric:
    """An entry of the catalogue.

    Attributes
    ----------
    name, subsystem, kind, description
        As in `reveal_core.channels.Channel`; the description is one line.
    unit
        Unit of the stored value.
    rate_unit, rate_scale
        For a counter: the unit of its rate, and what (increase per second) is multiplied with to get it. A
        counter of 10 ms jiffies has ``rate_unit = "%"`` and ``rate_scale = 1``; one of 512 byte sectors
        ``"B/s"`` and 512. ``rate_unit`` defaults to the unit per second.
    event
        A counter, or a level such as huge pages set aside, that stands still while all is well (errors,
        throttling, failures): it is kept although it did not move in training.
    failure
        An event that is a fault by itself, of the hardware or of the host's clock, however rarely it is
        counted: a healthy host does not count it, and it says so before anything slows down.
    capacity
        A level that says what a device can do, whatever a job does: it falls when the device is degraded, or
        when somebody limits it.
    stock
        A gauge that stays displaced long after its cause (page cache): it is judged by change, not by level.
    floor
        The smallest difference of a window's level that is worth noticing, in the unit of the physical
        value; None for the default of that unit.
    minimum, maximum
        The valid range of the stored value; outside it a sample is missing.
    bits
        Width of a counter, for unrolling a wrap: 64 or 32.
    dips
        A counter that the kernel may let go back a little (``iowait``, ``idle``): a dip counts as no
        increase.
    transient
        Its instances (control groups, network namespaces) come and go with jobs, so a mean over them moves
        when nothing else does: across instances the highest counts.
    """

    name: str
    subsystem: str
    kind: str
    unit: str
    description: str
    rate_unit: str = ""
    rate_scale: float = 1.0
    event: bool = False
    failure: bool = False
    capacity: bool = False
    stock: bool = False
    floor: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    bits: int = 64
    dips: bool = False
    transient: bool = False

    @property
    def physical_unit(self) -> str:
        """Unit of the value that people see: of the rate for a counter, of the level otherwise."""
        return (self.rate_unit or f"{self.unit}/s") if self.kind == "counter" else self.unit

    def channel(self, instance: str, source: str, period_ms: int) -> Channel:
        """Return this metric on an instance, as a source samples it."""
        return Channel(
            name=channel_name(self.name, instance),
            metric=self.name,
            instance=instance,
            subsystem=self.subsystem,
            kind=self.kind,
            unit=self.unit,
            source=source,
            period_ms=period_ms,
        )


_FIELDS = {f.name for f in fields(Metric)}


def _entry(file: str, name: str, values: dict[str, Any]) -> Metric:
    unknown = set(values) - _FIELDS
    if unknown:
        raise ValueError(f"{file}: {name} has unknown fields {sorted(unknown)}")
    metric = Metric(name=name, **values)
    if metric.kind not in KINDS or metric.subsystem not in SUBSYSTEMS:
        raise ValueError(f"{file}: {name} has kind {metric.kind!r} in subsystem {metric.subsystem!r}")
    return metric


@dataclass(frozen=True)
class CatalogFile:
    """A file of the catalogue: its name, the comment that it begins with, and its tables."""

    name: str
    comment: str
    data: dict[str, Any]


@cache
def catalog_files() -> tuple[CatalogFile, ...]:
    """Return the files of the catalogue, by name."""
    found = []
    for path in files(__package__).joinpath("metrics").iterdir():
        if path.name.endswith(".toml"):
            text = path.read_text(encoding="utf-8")
            comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
            found.append(
                CatalogFile(path.name, " ".join(line[1:].strip() for line in comment), tomllib.loads(text))
            )
    return tuple(sorted(found, key=lambda file: file.name))


@cache
def load_catalog() -> dict[str, Metric]:
    """Return every metric by name.

    Raises
    ------
    ValueError
        If an entry is malformed or appears twice; the message names file and metric.
    """
    catalog: dict[str, Metric] = {}
    for file in catalog_files():
        for name, values in file.data["metrics"].items():
            if name in catalog:
                raise ValueError(f"{file.name}: {name} is in the catalogue twice")
            catalog[name] = _entry(file.name, name, {**file.data.get("defaults", {}), **values})
    return catalog


@cache
def _transient_families() -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name, metric in load_catalog().items() if metric.transient)


def is_transient(metric: str) -> bool:
    """Tell whether a metric's instances come and go, also of one that is derived from such ones.

    >>> is_transient("cgroup.cpu_usage"), is_transient("cgroup.memory_rss.change"), is_transient("cpu.user")
    (True, True, False)
    """
    return metric.partition(".")[0] in _transient_families()


def is_failure(metric: str) -> bool:
    """Tell whether a metric counts something of which one is a fault: most are errors of the hardware.

    >>> is_failure("gpu.xid_errors"), is_failure("gpu.pcie_replays"), is_failure("no.such.metric")
    (True, False, False)
    """
    known = load_catalog().get(metric)
    return known is not None and known.failure


@cache
def load_left_out() -> dict[str, str]:
    """Return the names that are known and not collected, each with the reason."""
    return {name: why for file in catalog_files() for name, why in file.data.get("left_out", {}).items()}


def fingerprint(metrics: Iterable[str]) -> dict[str, str]:
    """Return what the catalogue says of some metrics, in short: a model is only valid for the same meaning.

    Returns
    -------
    dict
        By metric ``kind unit scale marks``: the kind, the unit that people see, what an increase is
        multiplied with, and the marks ``event``, ``failure``, ``capacity``, ``stock`` and ``transient``. A
        metric that the catalogue lacks (a derived one, a stock's change) is left out.

    >>> fingerprint(["meminfo.Cached", "no.such.metric"])
    {'meminfo.Cached': 'gauge B 1 stock'}
    """
    catalog = load_catalog()
    known = (catalog[name] for name in sorted(set(metrics)) if name in catalog)
    return {m.name: _meaning(m) for m in known}


def _meaning(metric: Metric) -> str:
    told = ("event", "failure", "capacity", "stock", "transient")
    marks = [mark for mark in told if getattr(metric, mark)]
    return " ".join([metric.kind, metric.physical_unit or "1", f"{metric.rate_scale:g}", *marks])
