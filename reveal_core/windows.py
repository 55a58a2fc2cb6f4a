"""Windows of samples and the features computed over them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

COVERAGE = "telemetry.coverage."
"""Begins the metric that tells how much of what was due a source delivered, 0 to 1; its name follows."""
HOST_COVERAGE = f"{COVERAGE}host"
"""The same of all sources of a host together."""


@dataclass(frozen=True)
class Feature:
    """A statistic of a metric over a window.

    Attributes
    ----------
    name
        Column name: ``metric:part:statistic`` in roll-up space (``part`` is ``mean``, ``max`` or
        ``imbalance`` across instances, or ``value`` for a metric without instances),
        ``metric/instance:statistic`` in instance space.
    metric, part, statistic, subsystem, unit
        What it is made of; the unit is that of the metric's physical value.
    """

    name: str
    metric: str
    part: str
    statistic: str
    subsystem: str
    unit: str


@dataclass(frozen=True)
class Windows:
    """Features of one host's windows on the fixed UTC grid.

    ``frame`` has ``start`` and ``end`` (``Datetime("ns", "UTC")``), ``coverage`` (samples present over
    samples expected, 0 to 1), then one ``Float64`` column per feature, null where the window has no sample of
    it.
    """

    host: str
    frame: pl.DataFrame
    features: tuple[Feature, ...]
