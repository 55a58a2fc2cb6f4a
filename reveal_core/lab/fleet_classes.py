"""Hardware classes of simulated hosts: what such a host is, and which channels it has."""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reveal_core.channels import channel_name
from reveal_core.collect.columns import Column
from reveal_core.errors import UsageError
from reveal_core.lab.fleet_donor import Donor, Pattern

DEFAULT_CLASSES = "amd16,intel32,amd48"
MODELS = {
    "amd": "AMD EPYC (simulated)",
    "intel": "Intel(R) Xeon(R) (simulated)",
    "arm": "ARM Neoverse (simulated)",
}
"""The CPU's model by vendor, as facts tell it."""
MOST_CORES = 512
CORES_PER_DISK, MOST_DISKS = 16, 64
GIB_PER_CORE = 4
LAG_ROWS = 50
"""Rows by which cores that are made from the same recorded core follow each other: a whole number of reads of
any source, so that what is read together stays together."""
FINE_SCALE = 1e-3
"""Step of a level that is not always whole: samples are integers until they are encoded."""
_CLASS = re.compile(r"([a-z]+)(\d+)")
_CORE = re.compile(r"cpu\d+")


@dataclass(frozen=True)
class HostClass:
    """A hardware class.

    Attributes
    ----------
    vendor
        One of `MODELS`.
    cores
        Logical CPUs.
    """

    vendor: str
    cores: int

    @property
    def name(self) -> str:
        """What it is called: vendor and cores."""
        return f"{self.vendor}{self.cores}"

    def facts(self, donor: Donor, host: str, identity: np.random.Generator) -> dict[str, Any]:
        """Return the facts of a host, equally long as JSON for hosts whose names are equally long."""
        return {
            "machine_id": uuid.UUID(bytes=identity.bytes(16)).hex,
            "hostname": host,
            "kernel": donor.facts.get("kernel"),
            "os": donor.facts.get("os"),
            "boot_id": str(uuid.UUID(bytes=identity.bytes(16))),
            "virtual": False,
            "cpu": {
                "model": MODELS[self.vendor],
                "sockets": 1,
                "cores": self.cores,
                "logical": self.cores,
            },
            "memory_bytes": self.cores * GIB_PER_CORE * 2**30,
            "numa_nodes": [],
            "nics": [],
            "disks": [],
            "gpus": [],
            "simulated_from": donor.host,
        }


def parse_classes(text: str) -> tuple[HostClass, ...]:
    """Return the classes that a list such as ``amd16,intel32`` names.

    Raises
    ------
    UsageError
        If one of them is none, or is named twice.
    """
    classes = []
    for part in (part.strip() for part in text.split(",")):
        match = _CLASS.fullmatch(part)
        if match is None or match[1] not in MODELS or not 1 <= int(match[2]) <= MOST_CORES:
            raise UsageError(
                f"{part!r} is no class of hosts: write a vendor ({', '.join(MODELS)}) and 1 to {MOST_CORES} "
                "cores, as amd16"
            )
        classes.append(HostClass(match[1], int(match[2])))
    if len(set(classes)) < len(classes):
        raise UsageError(f"classes {text!r}: one is named twice")
    return tuple(classes)


@dataclass(frozen=True)
class Place:
    """A channel of a simulated host.

    Attributes
    ----------
    column
        The channel, and what its integers are multiplied with.
    pattern
        How it moves.
    lag
        Rows by which it follows the recording.
    """

    column: Column
    pattern: Pattern
    lag: int


def channel_table(
    donor: Donor, host_class: HostClass, most: int, wanted: Collection[str] = ()
) -> tuple[Place, ...]:
    """Return the channels of hosts of a class.

    What the recording has for each core is widened, or narrowed, to the class's cores, and what it has for
    each disk to as many disks as the class has, or as are needed to come to ``most`` channels. Where there
    are more than ``most``, metrics of ``wanted`` stay before those that move, and these before the rest; of a
    metric for each core either all cores stay or none.

    Parameters
    ----------
    donor
        The recording.
    host_class
        The class.
    most
        Channels of a host.
    wanted
        Metrics that are to be there if the recording has them.

    Raises
    ------
    UsageError
        If not even one channel fits.
    """
    groups: dict[tuple[str, ...], list[Pattern]] = {}
    for pattern in donor.patterns:
        groups.setdefault(_group(pattern), []).append(pattern)
    width = _widths(groups, host_class, most)
    ranks = sorted(groups, key=lambda key: _rank(key, groups[key], width, wanted))
    kept, size = set(), 0
    for key in ranks:
        if size + width[key] <= most:
            kept.add(key)
            size += width[key]
    if not kept:
        raise UsageError(f"{most} channels are too few for a host of {host_class.cores} cores")
    return tuple(
        place
        for key, patterns in groups.items()
        if key in kept
        for place in _places(key, patterns, width[key])
    )


def _group(pattern: Pattern) -> tuple[str, ...]:
    """Return what belongs together: a metric of all cores, one of all disks, or one channel."""
    channel = pattern.channel
    if _CORE.fullmatch(channel.instance):
        return "core", channel.metric
    if channel.metric.startswith("disk.") and channel.instance:
        return "disk", channel.metric
    return "host", channel.name


def _widths(
    groups: Mapping[tuple[str, ...], list[Pattern]], host_class: HostClass, most: int
) -> dict[tuple[str, ...], int]:
    """Return of how many channels each group is to be."""
    kinds = [key[0] for key in groups]
    others = kinds.count("host") + host_class.cores * kinds.count("core")
    disks = max(1, host_class.cores // CORES_PER_DISK)
    if kinds.count("disk"):
        disks = min(max(disks, (most - others) // kinds.count("disk")), MOST_DISKS)
    sizes = {"host": 1, "core": host_class.cores, "disk": disks}
    return {key: sizes[key[0]] for key in groups}


def _rank(
    key: tuple[str, ...],
    patterns: list[Pattern],
    width: Mapping[tuple[str, ...], int],
    wanted: Collection[str],
) -> tuple[bool, bool, bool, int]:
    """Return by what groups are chosen, the least first; what is equal stays in the recording's order."""
    metric = patterns[0].metric.name
    times = metric.startswith("cpu.")  # derived metrics need them together
    return metric not in wanted, not any(p.moves for p in patterns), not times, width[key]


def _places(key: tuple[str, ...], patterns: list[Pattern], width: int) -> list[Place]:
    places = []
    for number in range(width):
        pattern = patterns[number % len(patterns)]
        channel = pattern.channel
        instance = {"core": f"cpu{number}", "disk": f"nvme{number}n1"}.get(key[0], channel.instance)
        renamed = replace(channel, name=channel_name(channel.metric, instance), instance=instance)
        scale = 1.0 if pattern.whole else FINE_SCALE
        places.append(
            Place(Column(renamed, pattern.metric, scale), pattern, number // len(patterns) * LAG_ROWS)
        )
    return places
