"""Physical values from raw samples: rates of counters, levels of gauges, changes of stocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import Metric, load_catalog
from reveal_core.channels import Channel, channel_name
from reveal_core.telemetry import BOOT_COLUMN, Series, Telemetry

Array = NDArray[np.float64]

CHANGE_SUFFIX = ".change"
"""A stock ``meminfo.Cached`` is judged by ``meminfo.Cached.change``, its increase per second."""

LOST = int(np.iinfo(np.int64).min)
"""Stands for a count that is missing; none takes this value."""

_MAX_RATE = 1e15
"""Above this increase per second a jump is taken for a reset or a foreign value, not for work done."""


def metric_of(channel: Channel, catalog: Mapping[str, Metric]) -> Metric:
    """Return the catalogue's entry of a channel, or one made from the channel if the catalogue has none."""
    known = catalog.get(channel.metric)
    if known is not None:
        return known
    return Metric(
        name=channel.metric,
        subsystem=channel.subsystem,
        kind=channel.kind,
        unit=channel.unit,
        description=channel.metric,
    )


class _Present:
    """The samples of a channel that are there.

    Attributes
    ----------
    rows
        Their rows; None where every row has one.
    values
        Shape (n,).
    elapsed_s
        Time from each to the next, shape (n - 1,).
    """

    def __init__(self, values: NDArray[Any], seconds: Array) -> None:
        there = values != LOST if values.dtype.kind == "i" else ~np.isnan(values)
        self.size = len(values)
        self.rows = None if there.all() else np.flatnonzero(there)
        self.values = values if self.rows is None else values[self.rows]
        self.elapsed_s = np.diff(seconds if self.rows is None else seconds[self.rows])

    def per_second(self, increase: NDArray[Any], valid: NDArray[np.bool_], scale: float = 1.0) -> Array:
        """Return increases between samples that follow each other as rates of all rows, NaN elsewhere."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = increase / self.elapsed_s
        rate[~valid | (self.elapsed_s <= 0) | (rate >= _MAX_RATE)] = np.nan
        whole = np.full(self.size, np.nan)
        whole[slice(1, None) if self.rows is None else self.rows[1:]] = rate * scale
        return whole


def counter_rate(values: NDArray[Any], seconds: Array, metric: Metric) -> Array:
    """Return the rate of a cumulative counter in the metric's physical unit.

    The increase since the last sample that is present, over the time since then, so a lost sample loses no
    counts. A 32-bit wrap is unrolled; another decrease is a reset and gives none; a small dip of a counter
    that may dip gives 0.

    Parameters
    ----------
    values
        Raw cumulative counts, shape (n_rows,); `LOST`, or NaN where they are fractions, for a sample that is
        missing.
    seconds
        Time of each row in seconds, on a clock that does not step; shape (n_rows,).
    metric
        Its entry in the catalogue: width, whether it dips, and the scale of its rate.

    Returns
    -------
    Array
        Shape (n_rows,), NaN where no rate can be told.
    """
    there = _Present(values, seconds)
    increase = np.diff(there.values)
    if metric.bits == 32:
        # Half the range tells a wrap from a reset: a counter that was reset restarts near 0, far below its
        # last value.
        wrapped = increase + 2**32
        unrolls = (increase < 0) & (there.values[:-1] > 2**31) & (wrapped < 2**31)
        increase = np.where(unrolls, wrapped, increase)
    if metric.dips:
        increase = np.maximum(increase, 0)
    return there.per_second(increase, increase >= 0, metric.rate_scale)


def _change(values: Array, seconds: Array) -> Array:
    """Return the increase per second of a level since its last sample that is present."""
    there = _Present(values, seconds)
    increase = np.diff(there.values)
    return there.per_second(increase, np.ones(len(increase), dtype=bool))


def physical_series(telemetry: Telemetry) -> Series:
    """Return the physical series of a host's telemetry.

    Counters become rates in their ``rate_unit``; gauges and states keep their value; for each stock a channel
    of its increase per second is added, named ``<metric>.change``.

    Notes
    -----
    Intervals come from ``mono``, and each boot is taken by itself in the order of ``mono``, so neither a step
    of the wall clock nor a reboot makes a rate. The first sample of a counter has none.
    """
    frame = telemetry.frame
    boots = frame.partition_by(BOOT_COLUMN) if BOOT_COLUMN in frame.columns else [frame]
    rates = pl.concat([_physical_frame(boot.sort("mono"), telemetry.channels) for boot in boots]).sort("ts")
    return Series(telemetry.host, rates, _physical_channels(telemetry), telemetry.facts)


def _physical_channels(telemetry: Telemetry) -> dict[str, Channel]:
    catalog = load_catalog()
    channels: dict[str, Channel] = {}
    for name, channel in telemetry.channels.items():
        if name not in telemetry.frame.columns:
            continue
        metric = metric_of(channel, catalog)
        channels[name] = replace(channel, unit=metric.physical_unit)
        if metric.stock and channel.kind != "counter":
            change = f"{channel.metric}{CHANGE_SUFFIX}"
            derived = channel_name(change, channel.instance)
            channels[derived] = replace(
                channel, name=derived, metric=change, unit=f"{channel.unit}/s", source="derived"
            )
    return channels


def _physical_frame(boot: pl.DataFrame, channels: Mapping[str, Channel]) -> pl.DataFrame:
    """Return the physical values of one boot, in order of ``mono``."""
    catalog = load_catalog()
    seconds = boot["mono"].to_numpy() / 1e9
    held = set(boot.columns)
    known = [channel for name, channel in channels.items() if name in held]
    # At once for all: a call for each of a thousand columns takes longer than the work. Counts do not go by
    # way of NaN, because a float cannot tell large ones apart.
    lost = pl.lit(LOST, pl.Int64)
    counts = pl.col([c.name for c in known if c.kind == "counter"])
    levels = pl.col([c.name for c in known if c.kind != "counter"]).cast(pl.Float64)
    raw = boot.select(counts.fill_null(lost), levels.fill_null(float("nan")))
    columns: dict[str, Array] = {}
    for channel in known:
        metric = metric_of(channel, catalog)
        values = raw[channel.name].to_numpy()
        if channel.kind == "counter":
            columns[channel.name] = counter_rate(values, seconds, metric)
            continue
        columns[channel.name] = values
        if metric.stock:
            derived = channel_name(f"{channel.metric}{CHANGE_SUFFIX}", channel.instance)
            columns[derived] = _change(values, seconds)
    return pl.DataFrame(columns, nan_to_null=True).insert_column(0, boot["ts"])
