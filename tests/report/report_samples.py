"""Hosts with faults, made from a seed: what the report's tests and its preview are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from reveal_core.channels import Channel, split_name
from reveal_core.incidents import CauseFinding, Incident, MetricEvidence, SubsystemShare
from reveal_core.report.model import HostInput, InjectedFault, ModelInfo, SourceNote
from reveal_core.scores import Scores
from reveal_core.telemetry import Series

START = datetime(2026, 11, 29, 20, 12, tzinfo=UTC)
END = START + timedelta(seconds=420)
CREATED = datetime(2026, 11, 29, 20, 20, 3, tzinfo=UTC)
NS = pl.Datetime("ns", "UTC")
DETECTORS = ("zscore", "mahalanobis", "forest", "sparse")
CHANNELS = {  # name: (subsystem, unit, level, spread, source, period)
    "tcp.RetransSegs/reveal-lab": ("network", "/s", 0.8, 0.6, "netns", 100),
    "tcpext.TCPLostRetransmit/reveal-lab": ("network", "/s", 0.05, 0.05, "netns", 100),
    "net.rx_bytes/reveal-lab:veth1": ("network", "B/s", 11.2e6, 1.5e6, "net", 100),
    "cpu.busy/cpu0": ("cpu", "%", 42, 9, "cpu", 100),
    "cpu.busy/cpu1": ("cpu", "%", 39, 9, "cpu", 100),
    "psi.cpu_some": ("cpu", "%", 3, 1.5, "psi", 200),
    "vmstat.pgfault": ("memory", "/s", 5200, 700, "vmstat", 100),
    "disk.write_sectors/vda": ("storage", "B/s", 3.1e6, 1.8e6, "disk", 100),
    "meminfo.Dirty": ("memory", "B", 42e6, 9e6, "meminfo", 1000),
}


def evidence(name: str, value: float, share: float, moved: float | None, **more: object) -> MetricEvidence:
    subsystem, unit, level, spread, _, _ = CHANNELS.get(name, ("cpu", "%", 1.0, 0.5, "cpu", 100))
    metric, instance = split_name(name)
    fields = {
        "metric": metric,
        "instance": instance,
        "subsystem": subsystem,
        "unit": unit,
        "value": value,
        "normal_low": max(level - 2 * spread, 0.0),
        "normal_high": level + 2 * spread,
        "direction": "up" if value > level else "down",
        "share": share,
        "first_moved_s": moved,
    }
    return MetricEvidence(**{**fields, **more})  # type: ignore[arg-type]


LOSS = CauseFinding(
    id="packet-loss",
    title="Packets are lost on the way",
    subsystem="network",
    confidence=0.86,
    evidence=(
        "TCP retransmits of namespace reveal-lab rose to 310 /s (normal 0 to 2 /s)",
        "Retransmits were lost again: 41 /s (normal 0 to 0.2 /s)",
        "Received bytes fell to 2.1 MB/s (normal 8.2 to 14.2 MB/s)",
    ),
    against=("No interface counts a drop or an error",),
    explanation="Segments had to be sent again because they, or their acknowledgements, did not arrive. "
    "The job waits for its gradient exchange meanwhile, so the CPU is less busy than usual.",
    fix="Find the hop that drops: compare the counters of both ends, then those of the switch port between.",
    commands=(
        "ip -s link show dev veth1",
        "nft list ruleset | grep -n drop",
        "ethtool -S eth0 | grep -i drop",
    ),
    checks=("ss -ti state established | grep -c retrans",),
    same_signals=("bandwidth-cap", "link-flap"),
    caveat="A flapping or capped link shows the same counters on this host.",
)
HOG = CauseFinding(
    id="cpu-contention",
    title="Other processes compete for the CPU",
    subsystem="cpu",
    confidence=0.74,
    evidence=(
        "CPU pressure rose to 61 % (normal 0 to 6 %)",
        "Busy time of cpu0 rose to 99 % (normal 24 to 60 %)",
    ),
    against=(),
    explanation="More threads want to run than there are cores.",
    fix="Move the other work elsewhere, or give the job cores of its own.",
    commands=("ps -eo pid,pcpu,comm --sort=-pcpu | head",),
)


def incident(
    number: int,
    second: float,
    length: float,
    subsystem: str,
    metrics: Sequence[MetricEvidence],
    causes=(),
    host="node-17",
) -> Incident:
    others = [name for name in ("cpu", "network", "memory", "storage") if name != subsystem]
    shares = (0.61, 0.22, 0.12, 0.05)
    return Incident(
        id=f"{host}-{number:04d}",
        fingerprint=f"f{number}",
        host=host,
        start=START + timedelta(seconds=second),
        end=START + timedelta(seconds=second + length),
        severity=3,
        probability=8.1e-6,
        score=7.43,
        subsystem=subsystem,
        subsystems=tuple(SubsystemShare(n, s) for n, s in zip([subsystem, *others], shares, strict=True)),
        metrics=tuple(metrics),
        causes=tuple(causes),
        windows=int(length),
        detectors={"zscore": 6.1, "mahalanobis": 7.4, "forest": 0.7, "sparse": 9.2},
    )


def faulty_incidents(host: str = "node-17") -> list[Incident]:
    return [
        incident(
            1,
            212.4,
            9.0,
            "network",
            [
                evidence("tcp.RetransSegs/reveal-lab", 310, 0.34, 0.0, stands_for=("tcpext.TCPFastRetrans",)),
                evidence("tcpext.TCPLostRetransmit/reveal-lab", 41, 0.22, 0.2),
                evidence("net.rx_bytes/reveal-lab:veth1", 2.1e6, 0.12, 0.4),
                evidence("cpu.busy/cpu1", 11, 0.1, 1.3),
                evidence("psi.cpu_some", 0.1, 0.05, None),
                evidence("vmstat.pgfault", 1900, 0.04, 1.9),
                evidence("irq.device/virtio1-req.0:cpu0", 12, 0.02, None, unit="/s", normal_low=50.0),
            ],
            [LOSS, HOG],
            host,
        ),
        incident(
            2,
            262.0,
            10.0,
            "cpu",
            [evidence("psi.cpu_some", 61, 0.4, 0.1), evidence("cpu.busy/cpu0", 99, 0.2, 0.0)],
            [HOG],
            host,
        ),
        incident(
            3,
            341.0,
            8.0,
            "storage",
            [evidence("disk.write_sectors/vda", 212e6, 0.5, 0.0), evidence("meminfo.Dirty", 910e6, 0.3, 0.6)],
            (),
            host,
        ),
    ]


def series(host: str = "node-17", seconds: int = 420, *, seed: int = 0, only_nulls: bool = False) -> Series:
    random = np.random.default_rng(seed)
    ticks = np.arange(seconds * 10)
    at = ticks / 10
    columns: dict[str, object] = {"ts": pl.Series([START], dtype=NS).dt.epoch("ns")[0] + ticks * 100_000_000}
    channels = {}
    for name, (subsystem, unit, level, spread, source, period) in CHANNELS.items():
        values = np.abs(level + spread * (0.6 * random.standard_normal(len(at)) + np.sin(at / 4)))
        for shown in faulty_incidents():
            for metric in shown.metrics:
                if f"{metric.metric}/{metric.instance}".rstrip("/") == name:
                    first = (shown.start - START).total_seconds() + (metric.first_moved_s or 1.0)
                    inside = (at >= first) & (at < (shown.end - START).total_seconds())
                    values[inside] = metric.value * (0.8 + 0.3 * random.random(inside.sum()))
        values[(ticks % (period // 100)) != 0] = np.nan
        if only_nulls:
            values[:] = np.nan
        columns[name] = values
        metric_name, instance = split_name(name)
        channels[name] = Channel(name, metric_name, instance, subsystem, "gauge", unit, source, period)
    frame = pl.DataFrame(columns).with_columns(pl.col("ts").cast(NS), pl.exclude("ts").fill_nan(None))
    return Series(host, frame.filter((pl.col("ts").dt.epoch("s") % 400 != 0) | only_nulls), channels)


def scores(
    host: str = "node-17", windows: int = 417, incidents: Sequence[Incident] = (), *, seed: int = 1
) -> Scores:
    random = np.random.default_rng(seed)
    start = pl.Series([START + timedelta(seconds=n) for n in range(windows)], dtype=NS)
    middle = np.arange(windows) + 1.5
    fused = 1.4 * np.exp(0.22 * random.standard_normal(windows))
    for shown in incidents:
        first = (shown.start - START).total_seconds()
        inside = (middle > first - 1) & (middle < (shown.end - START).total_seconds() + 1)
        fused[inside] = 3.4 * shown.score * (0.5 + 0.5 * random.random(inside.sum()))
    coverage = np.ones(windows)
    coverage[120:131] = 0.0
    frame = pl.DataFrame(
        {
            "start": start,
            "end": start.dt.offset_by("3s"),
            "coverage": coverage,
            "fused": np.where(coverage > 0, fused, np.nan),
            "probability": np.full(windows, 0.3),
            "threshold": np.full(windows, 3.4),
            "severity": np.zeros(windows, dtype=np.int64),
            "anomalous": fused > 3.4,
        },
    ).with_columns(pl.col("fused").fill_nan(None))
    return Scores(host, frame, DETECTORS)


SOURCES = (
    SourceNote("cpu", True, "", 44),
    SourceNote("netns", True, "2 namespaces", 96),
    SourceNote("net", True, "", 24),
    SourceNote("psi", True, "", 4),
    SourceNote("vmstat", True, "", 88),
    SourceNote("meminfo", True, "", 52),
    SourceNote("disk", True, "", 17),
    SourceNote("thermal", False, "no zone under /sys/class/thermal", 0),
    SourceNote("power", False, "no domain under /sys/class/powercap: this is a virtual machine", 0),
)
FACTS = {
    "cpu_model": "AMD EPYC 9B14",
    "cpus": 2,
    "numa_nodes": 1,
    "kernel": "6.18.0",
    "boot_id": "5f0c9a6e",
    "nics": ["eth0", "veth0"],
}
MODEL = ModelInfo(
    name="reveal-2cpu-0gpu",
    version="3",
    profile="default",
    alias="champion",
    settings={
        "window": {"length_s": 3.0, "stride_s": 1.0},
        "fusion": "rms",
        "margin": 1.5,
        "floor": float("nan"),
    },
    trained_from=START - timedelta(minutes=6),
    trained_to=START - timedelta(seconds=30),
    windows=327,
    features=611,
)
FAULTS = (
    InjectedFault("packet-loss", "network", START + timedelta(seconds=211.6), START + timedelta(seconds=221)),
    InjectedFault("cpu-contention", "cpu", START + timedelta(seconds=261.2), START + timedelta(seconds=271)),
    InjectedFault(
        "huge-pages-reserved", "memory", START + timedelta(seconds=300), START + timedelta(seconds=308)
    ),
    InjectedFault(
        "writeback-storm", "storage", START + timedelta(seconds=339.7), START + timedelta(seconds=349)
    ),
)
NOTES = (
    "The threshold is provisional: 5 minutes of healthy telemetry cannot calibrate a daily alarm budget, so "
    "it is 1.5 times the healthy maximum.",
)


def host_input(
    host: str = "node-17", incidents: Sequence[Incident] | None = None, **more: object
) -> HostInput:
    found = faulty_incidents(host) if incidents is None else list(incidents)
    fields = {
        "host": host,
        "series": series(host),
        "scores": scores(host, incidents=found),
        "incidents": found,
        "facts": FACTS,
        "start": START,
        "end": END,
        "sources": SOURCES,
    }
    return HostInput(**{**fields, **more})  # type: ignore[arg-type]
