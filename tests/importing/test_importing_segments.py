"""From chunks to segments: cells, order, periods, and what a reader makes of them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.collect.columns import MISSING
from reveal_core.importing.assemble import Assembler
from reveal_core.importing.findings import MOST_ENTRIES, Findings
from reveal_core.importing.names import Target, other_metric
from reveal_core.importing.types import Chunk, ImportedColumn, Layout
from reveal_core.segment import Segment
from reveal_core.timespec import from_ns, to_ns
from storage.store import Store

HOUR = 3600 * 10**9
BEGIN = to_ns(datetime(2026, 11, 29, 20, 0, tzinfo=UTC))


def layout(host: str = "node-1", identity: str = "file") -> Layout:
    gauge = ImportedColumn(other_metric("test", "level"), "", "test")
    slow = ImportedColumn(Target("gpu.temperature").stored()[0], "gpu0", "test")
    counter = ImportedColumn(Target("disk.reads", "counter").stored()[0], "sda", "test")
    return Layout(host, identity, {}, (gauge, slow), (counter,))


def chunk(of: Layout, ts: list[int], level: list[float] | None = None) -> Chunk:
    values = np.array(level if level is not None else ts, dtype=np.float32)
    slow = np.where(np.arange(len(ts)) % 10 == 0, 40.0, np.nan)
    return Chunk(of, np.array(ts), np.stack([values, slow.astype(np.float32)]), np.arange(len(ts))[None, :])


def assembled(chunks: list[Chunk]) -> tuple[list[Segment], Findings, Assembler]:
    findings = Findings()
    segments: list[Segment] = []
    assembler = Assembler(findings, segments.append)
    for one in chunks:
        assembler.add(one)
    assembler.end()
    return segments, findings, assembler


def test_segments_stay_within_the_hour_and_reading_gives_the_rows_again(tmp_path: Path) -> None:
    ts = [BEGIN + HOUR // 2 + second * 10**9 for second in range(0, 7200)]
    segments, findings, assembler = assembled([chunk(layout(), ts)])
    store = Store(str(tmp_path))
    for segment in segments:
        store.put_segment(segment)
        store.put_segment(segment)
    assert len(segments) == 3
    assert findings.skipped == []
    extent = store.extent("node-1")
    assert extent is not None
    read = store.read_telemetry("node-1", *extent)
    assert read.telemetry.frame.height == 7200
    assert read.quarantined == []
    channels = read.telemetry.channels
    assert channels["imported.test.level"].period_ms == 1000
    assert channels["gpu.temperature/gpu0"].period_ms == 10_000
    assert channels["disk.reads/sda"].kind == "counter"
    assert assembler.samples == 7200 * 2 + 720
    assert (from_ns(assembler.first_ns), assembler.last_ns - assembler.first_ns) == (
        from_ns(ts[0]),
        7199 * 10**9,
    )


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(40)), st.lists(st.integers(0, 39), max_size=10), st.integers(1, 7))
def test_any_order_gives_the_same_rows(order: list[int], again: list[int], pieces: int) -> None:
    """Rows over four hours in any order, some twice: each time once, with its first value."""
    moments = [BEGIN + number * HOUR // 10 for number in range(40)]
    rows = [*order, *again]
    of = layout()
    chunks = [
        chunk(of, [moments[row] for row in part], [float(row) for row in part])
        for part in np.array_split(np.array(rows), pieces)
        if len(part)
    ]
    segments, _, assembler = assembled(chunks)
    keys = {(segment.start, segment.boot, segment.sequence) for segment in segments}
    assert len(keys) == len(segments)
    frame = pl.concat([pl.read_parquet(io.BytesIO(s.data)) for s in segments], how="diagonal")
    values = dict(zip(frame["ts"].to_physical(), frame["imported.test.level"], strict=True))
    assert values == {moment: float(number) for number, moment in enumerate(moments)}
    assert assembler.first_ns == moments[0]


def test_files_of_one_host_that_begin_together_do_not_replace_each_other() -> None:
    one, other = (assembled([chunk(layout(identity=name), [BEGIN])])[0][0] for name in ("a", "b"))
    assert one.start == other.start
    assert (one.boot, one.sequence) != (other.boot, other.sequence)
    assert assembled([chunk(layout(identity="a"), [BEGIN])])[0][0].sequence == one.sequence


def test_what_cannot_be_a_sample_is_told() -> None:
    of = layout()
    bad = Chunk(
        of,
        np.array([BEGIN, BEGIN + 10**9, BEGIN + 2 * 10**9]),
        np.array([[1.0, np.inf, np.nan], [40.0, 900.0, np.nan]], dtype=np.float32),
        np.array([[5, -3, MISSING]]),
    )
    segments, findings, assembler = assembled([bad])
    assert {(e["item"], e["reason"].partition(" (")[0]) for e in findings.skipped} == {
        ("", "samples that are infinite"),
        ("gpu.temperature", "samples outside the range that the catalogue gives"),
        ("disk.reads", "samples outside the range that the catalogue gives"),
    }
    assert assembler.samples == 3
    assert len(segments) == 1


def test_a_column_that_stays_empty_is_told_once_a_file() -> None:
    of = layout()
    for_file = Chunk(
        of, np.array([BEGIN]), np.array([[1.0], [np.nan]], dtype=np.float32), np.array([[MISSING]])
    )
    _, findings, _ = assembled([for_file])
    assert [e["item"] for e in findings.skipped] == ["disk.reads", "gpu.temperature"]


def test_findings_are_bounded() -> None:
    findings = Findings()
    for number in range(MOST_ENTRIES + 50):
        findings.skip("a reason", item=f"item {number}", line=3)
        findings.skip("a reason", item="item 0")
    assert len(findings.skipped) == MOST_ENTRIES + 1
    assert findings.skipped[0]["item"] == f"item 0, line 3, and {MOST_ENTRIES + 50} more"
    assert findings.skipped[-1]["item"] == "50 more"


@pytest.mark.parametrize(("period_s", "window_s"), [(1, 3), (15, 45), (60, 180)])
def test_windows_of_the_data_s_own_pace_are_covered(tmp_path: Path, period_s: int, window_s: int) -> None:
    from reveal_core.method import build_series, build_windows
    from reveal_core.profiles import load_profile

    ts = [BEGIN + number * period_s * 10**9 for number in range(100)]
    store = Store(str(tmp_path))
    for segment in assembled([chunk(layout(), ts, [float(n % 7) for n in range(100)])])[0]:
        store.put_segment(segment)
    extent = store.extent("node-1")
    assert extent is not None
    series = build_series(store.read_telemetry("node-1", *extent).telemetry)
    profile = load_profile("default", {"window_s": float(window_s), "stride_s": float(period_s)})
    windows = build_windows(series, profile)
    assert windows.frame["coverage"].min() == 1.0
    assert windows.frame["telemetry.coverage.test:value:level"].min() == 1.0
    assert windows.frame["imported.test.level:value:level"].null_count() == 0
