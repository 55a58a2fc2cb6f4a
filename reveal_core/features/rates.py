"""Physical values from raw samples: rates of counters, levels of gauges, changes of stocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from reveal_core.catalog import Metric, load_catalog
from reveal_core.channels import Channel, channel_name
from reveal_core.telemetry import BOOT_COLUMN, Series, Telemetry

CHANGE_SUFFIX = ".change"
"""A stock ``meminfo.Cached`` is judged by ``meminfo.Cached.change``, its increase per second."""

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


def _since_last(values: pl.Expr, seconds: pl.Expr, *, whole: bool) -> tuple[pl.Expr, pl.Expr]:
    """Return the last sample that is present before each row, and the time since it.

    ``whole`` says that no sample is missing: the last one is then that of the row before.
    """
    if whole:
        return values.shift(1), seconds.diff()
    return (
        values.forward_fill().shift(1),
        seconds - pl.when(values.is_not_null()).then(seconds).forward_fill().shift(1),
    )


def counter_rate(values: pl.Expr, seconds: pl.Expr, metric: Metric, *, whole: bool = False) -> pl.Expr:
    """Return the rate of a cumulative counter in the metric's physical unit.

    The increase since the last sample that is present, over the time since then, so a lost sample loses no
    counts. A 32-bit wrap is unrolled; another decrease is a reset and gives null; a small dip of a counter
    that may dip gives 0.

    Parameters
    ----------
    values
        Raw cumulative counts, null where a sample is missing.
    seconds
        Time of each row in seconds, on a clock that does not step.
    metric
        Its entry in the catalogue: width, whether it dips, and the scale of its rate.
    whole
        No sample is missing, which is told faster.
    """
    last, elapsed = _since_last(values, seconds, whole=whole)
    increase = values - last
    if metric.bits == 32:
        wrapped = increase + 2**32
        # Half the range tells a wrap from a reset: a counter that was reset restarts near 0, far below its
        # last value.
        increase = (
            pl.when((increase < 0) & (last > 2**31) & (wrapped < 2**31)).then(wrapped).otherwise(increase)
        )
    if metric.dips:
        increase = pl.when(increase < 0).then(0).otherwise(increase)
    rate = increase / elapsed
    valid = (increase >= 0) & (elapsed > 0) & (rate < _MAX_RATE)
    return pl.when(valid).then(rate * metric.rate_scale).otherwise(None).cast(pl.Float64)


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
    seconds = pl.col("__seconds")
    expressions: list[pl.Expr] = [pl.col("ts")]
    for name, channel in channels.items():
        if name not in boot.columns:
            continue
        metric = metric_of(channel, catalog)
        whole = boot[name].null_count() == 0
        if channel.kind == "counter":
            expressions.append(counter_rate(pl.col(name), seconds, metric, whole=whole).alias(name))
            continue
        value = pl.col(name).cast(pl.Float64)
        expressions.append(value)
        if metric.stock:
            derived = channel_name(f"{channel.metric}{CHANGE_SUFFIX}", channel.instance)
            # Only between samples that are present: a slowly sampled gauge has null rows in between.
            last, elapsed = _since_last(value, seconds, whole=whole)
            expressions.append(
                pl.when(elapsed > 0).then((value - last) / elapsed).otherwise(None).alias(derived)
            )
    return boot.with_columns((pl.col("mono").cast(pl.Float64) / 1e9).alias("__seconds")).select(expressions)
