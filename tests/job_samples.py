"""Hosts of a job at work: sparse telemetry of what they do, and what scoring says of them."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from incident_samples import NOON

from reveal_core.channels import Channel
from reveal_core.incidents import iso
from reveal_core.jobtable import Job, JobHost
from reveal_core.segment import Segment, encode_metadata
from storage.store import Store

PERIOD_S = 20
SEGMENT_MINUTES = 30
LEVELS = {  # metric: (level, unit, subsystem)
    "perf.ipc": (1.5, "instructions/cycle", "cpu"),
    "memory.bandwidth": (66e9, "B/s", "memory"),
    "cpu.flops": (2e11, "flop/s", "cpu"),
    "power.energy": (300.0, "W", "cpu"),  # no metric of work: it differs from chip to chip
}
HOSTS = tuple(f"n{number}" for number in range(8))


def minutes(number: float) -> datetime:
    """Return a time so many minutes after noon."""
    return NOON + timedelta(minutes=number)


def put_work(
    store: Store,
    host: str,
    until: int,
    *,
    slower: Sequence[tuple[float, float, float]] = (),
    facts: Mapping[str, Any] | None = None,
    noise: float = 0.01,
) -> None:
    """Store what a host does from noon on until a minute, in segments of half an hour.

    ``slower`` tells from and to which minute it does less of everything, and by which share.
    """
    draw = np.random.default_rng(zlib.crc32(host.encode()))
    at = np.arange(0, until * 60, PERIOD_S)
    rhythm = 1.0 + 0.3 * np.sin(at / 400.0)
    factor = np.ones(len(at))
    for begin, end, share in slower:
        factor[(at >= begin * 60) & (at < end * 60)] = 1.0 - share
    columns = {}
    for metric, (level, _, _) in LEVELS.items():
        own = 0.8 + 0.05 * (zlib.crc32(host.encode()) % 9) if metric == "power.energy" else rhythm * factor
        columns[metric] = level * own * draw.normal(1.0, noise, len(at))
    rows = SEGMENT_MINUTES * 60 // PERIOD_S
    for sequence, first in enumerate(range(0, len(at), rows)):
        part = {metric: values[first : first + rows] for metric, values in columns.items()}
        start = NOON + timedelta(seconds=int(at[first]))
        store.put_segment(_segment(host, start, part, sequence, facts))


def _segment(
    host: str, start: datetime, columns: Mapping[str, Any], sequence: int, facts: Mapping[str, Any] | None
) -> Segment:
    count = len(next(iter(columns.values())))
    ns = int(start.timestamp()) * 10**9 + np.arange(count, dtype=np.int64) * PERIOD_S * 10**9
    arrays = {
        "ts": pa.array(ns, pa.timestamp("ns", "UTC")),
        "mono": pa.array(ns - int(NOON.timestamp()) * 10**9 + 10**12),
        **{metric: pa.array(values.astype(np.float32)) for metric, values in columns.items()},
    }
    channels = [
        Channel(metric, metric, "", LEVELS[metric][2], "gauge", LEVELS[metric][1], "test", PERIOD_S * 1000)
        for metric in columns
    ]
    metadata = encode_metadata(
        host=host, boot="boot-1", sequence=sequence, facts=dict(facts or {}), channels=channels
    )
    buffer = io.BytesIO()
    pq.write_table(pa.table(arrays).replace_schema_metadata(metadata), buffer, compression="zstd")
    return Segment(host, start, "boot-1", sequence, buffer.getvalue(), count, len(channels))


def job(
    name: str, hosts: Sequence[str] = HOSTS, start: float = 0.0, end: float | None = 600.0, **more: Any
) -> Job:
    """Return a job from and to so many minutes after noon."""
    until = minutes(end) if end is not None else None
    seen = {"seen": minutes(start)} if end is None else {}
    return Job(name, f"train {name}", minutes(start), until, tuple(map(JobHost, hosts)), **{**seen, **more})


def scored(
    hosts: Sequence[str],
    start: float,
    end: float,
    *,
    incidents: Mapping[str, Sequence[str]] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return what scoring says of hosts over a range in minutes after noon."""
    return [
        {
            "host": host,
            "start": iso(minutes(start)),
            "end": iso(minutes(end)),
            "model": "m@1",
            "windows": 10,
            "incidents": list((incidents or {}).get(host, ())),
            "quarantined": [],
            "notes": [],
            "facts": dict(facts or {}),
            "regime": None,
            "skipped": "",
        }
        for host in hosts
    ]
