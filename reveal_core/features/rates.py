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


def counter_rate(values: pl.Expr, seconds: pl.Expr, metric: Metric) -> pl.Expr:
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
    """
    last = values.forward_fill().shift(1)
    elapsed = seconds - pl.when(values.is_not_null()).then(seconds).forward_fill().shift(1)
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
    catalog = load_catalog()
    seconds = pl.col("mono").cast(pl.Float64) / 1e9
    expressions: list[pl.Expr] = [pl.col("ts")]
    channels: dict[str, Channel] = {}
    for name, channel in telemetry.channels.items():
        if name not in telemetry.frame.columns:
            continue
        metric = metric_of(channel, catalog)
        channels[name] = replace(channel, unit=metric.physical_unit)
        if channel.kind == "counter":
            expressions.append(counter_rate(pl.col(name), seconds, metric).alias(name))
            continue
        value = pl.col(name).cast(pl.Float64)
        expressions.append(value)
        if metric.stock:
            change = f"{channel.metric}{CHANGE_SUFFIX}"
            derived = channel_name(change, channel.instance)
            channels[derived] = replace(
                channel, name=derived, metric=change, unit=f"{channel.unit}/s", source="derived"
            )
            # Only between samples that are present: a slowly sampled gauge has null rows in between.
            last = value.forward_fill().shift(1)
            elapsed = seconds - pl.when(value.is_not_null()).then(seconds).forward_fill().shift(1)
            expressions.append(
                pl.when(elapsed > 0).then((value - last) / elapsed).otherwise(None).alias(derived)
            )
    frame = telemetry.frame
    boots = frame.partition_by(BOOT_COLUMN) if BOOT_COLUMN in frame.columns else [frame]
    rates = pl.concat([boot.sort("mono").select(expressions) for boot in boots]).sort("ts")
    return Series(telemetry.host, rates, channels, telemetry.facts)
