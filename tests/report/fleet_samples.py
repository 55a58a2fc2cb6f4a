"""Wide hosts made from a seed, with faults: what the pages of fleets are drawn from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import polars as pl
from report_samples import NS

from reveal_core.channels import Channel, split_name
from reveal_core.incidents import CauseFinding, Incident, MetricEvidence, SubsystemShare
from reveal_core.report.model import HostInput, SourceNote, Trend
from reveal_core.scores import Scores
from reveal_core.telemetry import Series

START = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)
HOUR_S = 3600
CREATED = START + timedelta(seconds=HOUR_S + 41)
DETECTORS = ("zscore", "mahalanobis", "forest", "sparse", "coverage")
EMPTY = pl.DataFrame(schema={"ts": NS})
FACTS = {
    "cpu": {"model": "AMD EPYC 9554", "logical": 64},
    "gpus": [{"name": "H100"}] * 8,
    "kernel": "6.18.0",
    "memory_bytes": 1 << 40,
}
SCALES = {  # of every instance: subsystem, unit, level, spread, source
    "cpu.busy": ("cpu", "%", 41.0, 3.0, "stat"),
    "softirq.NET_RX": ("network", "/s", 900.0, 60.0, "softirqs"),
    "irq.busiest_core_share": ("cpu", "share", 0.06, 0.01, "interrupts"),
    "psi.cpu_some": ("cpu", "%", 2.0, 0.8, "pressure"),
    "gpu.utilization": ("gpu", "%", 96.0, 1.5, "gpu"),
    "gpu.clock_sm": ("gpu", "MHz", 1965.0, 8.0, "gpu"),
    "gpu.power": ("gpu", "W", 640.0, 14.0, "gpu"),
    "tcp.RetransSegs": ("network", "/s", 0.8, 0.4, "protocols"),
    "net.rx_bytes": ("network", "B/s", 2.4e9, 0.2e9, "netdev"),
    "disk.await": ("storage", "ms", 0.4, 0.05, "disks"),
    "meminfo.Dirty": ("memory", "B", 44e6, 8e6, "meminfo"),
    "psi.memory_some": ("memory", "%", 0.4, 0.2, "pressure"),
}
WIDE = {
    "cpu.busy": [f"cpu{n}" for n in range(64)],
    "softirq.NET_RX": [f"cpu{n}" for n in range(64)],
    "gpu.utilization": [f"GPU-{n}" for n in range(8)],
    "gpu.clock_sm": [f"GPU-{n}" for n in range(8)],
    "gpu.power": [f"GPU-{n}" for n in range(8)],
    "net.rx_bytes": ["eth0", "eth1"],
    "disk.await": ["nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"],
    "tcp.RetransSegs": ["host"],
}


@dataclass(frozen=True)
class Fault:
    """A fault of a sample: what moved to which value, from when on and how long, in seconds."""

    begin: float
    length: float
    subsystem: str
    moved: Mapping[str, float]
    cause: CauseFinding | None = None
    score: float = 6.2
    severity: int = 3
    state: str = "resolved"


def series(host: str, faults: Sequence[Fault] = (), seconds: int = HOUR_S, *, cores: int = 64) -> Series:
    """Return a sample a second of every channel of a host."""
    random = np.random.default_rng(sum(host.encode()))
    at = np.arange(seconds, dtype=np.float64)
    columns: dict[str, object] = {
        "ts": pl.Series([START], dtype=NS).dt.epoch("ns")[0] + (at * 1e9).astype(np.int64)
    }
    channels = {}
    for metric, (subsystem, unit, level, spread, source) in SCALES.items():
        wide = (
            [f"cpu{n}" for n in range(cores)]
            if WIDE.get(metric, [""])[0] == "cpu0"
            else WIDE.get(metric, [""])
        )
        for instance in wide:
            name = f"{metric}/{instance}" if instance else metric
            wave = np.sin(at / 9 + random.uniform(0, 6))
            columns[name] = np.abs(level + spread * (0.5 * random.standard_normal(seconds) + wave))
            channels[name] = Channel(name, metric, instance, subsystem, "gauge", unit, source, 1000)
    for fault in faults:
        inside = (at >= fault.begin) & (at < fault.begin + fault.length)
        for name, value in fault.moved.items():
            columns[name][inside] = value * (0.96 + 0.08 * random.random(inside.sum()))
    return Series(host, pl.DataFrame(columns).with_columns(pl.col("ts").cast(NS)), channels)


def scores(
    host: str, faults: Sequence[Fault] = (), seconds: int = HOUR_S, silent: Sequence[tuple[int, int]] = ()
) -> Scores:
    """Return the scores of a host's windows; ``silent`` are stretches without telemetry, in seconds."""
    random = np.random.default_rng(1 + sum(host.encode()))
    count = seconds - 3
    at = np.arange(count) + 1.5
    fused = 1.1 * np.exp(0.28 * random.standard_normal(count))
    for fault in faults:
        inside = (at > fault.begin - 1) & (at < fault.begin + fault.length + 1)
        fused[inside] = 3.4 * fault.score * (0.55 + 0.45 * random.random(inside.sum()))
    coverage = np.ones(count)
    for begin, end in silent:
        coverage[(at >= begin) & (at < end)] = 0.0
    start = pl.Series([START], dtype=NS).dt.epoch("ns")[0] + (np.arange(count) * 1_000_000_000)
    frame = pl.DataFrame(
        {"start": start, "end": start + 3_000_000_000, "coverage": coverage, "fused": fused}
    ).with_columns(
        pl.col("start", "end").cast(NS),
        pl.when(pl.col("coverage") > 0).then(pl.col("fused")).alias("fused"),
        probability=pl.lit(0.3),
        threshold=pl.lit(3.4),
        severity=pl.lit(0),
        anomalous=pl.col("fused") > 3.4,
    )
    return Scores(host, frame, DETECTORS)


