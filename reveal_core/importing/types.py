"""What readers give: chunks of samples of one host, with the columns that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reveal_core.catalog import Metric
from reveal_core.channels import channel_name
from reveal_core.collect.columns import MISSING
from reveal_core.importing.findings import Findings

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NO_TIME = MISSING
"""Stands for a time that could not be told."""


@dataclass(frozen=True, slots=True)
class ImportedColumn:
    """A channel as it will be stored.

    Attributes
    ----------
    metric
        What is stored: the catalogue's entry, or one made for the import. The rate of a counter is a gauge.
    instance
        As in `reveal_core.channels.Channel`.
    source
        Who measured it; its coverage is a feature.
    """

    metric: Metric
    instance: str
    source: str

    @property
    def name(self) -> str:
        """The channel's name."""
        return channel_name(self.metric.name, self.instance)


@dataclass(frozen=True, eq=False)
class Layout:
    """The columns of a stretch of rows. Chunks of the same layout share the object.

    Attributes
    ----------
    host
        Whose samples.
    identity
        Tells files of one host apart that may begin at the same time; the same for the same file.
    facts
        Host facts for the segments.
    gauges, counters
        Levels, states and rates; and raw cumulative counts.
    period_ms
        Time between rows, for a stretch of a single one; None if it is not known.
    """

    host: str
    identity: str
    facts: Mapping[str, Any]
    gauges: tuple[ImportedColumn, ...]
    counters: tuple[ImportedColumn, ...] = ()
    period_ms: int | None = None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples of one layout.

    Attributes
    ----------
    layout
        What they are of.
    ts
        UTC, ns since 1970, shape (n_rows,); in the order of the source.
    gauges
        Shape (n_gauges, n_rows); NaN for one that is missing.
    counters
        Shape (n_counters, n_rows); `reveal_core.collect.columns.MISSING` for one that is missing.
    """

    layout: Layout
    ts: Ints
    gauges: NDArray[np.float32]
    counters: Ints = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))


@dataclass(frozen=True)
class ImportOptions:
    """What a person says about a source that it does not say itself.

    Attributes
    ----------
    host
        The host's label.
    zone
        Of times without one.
    mapping
        The mapping file's content, of tables.
    origin
        When a log began that only counts seconds or intervals.
    interval_s
        Seconds between samples of a log that has no times at all.
    """

    host: str | None = None
    zone: tzinfo | None = None
    mapping: Mapping[str, Any] | None = None
    origin: datetime | None = None
    interval_s: float | None = None


Reader = Callable[[Path, ImportOptions, Findings], "Iterator[Chunk | Layout]"]
"""Reads a file or folder; a layout by itself says that no more of it comes.

Input beyond use is a `reveal_core.errors.UsageError`, anything less a finding.
"""
