"""Telemetry of a host that does not exist, as large as wanted, as the collector would have written it.

For benches: its values are drawn and follow a job's rhythm; nothing about detection can be learned from them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from reveal_core.catalog import Metric, load_catalog
from reveal_core.collect.columns import MISSING, Column
from reveal_core.collect.segments import Batch, Block, encode_batch
from reveal_core.segment import Segment

PERIOD_MS = 100
_PER_SECOND = 1000 // PERIOD_MS
_CORES, _DISKS, _INTERFACES = 48, 8, 4
_PER_CORE = ("cpu.user", "cpu.system", "cpu.idle", "cpu.iowait", "softirq.NET_RX", "softirq.TIMER")
_PER_DISK = ("disk.reads", "disk.writes", "disk.read_ms", "disk.write_ms", "disk.io_ms")
_PER_INTERFACE = ("netdev.rx_bytes", "netdev.tx_bytes", "netdev.rx_packets", "netdev.tx_packets")
_OF_THE_HOST = ("vmstat", "meminfo", "stat", "tcp", "udp", "ip", "psi")
_JOB_S = 7.0
"""Length of a step of the job that the host seems to run."""

Span = tuple[float, float]


@dataclass(frozen=True)
class SampleHost:
    """A host with a given number of channels, all sampled at 10 Hz.

    Attributes
    ----------
    name
        Its label.
    start
        Its first sample, UTC.
    channels
        How many.
    seed
        Of its values.
    faults
        Seconds from the start, in which its cores are full and its group is held back.
    missing
        Share of its reads that each source loses.
    """

    name: str
    start: datetime
    channels: int = 700
    seed: int = 0
    faults: Sequence[Span] = ()
    missing: float = 0.0005

    def columns(self) -> list[Column]:
        """Return what the host is sampled for, in order."""
        catalog = load_catalog()
        wanted = [("cgroup.nr_throttled", "job"), ("cgroup.throttled_time", "job")]
        wanted += [(metric, f"cpu{core}") for core in range(_CORES) for metric in _PER_CORE]
        wanted += [(metric, f"nvme{disk}n1") for metric in _PER_DISK for disk in range(_DISKS)]
        wanted += [(metric, f"eth{card}") for metric in _PER_INTERFACE for card in range(_INTERFACES)]
        wanted += [(name, "") for name in catalog if name.partition(".")[0] in _OF_THE_HOST]
        known = [(catalog[metric], instance) for metric, instance in wanted if metric in catalog]
        return [Column(m.channel(i, _source(m), PERIOD_MS), m, 1.0) for m, i in known[: self.channels]]

    def segments(self, seconds: float, length_s: float = 60.0) -> list[Segment]:
        """Return the host's first ``seconds`` as segments of ``length_s``."""
        columns = self.columns()
        rng = np.random.default_rng(self.seed)
        rows = round(seconds * _PER_SECOND)
        samples = np.stack([self._samples(column.metric, rows, rng) for column in columns])
        sources = np.array([column.channel.source for column in columns])
        for source in dict.fromkeys(sources.tolist()):
            samples[np.ix_(sources == source, rng.random(rows) < self.missing)] = MISSING
        boot_ns = 10**12
        found = []
        for number, begin in enumerate(range(0, rows, round(length_s * _PER_SECOND))):
            part = samples[:, begin : begin + round(length_s * _PER_SECOND)]
            since = (np.arange(begin, begin + part.shape[1]) * PERIOD_MS * 10**6).astype(np.int64)
            start_ns = round(self.start.timestamp() * 1e9)
            batch = Batch(
                host=self.name,
                boot="sample",
                sequence=number,
                facts={"cpu": {"model": "Sample", "logical": _CORES}, "gpus": []},
                ts=array("q", (start_ns + since).tolist()),
                mono=array("q", (boot_ns + since).tolist()),
                blocks=[block_of(columns, part)],
            )
            found.append(encode_batch(batch))
        return found

    def end(self, seconds: float) -> datetime:
        """Return the time ``seconds`` after the start."""
        return self.start + timedelta(seconds=seconds)

    def _samples(self, metric: Metric, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        t = np.arange(rows) / _PER_SECOND
        rhythm = 1.0 + 0.3 * np.sin(2.0 * np.pi * t / _JOB_S)
        struck = np.zeros(rows, dtype=bool)
        for begin, end in self.faults:
            struck |= (t >= begin) & (t < end)
        if metric.kind == "counter":
            rate = np.where(struck, 9.0, 0.0) if metric.name.startswith("cgroup.") else 40.0 * rhythm
            if metric.event and not metric.name.startswith("cgroup."):
                rate = np.zeros(rows)
            if metric.name == "cpu.user":
                rate = np.where(struck, 99.0, 60.0 * rhythm)
            samples = 1000 + np.cumsum(rng.poisson(rate / _PER_SECOND))
        else:
            samples = (1000.0 * rhythm * (1.0 + 0.02 * rng.standard_normal(rows))).astype(np.int64)
        return samples


def _source(metric: Metric) -> str:
    return {"cpu": "stat", "softirq": "softirqs", "disk": "disks"}.get(
        metric.name.partition(".")[0], metric.name.partition(".")[0]
    )


def block_of(columns: Sequence[Column], samples: NDArray[np.int64]) -> Block:
    """Return samples, a row for each column, as the collector would hold them until it encodes."""
    packed = array("q", np.ascontiguousarray(samples.T).ravel().tobytes())
    return Block(columns=list(columns), ticks=list(range(samples.shape[1])), pieces=[(len(columns), packed)])
