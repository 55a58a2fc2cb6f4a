"""Real segments, scores and incidents, small, for the tests of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from reveal_core.channels import Channel, split_name
from reveal_core.incidents import CauseFinding, Incident, MetricEvidence, SubsystemShare
from reveal_core.scores import Scores
from reveal_core.segment import Segment, encode_metadata

T0 = datetime(2026, 11, 29, 20, 15, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def ns(time: datetime) -> int:
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def channel(name: str, kind: str = "counter", unit: str = "jiffies") -> Channel:
    metric, instance = split_name(name)
    return Channel(name, metric, instance, "cpu", kind, unit, "test", 100)


def parquet(
    columns: Mapping[str, Any],
    channels: Sequence[Channel],
    metadata: Mapping[bytes, bytes] | None = None,
    **head: Any,
) -> bytes:
    given = {"host": "node-1", "boot": "b", "sequence": 0, "facts": {}, **head}
    found = encode_metadata(channels=channels, **given) if metadata is None else dict(metadata)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)).replace_schema_metadata(found), sink, compression="zstd")
    return sink.getvalue().to_pybytes()


def times(start: datetime, rows: int, step: timedelta = SECOND) -> pa.Array:
    return pa.array([ns(start + step * i) for i in range(rows)], pa.timestamp("ns", "UTC"))


def segment(
    start: datetime = T0,
    *,
    host: str = "node-1",
    rows: int = 10,
    sequence: int = 0,
    boot: str = "b00t-1d",
    step: timedelta = SECOND,
    values: Mapping[str, Any] | None = None,
    channels: Sequence[Channel] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Segment:
    """Return a segment of one sample a second; by default one counter that counts rows."""
    values = {"cpu.user/cpu0": np.arange(rows, dtype=np.int64)} if values is None else values
    channels = [channel(name) for name in values] if channels is None else channels
    mono = pa.array(range(rows), pa.int64())
    data = parquet(
        {"ts": times(start, rows, step), "mono": mono, **values},
        channels,
        host=host,
        boot=boot,
        sequence=sequence,
        facts=facts or {"seq": sequence},
    )
    return Segment(host, start, boot, sequence, data, rows, len(values))


def scores(start: datetime, windows: int, *, host: str = "node-1", fused: float = 1.0) -> Scores:
    begins = [start + SECOND * i for i in range(windows)]
    frame = pl.DataFrame(
        {
            "start": pl.Series(begins, dtype=pl.Datetime("ns", "UTC")),
            "end": pl.Series([b + 3 * SECOND for b in begins], dtype=pl.Datetime("ns", "UTC")),
            "coverage": [1.0] * windows,
            "score/zscore": [fused] * windows,
            "fused": [fused] * windows,
            "anomalous": [False] * windows,
        }
    )
    return Scores(host, frame, ("zscore",))


def incident(
    identity: str = "i-1", start: datetime = T0, *, host: str = "node-1", seconds: int = 20
) -> Incident:
    metric = MetricEvidence(
        metric="tcp.RetransSegs",
        instance="host",
        subsystem="network",
        unit="1/s",
        value=12.5,
        normal_low=0.0,
        normal_high=0.5,
        direction="up",
        share=0.7,
        first_moved_s=0.0,
        stands_for=("tcpext.TCPLostRetransmit",),
    )
    cause = CauseFinding(
        id="packet-loss",
        title="Packets are lost",
        subsystem="network",
        confidence=0.8,
        evidence=("12.5 retransmits/s",),
        against=(),
        explanation="why",
        fix="fix it",
        commands=("ss -ti",),
    )
    return Incident(
        id=identity,
        fingerprint="f",
        host=host,
        start=start,
        end=start + seconds * SECOND,
        severity=2,
        probability=1e-6,
        score=3.5,
        subsystem="network",
        subsystems=(SubsystemShare("network", 0.7), SubsystemShare("cpu", 0.3)),
        metrics=(metric,),
        causes=(cause,),
        windows=18,
        detectors={"zscore": 4.0},
    )
