"""Synthetic but valid telemetry: a busy, periodic host with bursts at known times."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from reveal_core.channels import Channel, channel_name
from reveal_core.segment import Segment, encode_metadata

PERIOD_S = 0.1
SYNTHETIC_START = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)
FACTS = {
    "cpu": {"model": "Synthetic(R) CPU", "logical": 2, "cores": 2, "sockets": 1},
    "gpus": [],
    "kernel": "6.1",
    "collector": {"tick_ms": 100, "unavailable": {"thermal": "no thermal zones"}},
}

Span = tuple[float, float]


def _rate_counter(rng: np.random.Generator, per_second: np.ndarray) -> np.ndarray:
    return np.cumsum(rng.poisson(np.maximum(per_second, 0) * PERIOD_S)).astype(np.int64) + 1000


def synthetic_columns(seconds: float, bursts: Sequence[Span], seed: int) -> dict[tuple[str, str], np.ndarray]:
    """Return columns of a busy, periodic host; during a burst its cores saturate and its job is throttled."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds / PERIOD_S)) * PERIOD_S
    burst = np.zeros_like(t, dtype=bool)
    for begin, end in bursts:
        burst |= (t >= begin) & (t < end)
    load = 45 + 10 * np.sin(2 * np.pi * t / 7)
    columns: dict[tuple[str, str], np.ndarray] = {}
    for core in ("cpu0", "cpu1"):
        user = np.where(burst, 97.0, load)
        columns["cpu.user", core] = _rate_counter(rng, user)
        columns["cpu.system", core] = _rate_counter(rng, np.full_like(t, 3.0))
        columns["cpu.idle", core] = _rate_counter(rng, 97.0 - user)
        columns["cpu.iowait", core] = _rate_counter(rng, np.full_like(t, 1.0))
        columns["softirq.NET_RX", core] = _rate_counter(rng, 400 + 2 * load)
        columns["sched.run_delay", core] = _rate_counter(rng, np.where(burst, 9e8, 2e7))
    columns["stat.ctxt", ""] = _rate_counter(rng, 4000 + 20 * load)
    columns["stat.procs_running", ""] = np.where(burst, 6, rng.integers(1, 3, t.size)).astype(np.float32)
    columns["psi.cpu_some", ""] = _rate_counter(rng, np.where(burst, 8e5, 2e4))
    columns["cgroup.nr_throttled", "job"] = _rate_counter(rng, np.where(burst, 9.0, 0.0))
    columns["disk.writes", "vda"] = _rate_counter(rng, 30 + 10 * np.cos(2 * np.pi * t / 11))
    columns["tcp.RetransSegs", "host"] = _rate_counter(rng, np.zeros_like(t))
    columns["meminfo.MemFree", ""] = (4e9 + 1e6 * rng.standard_normal(t.size)).astype(np.float32)
    return columns


def synthetic_segment(
    host: str,
    start: datetime,
    columns: dict[tuple[str, str], np.ndarray],
    sequence: int = 0,
    facts: dict | None = None,
) -> Segment:
    """Return columns as a segment that starts at ``start``."""
    rows = len(next(iter(columns.values())))
    ns = int(start.timestamp() * 1e9) + (np.arange(rows) * PERIOD_S * 1e9).astype(np.int64)
    arrays = {
        "ts": pa.array(ns, pa.timestamp("ns", "UTC")),
        "mono": pa.array(ns - ns[0] + 10**12 * (sequence + 1)),
    }
    channels = []
    for (metric, instance), values in columns.items():
        counter = values.dtype == np.int64
        subsystem = {"disk": "storage", "meminfo": "memory", "softirq": "network", "tcp": "network"}
        name = channel_name(metric, instance)
        channels.append(
            Channel(
                name=name,
                metric=metric,
                instance=instance,
                subsystem=subsystem.get(metric.partition(".")[0], "cpu"),
                kind="counter" if counter else "gauge",
                unit="" if counter else "B",
                source="synthetic",
                period_ms=100,
            )
        )
        arrays[name] = pa.array(values, pa.int64() if counter else pa.float32())
    metadata = encode_metadata(
        host=host, boot="boot-1", sequence=sequence, facts={**FACTS, **(facts or {})}, channels=channels
    )
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays).replace_schema_metadata(metadata), buffer, compression="zstd")
    return Segment(host, start, "boot-1", sequence, buffer.getvalue(), rows, len(channels))
