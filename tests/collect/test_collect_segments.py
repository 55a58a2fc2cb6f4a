"""Segments: what is written, opened again by plain Polars."""

from __future__ import annotations

import io
from array import array

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.segments import Batch, Block, encode_batch, pack
from reveal_core.segment import Segment, decode_metadata

START = 1_764_446_400_123_456_789


def columns_of(source: str = "test") -> Columns:
    return Columns(source, 100, load_catalog(), load_left_out())


def slot_of(columns: Columns, metric: str, instance: str = "", scale: float = 1.0) -> int:
    slot = columns.add(metric, instance, scale)
    assert slot is not None
    return slot


def batch_of(blocks: list[Block], rows: int, sequence: int = 0) -> Batch:
    ts = array("q", [START + 100_000_000 * row for row in range(rows)])
    mono = array("q", [5_000_000_000 + 100_000_000 * row for row in range(rows)])
    return Batch("node-1", "boot-1", sequence, {"cpu": {"model": "test"}}, ts, mono, blocks)


def frame(segment: Segment) -> pl.DataFrame:
    return pl.read_parquet(io.BytesIO(segment.data))


def test_plain_polars_reads_it_back() -> None:
    columns = columns_of()
    user, free = slot_of(columns, "cpu.user", "cpu0"), slot_of(columns, "meminfo.MemFree", "", 1024)
    block = Block()
    for row in range(3):
        columns.row[user], columns.row[free] = 10 + row, 1000 * row
        block.append(row, columns.row)
    block.seal(columns)
    segment = encode_batch(batch_of([block], 3))
    table = frame(segment)
    assert table.columns == ["ts", "mono", "cpu.user/cpu0", "meminfo.MemFree"]
    assert table.schema["ts"] == pl.Datetime("ns", "UTC")
    assert table.schema["cpu.user/cpu0"] == pl.Int64
    assert table.schema["meminfo.MemFree"] == pl.Float32
    assert table["ts"].to_physical().to_list() == [START, START + 100_000_000, START + 200_000_000]
    assert table["mono"].to_list() == [5_000_000_000, 5_100_000_000, 5_200_000_000]
    assert table["cpu.user/cpu0"].to_list() == [10, 11, 12]
    assert table["meminfo.MemFree"].to_list() == [0.0, 1_024_000.0, 2_048_000.0]
    assert (segment.rows, segment.columns, segment.host, segment.boot) == (3, 2, "node-1", "boot-1")
    assert segment.start.isoformat() == "2025-11-29T20:00:00.123456+00:00"


def test_it_explains_itself() -> None:
    columns = columns_of()
    slot_of(columns, "cpu.user", "cpu0")
    block = Block()
    block.append(0, columns.row)
    block.seal(columns)
    segment = encode_batch(batch_of([block], 1, sequence=7))
    head, channels = decode_metadata(pq.read_metadata(io.BytesIO(segment.data)).metadata)
    assert (head["host"], head["boot"], head["seq"]) == ("node-1", "boot-1", 7)
    assert head["facts"]["cpu"]["model"] == "test"
    assert head["periods_ms"] == {"test": 100}
    assert [(c.name, c.subsystem, c.kind, c.unit) for c in channels] == [
        ("cpu.user/cpu0", "cpu", "counter", "jiffies")
    ]


def test_counters_are_delta_encoded_and_gauges_split() -> None:
    columns = columns_of()
    slot_of(columns, "cpu.user", "cpu0")
    slot_of(columns, "stat.procs_running")
    block = Block()
    for row in range(50):
        columns.row[:] = [row, row]
        block.append(row, columns.row)
    block.seal(columns)
    group = pq.read_metadata(io.BytesIO(encode_batch(batch_of([block], 50)).data)).row_group(0)
    by_name = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in by_name["cpu.user/cpu0"].encodings
    assert "BYTE_STREAM_SPLIT" in by_name["stat.procs_running"].encodings
    assert {column.compression for column in by_name.values()} == {"ZSTD"}