def incident(host: str, fault: Fault, number: int = 1) -> Incident:
    """Return the incident of a fault."""
    others = [name for name in ("network", "cpu", "gpu", "storage") if name != fault.subsystem][:3]
    shares = (0.67, 0.19, 0.1, 0.04)
    metrics = [_evidence(n, name, value, fault) for n, (name, value) in enumerate(fault.moved.items())]
    return Incident(
        id=f"{host}-{number:04d}",
        fingerprint=f"{host}/{fault.subsystem}",
        host=host,
        start=START + timedelta(seconds=fault.begin + 0.4),
        end=START + timedelta(seconds=fault.begin + fault.length),
        severity=fault.severity,
        probability=2.4e-6,
        score=fault.score,
        subsystem=fault.subsystem,
        subsystems=tuple(
            SubsystemShare(name, share)
            for name, share in zip([fault.subsystem, *others], shares, strict=True)
        ),
        metrics=tuple(metrics),
        causes=(fault.cause,) if fault.cause else (),
        windows=int(fault.length),
        state=fault.state,
    )


def _evidence(place: int, name: str, value: float, fault: Fault) -> MetricEvidence:
    metric, instance = split_name(name)
    subsystem, unit, level, spread, _ = SCALES[metric]
    return MetricEvidence(
        metric=metric,
        instance=instance,
        subsystem=subsystem,
        unit=unit,
        value=value,
        normal_low=max(level - 2 * spread, 0.0),
        normal_high=level + 2 * spread,
        direction="up" if value > level else "down",
        share=0.5 / (place + 1),
        first_moved_s=0.0 if place == 0 else 0.4 * place,
        part="max" if instance and value > level else "value",
        role="" if fault.cause is None else "cause" if subsystem == fault.subsystem else "symptom",
    )


def _sources() -> list[SourceNote]:
    counts: Counter[str] = Counter()
    for metric, (*_, source) in SCALES.items():
        counts[source] += len(WIDE.get(metric, [""]))
    here = [SourceNote(source, True, "", count) for source, count in sorted(counts.items())]
    return [*here, SourceNote("power", False, "no domain under /sys/class/powercap", 0)]


def host_input(
    host: str,
    faults: Sequence[Fault] = (),
    seconds: int = HOUR_S,
    *,
    silent: Sequence[tuple[int, int]] = (),
    sampled: bool = True,
    cores: int = 64,
) -> HostInput:
    """Return a host; without ``sampled`` its series is empty, as that of a quiet host of a large fleet."""
    return HostInput(
        host=host,
        series=series(host, faults, seconds, cores=cores) if sampled else Series(host, EMPTY, {}),
        scores=scores(host, faults, seconds, silent),
        incidents=[incident(host, fault, n) for n, fault in enumerate(faults, 1)],
        facts=FACTS,
        start=START,
        end=START + timedelta(seconds=seconds),
        sources=_sources(),
    )


def trend(days: int = 14, hosts: int = 50) -> Trend:
    """Return two quiet weeks and today."""
    last = date(2026, 11, 29)
    counts = (3, 1, 0, 2, 4, 0, 0, 1, 71, 5, 2, 0, 3, 19)[-days:]
    return Trend(
        days=tuple(last - timedelta(days=days - 1 - n) for n in range(days)),
        counts=counts if hosts > 1 else (0, 1, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0)[-days:],
        host_days=(*(float(hosts),) * (days - 1), 0.9 * hosts),
        budget=1.0,
    )
