"""Physical values from raw samples: rates of counters, levels of gauges, changes of stocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

_CACHED = 2**18
"""Samples of 8 bytes that stay in a core's cache while rates are made of them."""
_MOST_AT_ONCE = 64
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
    """The samples of channels that have them at the same times.

    Attributes
    ----------
    size
        How many rows there are.
    rows
        The rows that have a sample; None where every row has one.
    values
        Shape (n_channels, n).
    elapsed_s
        Time from each sample to the next, shape (n - 1,).
    """

    def __init__(self, block: NDArray[Any], there: NDArray[np.bool_], seconds: Array) -> None:
        self.size = len(seconds)
        self.rows = None if there.all() else np.flatnonzero(there)
        self.values = block if self.rows is None else block[:, self.rows]
        self.elapsed_s = np.diff(seconds if self.rows is None else seconds[self.rows])

    def per_second(self, increase: NDArray[Any], valid: NDArray[np.bool_], scale: Array) -> Array:
        """Return increases between samples that follow each other as rates of all rows, NaN elsewhere.

        The scale of each channel's rate has shape (n_channels,).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = increase / self.elapsed_s
        rate[~valid | (self.elapsed_s <= 0) | (rate >= _MAX_RATE)] = np.nan
        rate *= scale[:, None]
        whole = np.full((len(increase), self.size), np.nan)
        whole[:, slice(1, None) if self.rows is None else self.rows[1:]] = rate
        return whole


def _there(block: NDArray[Any]) -> NDArray[np.bool_]:
    return np.asarray(block != LOST if block.dtype.kind == "i" else ~np.isnan(block))


def _alike(there: NDArray[np.bool_], kinds: Sequence[object]) -> Iterator[NDArray[np.int64]]:
    """Yield channels (rows of ``there``) that have their samples at the same times and are of one kind."""
    groups: dict[tuple[bytes, object], list[int]] = {}
    for row, kind in enumerate(kinds):
        groups.setdefault((there[row].tobytes(), kind), []).append(row)
    yield from (np.array(rows) for rows in groups.values())


def counter_rates(block: NDArray[Any], seconds: Array, metrics: Sequence[Metric]) -> Array:
    """Return the rates of cumulative counters in their metrics' physical units.

    The increase since the last sample that is present, over the time since then, so a lost sample loses no
    counts. A 32-bit wrap is unrolled; another decrease is a reset and gives none; a small dip of a counter
    that may dip gives 0.

    Parameters
    ----------
    block
        Raw cumulative counts, shape (n_channels, n_rows); `LOST`, or NaN where they are fractions, for a
        sample that is missing.
    seconds
        Time of each row in seconds, on a clock that does not step; shape (n_rows,).
    metrics
        Their entries in the catalogue: width, whether they dip, and the scale of the rate.

    Returns
    -------
    Array
        Shape (n_channels, n_rows), NaN where no rate can be told.
    """
    rates = np.empty(block.shape)
    there = _there(block)
    scales = np.array([metric.rate_scale for metric in metrics])
    for channels in _alike(there, [(metric.bits, metric.dips) for metric in metrics]):
        first = metrics[channels[0]]
        chosen = block if len(channels) == len(block) else block[channels]
        present = _Present(chosen, there[channels[0]], seconds)
        increase = np.diff(present.values, axis=1)
        if first.bits == 32:
            # Half the range tells a wrap from a reset: a counter that was reset restarts near 0, far below
            # its last value.
            wrapped = increase + 2**32
            unrolls = (increase < 0) & (present.values[:, :-1] > 2**31) & (wrapped < 2**31)
            increase = np.where(unrolls, wrapped, increase)
        if first.dips:
            increase = np.maximum(increase, 0)
        rates[channels] = present.per_second(increase, increase >= 0, scales[channels])
    return rates


def counter_rate(values: NDArray[Any], seconds: Array, metric: Metric) -> Array:
    """Return the rate of one counter, shape (n_rows,); as `counter_rates`."""
    return np.asarray(counter_rates(values[None, :], seconds, [metric])[0])


def _changes(block: Array, seconds: Array) -> Array:
    """Return the increase per second of levels since their last sample that is present."""
    changes = np.empty(block.shape)
    there = _there(block)
    for channels in _alike(there, [None] * len(block)):
        present = _Present(block[channels], there[channels[0]], seconds)
        increase = np.diff(present.values, axis=1)
        valid = np.ones(increase.shape, dtype=bool)
        changes[channels] = present.per_second(increase, valid, np.ones(len(channels)))
    return changes


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
    parts = [_physical_frame(_in_order(boot, "mono"), telemetry.channels) for boot in boots]
    rates = _in_order(pl.concat(parts), "ts")
    return Series(telemetry.host, rates, _physical_channels(telemetry), telemetry.facts)


def _in_order(frame: pl.DataFrame, column: str) -> pl.DataFrame:
    """Return the rows sorted by a column; as they are where they are so already, for a sort copies them."""
    return frame if frame[column].is_sorted() else frame.sort(column)


def _physical_channels(telemetry: Telemetry) -> dict[str, Channel]:
    catalog = load_catalog()
    channels: dict[str, Channel] = {}
    for name, channel in telemetry.channels.items():
        if name not in telemetry.held:
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
    # Asked once: Polars builds the schema of every column anew at each call.
    integer = {name: dtype.is_integer() for name, dtype in boot.schema.items()}
    known = [channel for name, channel in channels.items() if name in integer]
    # Some at a time: a call for each of a thousand columns takes longer than the work, and all at once would
    # take the memory of as many again.
    size = int(np.clip(_CACHED // max(1, len(seconds)), 1, _MOST_AT_ONCE))
    columns: dict[str, Array] = {}
    whole = [c for c in known if c.kind == "counter" and integer[c.name]]
    fractions = [c for c in known if c.kind == "counter" and not integer[c.name]]
    # Counts do not go by way of NaN, because a float cannot tell large ones apart.
    for counters, kind, missing in ((whole, pl.Int64(), LOST), (fractions, pl.Float64(), float("nan"))):
        for some in _parts(counters, size):
            counts = pl.col([c.name for c in some]).cast(kind).fill_null(pl.lit(missing, kind))
            block = boot.select(counts).to_numpy().T
            rates = counter_rates(block, seconds, [metric_of(c, catalog) for c in some])
            columns |= {c.name: row for c, row in zip(some, rates, strict=True)}
    for some in _parts([c for c in known if c.kind != "counter"], size):
        names = [c.name for c in some]
        levels = pl.col(names).cast(pl.Float64).fill_null(float("nan"))
        block = boot.select(levels).to_numpy().T
        columns |= dict(zip(names, block, strict=True))
        stocks = [n for n, c in enumerate(some) if metric_of(c, catalog).stock]
        if stocks:
            changes = _changes(block[stocks], seconds)
            for n, row in zip(stocks, changes, strict=True):
                columns[channel_name(f"{some[n].metric}{CHANGE_SUFFIX}", some[n].instance)] = row
    ordered = {name: columns[name] for name in _physical_names(known, catalog)}
    return frame_of(ordered).insert_column(0, boot["ts"])


def frame_of(columns: Mapping[str, Array]) -> pl.DataFrame:
    """Return columns as a frame, null for NaN.

    Series by series: given a thousand arrays at once, Polars makes them in threads, which takes three times
    as long.
    """
    return pl.DataFrame([pl.Series(name, values, nan_to_null=True) for name, values in columns.items()])


def _physical_names(known: Sequence[Channel], catalog: Mapping[str, Metric]) -> Iterator[str]:
    """Yield the names of the physical values of channels, the change of a stock after its level."""
    for channel in known:
        yield channel.name
        if channel.kind != "counter" and metric_of(channel, catalog).stock:
            yield channel_name(f"{channel.metric}{CHANGE_SUFFIX}", channel.instance)


def _parts(channels: Sequence[Channel], size: int) -> Iterator[Sequence[Channel]]:
    for first in range(0, len(channels), size):
        yield channels[first : first + size]