def test_a_channel_that_appears_is_null_before_and_one_that_goes_is_null_after() -> None:
    columns = columns_of()
    old = slot_of(columns, "cpu.user", "cpu0")
    block = Block()
    columns.row[old] = 1
    block.append(0, columns.row)
    new = slot_of(columns, "cpu.user", "cpu1")
    columns.row[new] = 2
    block.append(1, columns.row)
    columns.retire([old])
    block.append(2, columns.row)
    block.seal(columns)
    table = frame(encode_batch(batch_of([block], 3)))
    assert table["cpu.user/cpu0"].to_list() == [1, 1, None]
    assert table["cpu.user/cpu1"].to_list() == [None, 2, 2]
    following = Block()
    following.append(0, columns.row)
    following.seal(columns)
    assert frame(encode_batch(batch_of([following], 1))).columns == ["ts", "mono", "cpu.user/cpu1"]


def test_a_channel_that_gave_nothing_but_is_there_has_a_column_of_nulls() -> None:
    columns = columns_of()
    slot_of(columns, "cpu.user", "cpu0")
    block = Block()
    block.append(0, columns.row)
    block.seal(columns)
    assert frame(encode_batch(batch_of([block], 1)))["cpu.user/cpu0"].to_list() == [None]


def test_slow_sources_leave_nulls_between_their_reads_and_coverage_counts_reads_only() -> None:
    columns = columns_of("slow")
    free, used = slot_of(columns, "numa.MemFree", "node0"), slot_of(columns, "numa.MemUsed", "node0")
    block = Block(coverage=load_catalog()["reveal.coverage"].channel("slow", "reveal", 200))
    for row in (0, 2):
        columns.row[free], columns.row[used] = row, MISSING
        block.append(row, columns.row)
    block.seal(columns)
    table = frame(encode_batch(batch_of([block], 4)))
    assert table["numa.MemFree/node0"].to_list() == [0.0, None, 2.0, None]
    assert table["reveal.coverage/slow"].to_list() == [50.0, None, 50.0, None]


@pytest.mark.parametrize(
    ("metric", "raw", "stored"),
    [
        ("thermal.temperature", 55_000, 55.0),
        ("thermal.temperature", 250_000, None),  # no sensor of a running machine
        ("thermal.temperature", -274_000, None),
        ("cpu.frequency", 0, None),
        ("cpu.user", -1, None),  # a counter is never below zero
        ("cpu.user", 2**63 - 1, 2**63 - 1),
        ("cpu.user", MISSING, None),
        ("stat.procs_running", -1, None),
    ],
)
def test_values_out_of_range_are_missing(metric: str, raw: int, stored: float | None) -> None:
    columns = columns_of()
    columns.row[slot_of(columns, metric, "x", 1e-3 if metric != "cpu.user" else 1.0)] = raw
    block = Block()
    block.append(0, columns.row)
    block.seal(columns)
    assert frame(encode_batch(batch_of([block], 1)))[f"{metric}/x"].to_list() == [stored]


@given(st.lists(st.integers(-(2**70), 2**70), max_size=20))
def test_packing_never_fails_and_keeps_what_fits(row: list[int]) -> None:
    assert pack(row).tolist() == [value if -(2**63) <= value < 2**63 else MISSING for value in row]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.lists(st.one_of(st.none(), st.integers(0, 2**62)), min_size=6, max_size=6)
        ),
        min_size=1,
        max_size=12,
    )
)
def test_any_course_of_growing_columns_comes_back(course: list[tuple[int, list[int | None]]]) -> None:
    columns, block = columns_of(), Block()
    expected: dict[str, list[int | None]] = {}
    for row, (grow, samples) in enumerate(course):
        for _ in range(grow):
            if len(columns.slots) < 6:
                name = f"cpu{len(columns.slots)}"
                slot_of(columns, "cpu.user", name)
                expected[f"cpu.user/{name}"] = [None] * row
        columns.row[:] = [MISSING if s is None else s for s in samples[: len(columns.row)]]
        block.append(row, columns.row)
        for known, sample in zip(expected.values(), samples, strict=False):
            known.append(sample)
    block.seal(columns)
    table = frame(encode_batch(batch_of([block], len(course))))
    assert {name: table[name].to_list() for name in table.columns[2:]} == expected


def test_the_same_samples_give_the_same_bytes() -> None:
    rng = np.random.default_rng(1)
    samples = rng.integers(0, 1000, size=(20, 4)).tolist()
    encoded = []
    for _ in range(2):
        columns, block = columns_of(), Block()
        for core in range(4):
            slot_of(columns, "cpu.user", f"cpu{core}")
        for row, values in enumerate(samples):
            block.append(row, values)
        block.seal(columns)
        encoded.append(encode_batch(batch_of([block], 20)).data)
    assert encoded[0] == encoded[1]
