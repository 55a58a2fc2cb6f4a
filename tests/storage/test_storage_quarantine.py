from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from storage_parts import SECOND, T0, channel, parquet, segment, times

import reveal_core.segment
from reveal_core.errors import UsageError
from reveal_core.segment import CHANNELS_KEY, FACTS_KEY, encode_metadata
from storage.decode import decode_segment
from storage.store import Store

END = T0.replace(hour=21)
CHANNELS = [channel("a")]
COLUMNS = {"ts": times(T0, 10), "mono": pa.array(range(10)), "a": pa.array(range(10))}
METADATA = encode_metadata(host="node-1", boot="b", sequence=0, facts={}, channels=CHANNELS)


def other_schema() -> bytes:
    head = METADATA[FACTS_KEY].replace(b'"schema":1', b'"schema":999')
    assert head != METADATA[FACTS_KEY]
    return parquet(COLUMNS, CHANNELS, {**METADATA, FACTS_KEY: head})


BAD = {
    "empty": (b"", "header and footer"),
    "text": (b"this is no Parquet file, but a note of somebody\n" * 9, "must end with PAR1"),
    "no metadata": (parquet(COLUMNS, CHANNELS, {}), "Reveal metadata is missing"),
    "half the metadata": (
        parquet(COLUMNS, CHANNELS, {FACTS_KEY: METADATA[FACTS_KEY]}),
        "metadata is missing",
    ),
    "garbled head": (parquet(COLUMNS, CHANNELS, {**METADATA, FACTS_KEY: b"{"}), "malformed"),
    "head of another form": (parquet(COLUMNS, CHANNELS, {**METADATA, FACTS_KEY: b"[1]"}), "not known"),
    "garbled channel table": (parquet(COLUMNS, CHANNELS, {**METADATA, CHANNELS_KEY: b"eJw="}), "malformed"),
    "deep nesting": (parquet(COLUMNS, CHANNELS, {**METADATA, FACTS_KEY: b"[" * 100_000}), "recursion"),
    "facts of another form": (parquet(COLUMNS, CHANNELS, facts=[]), "."),
    "another schema": (other_schema(), "schema 999 is not known"),
    "no ts": (parquet({"mono": COLUMNS["mono"], "a": COLUMNS["a"]}, CHANNELS), "column ts is missing"),
    "no mono": (parquet({"ts": COLUMNS["ts"], "a": COLUMNS["a"]}, CHANNELS), "column mono is missing"),
    "ts without zone": (
        parquet({**COLUMNS, "ts": COLUMNS["ts"].cast(pa.timestamp("ns"))}, CHANNELS),
        "not a time in UTC",
    ),
    "ts a number": (parquet({**COLUMNS, "ts": COLUMNS["mono"]}, CHANNELS), "not a time in UTC"),
    "a missing time": (
        parquet({**COLUMNS, "ts": pa.array([None] * 10, pa.timestamp("ns", "UTC"))}, CHANNELS),
        "missing times",
    ),
    "text for numbers": (parquet({**COLUMNS, "a": pa.array(["x"] * 10)}, CHANNELS), "which no sample can be"),
    "beyond int64": (
        parquet({**COLUMNS, "a": pa.array([2**63] * 10, pa.uint64())}, CHANNELS),
        "conversion from `u64` to `i64` failed",
    ),
    "a column of no channel": (parquet({**COLUMNS, "b": COLUMNS["a"]}, CHANNELS), "not in the channel table"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_file_is_put_aside_and_the_run_goes_on(local_store: Store, kind: str) -> None:
    data, says = BAD[kind]
    if kind == "facts of another form":
        data = parquet(
            COLUMNS, CHANNELS, {**METADATA, FACTS_KEY: METADATA[FACTS_KEY].replace(b"{}", b"[]", 1)}
        )
        says = "facts are no mapping"
    put_aside(local_store, data, says)


@pytest.mark.parametrize("kind", ["empty", "text"])
def test_a_bad_file_is_put_aside_everywhere(store: Store, kind: str) -> None:
    put_aside(store, *BAD[kind])


def put_aside(store: Store, data: bytes, says: str) -> None:
    good = store.put_segment(segment())
    bad = store.put_segment(segment(T0 + 60 * SECOND, sequence=1))
    store.backend.write(bad, data)
    found = store.read_telemetry("node-1", T0, END)
    assert found.telemetry.frame.height == 10
    assert found.segments == [good]
    assert [(q.key, q.moved) for q in found.quarantined] == [(bad, True)]
    reason = found.quarantined[0].reason
    assert "\n" not in reason
    assert store.backend.read(f"quarantine/{bad}.reason.txt") == f"{reason}\n".encode()
    assert store.backend.read(f"quarantine/{bad}") == data
    assert store.backend.read(bad) is None
    with pytest.raises(ValueError, match=says) as caught:
        decode_segment(data)
    assert str(caught.value) == reason
    again = store.read_telemetry("node-1", T0, END)
    assert (again.segments, again.quarantined) == ([good], [])


def test_no_cut_of_a_segment_passes_for_one() -> None:
    """Cut at every length near the ends and at many between, it is refused and never crashes."""
    data = segment(values={f"c{n}": np.arange(10) for n in range(20)}).data
    between = random.Random(0).sample(range(100, len(data) - 100), 150)
    for length in [*range(100), *between, *range(len(data) - 100, len(data))]:
        with pytest.raises(ValueError):
            decode_segment(data[:length])
    assert decode_segment(data).frame.height == 10


def test_damage_in_the_middle_is_found_or_harmless() -> None:
    """A flipped byte within compressed samples is refused; none brings anything but ValueError."""
    data = segment(rows=500, values={"a": np.random.default_rng(0).integers(0, 2**60, 500)}).data
    refused = 0
    for place in range(8, 2000, 40):
        damaged = data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]
        try:
            decode_segment(damaged)
        except ValueError:
            refused += 1
    assert refused > 0


def test_a_parquet_file_of_another_name_is_put_aside(local_store: Store) -> None:
    key = local_store.put_segment(segment())
    odd = f"{key.rpartition('/')[0]}/copy.parquet"
    local_store.backend.write(odd, segment().data)
    found = local_store.read_telemetry("node-1", T0, END)
    assert [(q.key, q.reason) for q in found.quarantined] == [(odd, "its name is not a segment's")]
    assert found.telemetry.frame.height == 10


def test_a_host_of_nothing_but_bad_files(local_store: Store) -> None:
    bad = local_store.put_segment(segment())
    local_store.backend.write(bad, b"x")
    with pytest.raises(
        UsageError, match=r"holds no telemetry \(1 files cannot be read; the first is telemetry/"
    ):
        local_store.read_telemetry("node-1", T0, END)
    assert local_store.hosts() == []
    assert local_store.extent("node-1") is None


def test_the_extent_looks_past_bad_files(local_store: Store) -> None:
    local_store.put_segment(segment(T0 + 60 * SECOND, sequence=1))
    for start, sequence in ((T0, 0), (T0 + 120 * SECOND, 2)):
        local_store.backend.write(local_store.put_segment(segment(start, sequence=sequence)), b"x")
    extent = local_store.extent("node-1")
    assert extent is not None
    assert [int((t - T0).total_seconds()) for t in extent] == [60, 69]


def test_a_file_that_somebody_else_moved_meanwhile(
    local_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    local_store.put_segment(segment())
    gone = local_store.put_segment(segment(T0 + 60 * SECOND, sequence=1))
    read = local_store.backend.read
    monkeypatch.setattr(local_store.backend, "read", lambda key: None if key == gone else read(key))
    found = local_store.read_telemetry("node-1", T0, END)
    assert (found.telemetry.frame.height, found.quarantined) == (10, [])


def test_the_schema_that_is_written_is_the_one_that_is_read() -> None:
    assert f'"schema":{reveal_core.segment.SCHEMA_VERSION}'.encode() in METADATA[FACTS_KEY]
