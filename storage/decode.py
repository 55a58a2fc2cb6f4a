"""Decoding one telemetry segment: from the bytes of a file to a checked table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from reveal_core.channels import Channel
from reveal_core.segment import decode_metadata
from storage.layout import to_utc

TIME_COLUMNS = ("ts", "mono")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class DecodedSegment:
    """A segment's table with what its metadata says; ``channels`` by column name, only those in ``frame``."""

    frame: pl.DataFrame
    channels: dict[str, Channel]
    facts: dict[str, Any]


def to_ns(time: datetime) -> int:
    """Return ns since 1970 of an aware time, held within what int64 can say."""
    microseconds = (to_utc(time) - EPOCH) // timedelta(microseconds=1)
    return max(-_INT64_MAX, min(_INT64_MAX, microseconds * 1000))


def _target_type(name: str, kind: str, given: pa.DataType) -> pa.DataType:
    if name == "ts":
        if not pa.types.is_timestamp(given) or given.tz is None:
            raise ValueError(f"column ts is {given}, not a time in UTC")
        return pa.timestamp("ns", "UTC")
    if pa.types.is_integer(given) or pa.types.is_boolean(given):
        return pa.int64()
    if name != "mono" and pa.types.is_floating(given):
        return pa.float32() if pa.types.is_float16(given) else given
    if name != "mono" and pa.types.is_null(given):
        return pa.int64() if kind == "counter" else pa.float32()
    raise ValueError(f"column {name} is {given}, which no sample can be")


def decode_segment(data: bytes, columns: Sequence[str] | None = None) -> DecodedSegment:
    """Return a segment's samples.

    Parameters
    ----------
    data
        The whole Parquet file.
    columns
        Channels to read; every one if not given. Those that the segment does not hold are left out.

    Raises
    ------
    ValueError
        If this is no Parquet file, is damaged, or is no segment of a known schema; one line says which.
    """
    try:
        with pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True) as file:
            head, table_of_channels = decode_metadata(file.metadata.metadata or {})
            schema = file.schema_arrow
            types = dict(zip(schema.names, schema.types, strict=True))
            kinds = _check_columns(schema.names, table_of_channels)
            asked = types.keys() if columns is None else {*TIME_COLUMNS, *columns}
            wanted = [name for name in schema.names if name in asked]
            target = pa.schema([(n, _target_type(n, kinds.get(n, ""), types[n])) for n in wanted])
            table = file.read(columns=None if columns is None else wanted)
            if columns is not None:
                table = table.select(wanted)
        if table.column("ts").null_count:
            raise ValueError("column ts has missing times")
        if table.schema.types != target.types:
            table = table.cast(target)
        table = table.replace_schema_metadata(None)
        frame = pl.DataFrame(pl.from_arrow(table))
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(" ".join(f"{error}".split()) or type(error).__name__) from error
    facts = head.get("facts", {})
    if not isinstance(facts, dict):
        raise ValueError("segment metadata is malformed: facts are no mapping")
    read = set(wanted)
    return DecodedSegment(frame, {c.name: c for c in table_of_channels if c.name in read}, facts)


def _check_columns(names: list[str], channels: list[Channel]) -> dict[str, str]:
    """Return each channel's kind, having made sure that columns and channel table belong together."""
    kinds = {channel.name: channel.kind for channel in channels}
    given = set(names)
    if len(given) != len(names):
        raise ValueError("a column appears twice")
    missing = [name for name in TIME_COLUMNS if name not in given]
    unknown = [name for name in names if name not in kinds and name not in TIME_COLUMNS]
    if missing:
        raise ValueError(f"column {missing[0]} is missing")
    if unknown:
        raise ValueError(f"column {unknown[0]} is not in the channel table")
    return kinds
