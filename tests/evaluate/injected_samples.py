"""Telemetry of a small host as it is read back from a store, for tests that perturb it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
from synthetic_telemetry import SYNTHETIC_START, synthetic_columns

from reveal_core.catalog import load_catalog
from reveal_core.channels import Channel, channel_name
from reveal_core.telemetry import Telemetry

PERIOD_NS = 100_000_000


def sample_telemetry(seconds: float, seed: int = 0) -> Telemetry:
    """Return a healthy host: CPU, softirq, disk, TCP and memory, each subsystem's channels a source."""
    columns = synthetic_columns(seconds, (), seed)
    rows = len(next(iter(columns.values())))
    ns = np.arange(rows, dtype=np.int64) * PERIOD_NS
    start = round(SYNTHETIC_START.timestamp()) * 10**9
    ts = pl.Series("ts", start + ns).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    data, channels = [ts, pl.Series("mono", ns + 10**12)], {}
    for (metric, instance), values in columns.items():
        channel = load_catalog()[metric].channel(instance, metric.partition(".")[0], 100)
        channels[channel.name] = channel
        data.append(pl.Series(channel.name, values))
    return Telemetry("node-1", pl.DataFrame(data), channels)


def single_channel(metric: str, values: np.ndarray, instance: str = "") -> Telemetry:
    """Return a host with one channel, sampled every 100 ms."""
    telemetry = sample_telemetry(len(values) * 0.1)
    channel: Channel = load_catalog()[metric].channel(instance, "test", 100)
    frame = telemetry.frame.select("ts", "mono").with_columns(
        pl.Series(channel_name(metric, instance), values)
    )
    return replace(telemetry, frame=frame, channels={channel.name: channel})


def at(seconds: float):
    """Return the time so many seconds after the telemetry's start."""
    return SYNTHETIC_START + timedelta(seconds=seconds)
