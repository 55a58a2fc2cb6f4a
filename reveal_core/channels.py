"""Channels: one metric on one instance, and how they are named.

This module is shared by the collector, so it imports nothing but the standard library.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

Kind = Literal["counter", "gauge", "state"]
Subsystem = Literal["cpu", "gpu", "memory", "network", "storage"]
KINDS: tuple[str, ...] = get_args(Kind)
SUBSYSTEMS: tuple[str, ...] = get_args(Subsystem)


@dataclass(frozen=True, slots=True)
class Channel:
    """One metric on one instance.

    Attributes
    ----------
    name
        ``metric`` or ``metric/instance``; the column name in a segment.
    metric, instance
        ``instance`` is ``""`` for a metric that a host has once.
    subsystem
        One of `SUBSYSTEMS`.
    kind
        ``counter`` (cumulative, stored raw), ``gauge`` (a level) or ``state`` (a small enumeration).
    unit
        Unit of the stored value; of the physical value once a channel belongs to a `Series`.
    source
        The collector's source that reads it, or ``derived``.
    period_ms
        Sampling period in milliseconds.
    """

    name: str
    metric: str
    instance: str
    subsystem: str
    kind: str
    unit: str
    source: str
    period_ms: int

    def to_dict(self) -> dict[str, Any]:
        """Return the channel as the plain mapping that ``reveal channels --json`` prints."""
        return asdict(self)


def channel_name(metric: str, instance: str = "") -> str:
    """Return the column name of a metric on an instance.

    >>> channel_name("cpu.busy", "cpu17")
    'cpu.busy/cpu17'
    """
    return f"{metric}/{instance}" if instance else metric


def split_name(name: str) -> tuple[str, str]:
    """Return metric and instance of a channel's name; the instance may itself hold slashes.

    >>> split_name("cgroup.usage//slurm/job7")
    ('cgroup.usage', '/slurm/job7')
    """
    metric, _, instance = name.partition("/")
    return metric, instance
