"""Codes that states took: what a device said of itself in numbers, such as the last Xid of a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import polars as pl

from reveal_core.attribute.matching import Signal
from reveal_core.telemetry import Series

_EARLIER = timedelta(seconds=5)
"""A code may stand a little before the window that gave the alarm."""


def codes_of(series: Series, metrics: Iterable[str], start: datetime, end: datetime) -> list[Signal]:
    """Return the codes that states took in an incident.

    Parameters
    ----------
    series
        The host's physical series.
    metrics
        Names of states.
    start, end
        Of the incident.

    Returns
    -------
    list of Signal
        One per instance and code. Where a state of any instance took a new value, only new values; else the
        values that stand: an error may repeat itself.
    """
    found: list[Signal] = []
    for metric in metrics:
        standing: list[Signal] = []
        new: list[Signal] = []
        for channel in series.channels.values():
            if channel.metric != metric or channel.name not in series.held:
                continue
            known = series.frame.select("ts", channel.name).drop_nulls().filter(pl.col("ts") <= end)
            before = known.filter(pl.col("ts") < start - _EARLIER)[channel.name]
            during = known.filter(pl.col("ts") >= start - _EARLIER)[channel.name]
            old = before[-1] if len(before) else None
            for value in during.unique(maintain_order=True).to_list():
                signal = Signal(metric, "value", "level", 0.0, -1, round(value), channel.instance)
                (standing if value == old else new).append(signal)
        found += new or standing
    return found
