"""Devices that the recording's machine does not have, written beside its telemetry as a collector would.

Two GPUs, a second NUMA node and hardware counters follow what the recorded cores did, with noise: they are
made up, and stand for nothing but a background that replayed faults have to stand out from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import Metric, load_catalog
from reveal_core.channels import channel_name
from reveal_core.telemetry import Series, Telemetry

Floats = NDArray[np.float64]
GPUS = ("GPU-5a3c91e0", "GPU-b7d24f16")
NODE = "node1"
SMOOTH_S = 0.5


@dataclass(frozen=True)
class Device:
    """A channel that is made up.

    Attributes
    ----------
    metric, source, period_ms
        As the collector has it.
    instances
        The instances that have it.
    busy, idle
        Its value while the cores are as busy as usual, and while they do nothing: the stored value of a
        gauge, the stored counts a second of a counter. NaN for a channel without samples.
    noise
        Standard deviation of a sample, as a share of ``busy``.
    lag_s
        Time constant with which it follows the cores.
    """

    metric: str
    source: str
    period_ms: int
    instances: tuple[str, ...]
    busy: float
    idle: float
    noise: float = 0.0
    lag_s: float = 0.0


def _gpu(
    metric: str, busy: float, idle: float | None = None, noise: float = 0.0, lag_s: float = 0.0
) -> Device:
    return Device(f"gpu.{metric}", "gpu", 100, GPUS, busy, busy if idle is None else idle, noise, lag_s)


def _detail(
    metric: str, busy: float, idle: float | None = None, noise: float = 0.0, lag_s: float = 0.0
) -> Device:
    return replace(_gpu(metric, busy, idle, noise, lag_s), source="gpu_detail", period_ms=1000)


def _health(metric: str, value: float) -> Device:
    return replace(_gpu(metric, value), source="gpu_health", period_ms=5000)


def _node(metric: str, busy: float, idle: float, noise: float) -> Device:
    return Device(f"numa.{metric}", "numa", 1000, (NODE,), busy, idle, noise)


def _perf(metric: str, busy: float, idle: float, noise: float) -> Device:
    return Device(f"perf.{metric}", "perf", 100, ("",), busy, idle, noise)


DEVICES: tuple[Device, ...] = (
    _gpu("utilization", 90.0, 0.0, 0.03),
    _gpu("memory_utilization", 55.0, 0.0, 0.04),
    _gpu("clock_sm", 1755.0, noise=0.005),
    _gpu("power", 540.0, 120.0, 0.02),
    _gpu("memory_used", 61e9),
    _gpu("lost", 0.0),
    _gpu("throttle_power_cap", 0.0),
    _gpu("throttle_sw_thermal", 0.0),
    _gpu("throttle_hw_thermal", 0.0),
    _gpu("throttle_hw_slowdown", 0.0),
    _detail("temperature", 62.0, 38.0, 0.005, 20.0),
    _detail("memory_temperature", 70.0, 45.0, 0.005, 20.0),
    _detail("power_limit", 700.0),
    _detail("energy", 540e3, 120e3, 0.01),
    _detail("throttled_power_time", 0.0),
    _detail("throttled_thermal_time", 0.0),
    _detail("pcie_generation", 5.0),
    _detail("pcie_width", 16.0),
    _detail("pcie_tx_bytes", 1.2e9, 0.0, 0.03),
    _detail("pcie_rx_bytes", 3e9, 0.0, 0.03),
    _detail("pcie_replays", 0.0),
    _detail("nvlink_tx_data", 4e7, 0.0, 0.03),
    _detail("nvlink_rx_data", 4e7, 0.0, 0.03),
    _detail("nvlink_crc_flit_errors", 0.0),
    _detail("nvlink_replay_errors", 0.0),
    _detail("nvlink_recovery_errors", 0.0),
    _detail("xid_errors", 0.0),
    _detail("xid_last", float("nan")),
    _detail("compute_processes", 1.0),
    _health("clock_sm_max", 1980.0),
    _health("ecc_volatile_corrected", 0.0),
    _health("ecc_volatile_uncorrected", 0.0),
    _health("ecc_aggregate_corrected", 0.0),
    _health("ecc_aggregate_uncorrected", 0.0),
    _health("remapped_rows_uncorrected", 0.0),
    _health("remapped_rows_pending", 0.0),
    _node("numa_hit", 3000.0, 200.0, 0.1),
    _node("local_node", 3000.0, 200.0, 0.1),
    _node("other_node", 20.0, 2.0, 0.5),
    _node("numa_miss", 0.0, 0.0, 0.0),
    _node("numa_foreign", 0.0, 0.0, 0.0),
    _perf("instructions", 6.4e9, 2e8, 0.02),
    _perf("cycles", 5.2e9, 2e8, 0.02),
    _perf("stalls_l3_miss", 4e8, 1e7, 0.05),
    _perf("local_memory", 3e7, 1e6, 0.05),
    _perf("remote_memory", 3e5, 1e4, 0.1),
)


def activity(series: Series, times: NDArray[np.int64]) -> Floats:
    """Return how busy the cores were at some times (ns since the epoch), 1 as usual; shape (n_times,)."""
    names = [name for name, channel in series.channels.items() if channel.metric == "cpu.busy"]
    if not names:
        return np.ones(len(times))
    busy = series.frame.select(
        pl.col("ts").dt.epoch("ns"), pl.mean_horizontal(names).alias("busy")
    ).drop_nulls()
    values = busy["busy"].to_numpy()
    usual = float(np.median(values)) or 1.0
    moves: Floats = np.clip(np.interp(times, busy["ts"].to_numpy(), values) / usual, 0.0, 1.3)
    return moves


def follow(values: Floats, seconds: Floats, lag_s: float) -> Floats:
    """Return a signal that follows another with a time constant.

    Parameters
    ----------
    values, seconds
        The other and its times, shape (n,).
    lag_s
        Time constant.
    """
    out = np.empty_like(values)
    at = values[0]
    steps = np.diff(seconds, prepend=seconds[0])
    for number, share in enumerate(1.0 - np.exp(-steps / lag_s)):
        at += share * (values[number] - at)
        out[number] = at
    return out


def sampled_rows(mono: NDArray[np.int64], period_ms: int) -> NDArray[np.bool_]:
    """Return which rows hold a sample of a source with a period; shape (n_rows,).

    Parameters
    ----------
    mono
        Time since boot of each row, ns.
    period_ms
        The source's period.
    """
    tick_ms = float(np.median(np.diff(mono))) / 1e6 if len(mono) > 1 else float(period_ms)
    there: NDArray[np.bool_] = np.arange(len(mono)) % max(1, round(period_ms / tick_ms)) == 0
    return there


def add_devices(telemetry: Telemetry, series: Series, seed: int) -> Telemetry:
    """Return telemetry with the made-up channels beside the recorded ones; recorded ones of a name stay.

    Parameters
    ----------
    telemetry, series
        A recording, and `reveal_core.method.build_series` of it.
    seed
        Of the noise.
    """
    catalog = load_catalog()
    mono = telemetry.frame["mono"].to_numpy()
    seconds = mono / 1e9
    times = telemetry.frame["ts"].dt.epoch("ns").to_numpy()
    moves = follow(activity(series, times), seconds, SMOOTH_S)
    rng = np.random.default_rng(seed)
    columns, channels = [], dict(telemetry.channels)
    for device in DEVICES:
        metric = catalog[device.metric]
        pace = follow(moves, seconds, device.lag_s) if device.lag_s else moves
        for instance in device.instances:
            name = channel_name(device.metric, instance)
            if name in channels:
                continue
            channels[name] = metric.channel(instance, device.source, device.period_ms)
            values = _column(device, metric, pace, seconds, rng)
            sampled = pl.Series(sampled_rows(mono, device.period_ms))
            columns.append(pl.select(pl.when(sampled).then(values).alias(name)).to_series())
    return replace(telemetry, frame=telemetry.frame.with_columns(columns), channels=channels)


def _column(
    device: Device, metric: Metric, pace: Floats, seconds: Floats, rng: np.random.Generator
) -> pl.Series:
    level = device.idle + (device.busy - device.idle) * pace
    values = level + device.noise * abs(device.busy) * rng.standard_normal(len(level))
    if metric.kind == "counter":
        counts = np.cumsum(np.maximum(values, 0.0) * np.diff(seconds, prepend=seconds[0]))
        return pl.Series(np.floor(counts).astype(np.int64))
    if metric.kind == "state":
        values = np.round(values)
    low = -np.inf if metric.minimum is None else metric.minimum
    high = np.inf if metric.maximum is None else metric.maximum
    values = np.clip(values, low, high)
    return pl.Series(values.astype(np.float32), nan_to_null=True)
