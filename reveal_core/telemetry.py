"""Telemetry as read back from the store, and the physical series made from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import polars as pl

from reveal_core.channels import Channel

BOOT_COLUMN = "boot"
SPARSE_GRID = "reveal.sparse_grid"
"""Channel that is 1 at the ticks that sparse sampling keeps to, whatever the pace was at the time."""


@dataclass(frozen=True)
class Telemetry:
    """Raw samples of one host, as collected.

    Attributes
    ----------
    host
        The host's label.
    frame
        ``ts`` (``Datetime("ns", "UTC")``), ``mono`` (``Int64``, ns since boot), then a column per channel:
        counters raw (``Int64``), gauges ``Float32``. Sorted by ``ts``. A null is a sample that is missing. A
        channel that only some segments hold is null elsewhere. Where the rows come from more than one boot of
        the host, ``boot`` (``Int32``) after ``mono`` tells them apart.
    channels
        By column name.
    facts
        Host facts of the newest segment (CPU model, sockets, NUMA nodes, kernel, boot id …).
    """

    host: str
    frame: pl.DataFrame
    channels: dict[str, Channel]
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def held(self) -> frozenset[str]:
        """Names of the frame's columns: Polars names all of them anew at each call."""
        return frozenset(self.frame.columns)


@dataclass(frozen=True)
class Series:
    """Physical values of one host: rates of counters, levels of gauges, derived metrics.

    ``frame`` holds ``ts`` and one ``Float64`` column per channel, in the unit that the channel names; nothing
    in it is a cumulative count. A null is a value that could not be known.
    """

    host: str
    frame: pl.DataFrame
    channels: dict[str, Channel]
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def metrics(self) -> frozenset[str]:
        """Names of the channels' metrics."""
        return frozenset(channel.metric for channel in self.channels.values())

    @cached_property
    def held(self) -> frozenset[str]:
        """Names of the frame's columns: Polars names all of them anew at each call."""
        return frozenset(self.frame.columns)
