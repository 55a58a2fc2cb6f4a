"""Decoding telemetry segments: from the bytes of a file to checked tables."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from reveal_core.channels import Channel
from reveal_core.segment import (
    PARTS_KEY,
    REPLACES_KEY,
    Identity,
    SegmentPart,
    decode_metadata,
    decode_parts,
    decode_replaced,
)
from storage.layout import SegmentName, to_utc

Columns = Sequence[str] | Callable[[str], bool]
"""Names of channels, or what tells those that are wanted from others by their names."""

TIME_COLUMNS = ("ts", "mono")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64_MAX = 2**63 - 1
# Of each type one, so that types of a thousand columns are compared by identity.
_TIME, _WHOLE, _NARROW, _WIDE = pl.Datetime("ns", "UTC"), pl.Int64(), pl.Float32(), pl.Float64()
_LONGEST_REASON = 300


@dataclass(frozen=True)
class DecodedSegment:
    """A segment's table with what its metadata says.

    ``channels`` are those in ``frame`` by the names of their columns, ``types`` those of all columns: Polars
    makes a schema anew at each call, and for a thousand columns that takes milliseconds.
    """

    frame: pl.DataFrame
    channels: dict[str, Channel]
    facts: dict[str, Any]
    types: dict[str, pl.DataType]
    boot: str = ""


@dataclass(frozen=True)
class DecodedFile:
    """What a file of telemetry holds.

    Attributes
    ----------
    parts
        The segments that were merged into it, in order, each with its identity; a single one where none were.
    replaces
        The segments that it stands for if it was down-sampled; empty if not.
    """

    parts: list[tuple[Identity, DecodedSegment]]
    replaces: frozenset[Identity] = frozenset()


def to_ns(time: datetime) -> int:
    """Return ns since 1970 of an aware time, held within what int64 can say."""
    microseconds = (to_utc(time) - EPOCH) // timedelta(microseconds=1)
    return max(-_INT64_MAX, min(_INT64_MAX, microseconds * 1000))


def identity_of(name: SegmentName) -> Identity:
    """Return what tells a segment from others of its host and boot."""
    return (name.start - EPOCH) // timedelta(milliseconds=1), name.sequence


def _target_type(name: str, kind: str, given: pl.DataType) -> pl.DataType:
    if name == "ts":
        if not isinstance(given, pl.Datetime) or given.time_zone is None:
            raise ValueError(f"column ts is {given}, not a time in UTC")
        return _TIME
    if given.is_integer() or given == pl.Boolean:
        return _WHOLE
    if name != "mono" and given.is_float():
        return _WIDE if given == pl.Float64 else _NARROW
    if name != "mono" and given == pl.Null:
        return _WHOLE if kind == "counter" else _NARROW
    raise ValueError(f"column {name} is {given}, which no sample can be")


def decode_segment(data: bytes, columns: Columns | None = None) -> DecodedSegment:
    """Return a segment's samples; those of all its parts where several were merged.

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
    return _decode(data, columns)[0]


def decode_file(data: bytes, name: SegmentName, columns: Columns | None = None) -> DecodedFile:
    """Return the segments that a file holds.

    Parameters
    ----------
    data, columns
        As `decode_segment` takes them.
    name
        What the file's key says.

    Raises
    ------
    ValueError
        As `decode_segment`; also if its parts are not what the file holds.
    """
    whole, metadata = _decode(data, columns)
    replaces = metadata.get(REPLACES_KEY)
    parts = metadata.get(PARTS_KEY)
    return DecodedFile(
        parts=_cut(whole, decode_parts(parts)) if parts is not None else [(identity_of(name), whole)],
        replaces=decode_replaced(replaces) if replaces is not None else frozenset(),
    )


def _cut(whole: DecodedSegment, parts: Sequence[SegmentPart]) -> list[tuple[Identity, DecodedSegment]]:
    """Return the segments that were merged into one as they were, each with its own columns in its order."""
    rows = sum(part.rows for part in parts)
    if rows != whole.frame.height:
        raise ValueError(f"its parts have {rows} rows and the file {whole.frame.height}")
    found = []
    begin = 0
    for part in parts:
        channels = {channel.name: channel for channel in part.channels if channel.name in whole.channels}
        names = (*TIME_COLUMNS, *channels)
        frame = whole.frame.slice(begin, part.rows).select(names)
        types = {name: whole.types[name] for name in names}
        found.append((part.identity, DecodedSegment(frame, channels, dict(part.facts), types, whole.boot)))
        begin += part.rows
    return found


def _decode(data: bytes, columns: Columns | None) -> tuple[DecodedSegment, Mapping[bytes, bytes]]:
    # Polars takes a sixth of the time that pyarrow needs for a table of a thousand columns and few rows.
    try:
        metadata = {k.encode(): v.encode() for k, v in pl.read_parquet_metadata(io.BytesIO(data)).items()}
        head, table_of_channels = decode_metadata(metadata)
        frame, schema = _read(data, table_of_channels, columns)
        kinds = {channel.name: channel.kind for channel in table_of_channels}
        target = {name: _target_type(name, kinds.get(name, ""), given) for name, given in schema.items()}
        frame = frame.cast({name: type_ for name, type_ in target.items() if schema[name] != type_})
        if frame.get_column("ts").null_count():
            raise ValueError("column ts has missing times")
    except (
        pl.exceptions.PolarsError,
        pl.exceptions.PanicException,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        line = " ".join(f"{error}".split()) or type(error).__name__
        raise ValueError(line[:_LONGEST_REASON]) from error
    facts = head.get("facts", {})
    if not isinstance(facts, dict):
        raise ValueError("segment metadata is malformed: facts are no mapping")
    channels = {c.name: c for c in table_of_channels if c.name in schema}
    return DecodedSegment(frame, channels, facts, target, str(head.get("boot", ""))), metadata


def _read(
    data: bytes, channels: Sequence[Channel], columns: Columns | None
) -> tuple[pl.DataFrame, Mapping[str, pl.DataType]]:
    """Return the columns that are asked for as they are stored, with their types.

    Where all are, their names come with them: to ask for a schema of a thousand columns first, and then for
    each by its name, takes a third as long again as to read them.
    """
    if columns is None:
        frame = pl.read_parquet(io.BytesIO(data), parallel="none")
        schema = frame.schema
        _check_columns(schema, channels)
        return frame, schema
    stored = pl.read_parquet_schema(io.BytesIO(data))
    _check_columns(stored, channels)
    asked = {*TIME_COLUMNS, *(filter(columns, stored) if callable(columns) else columns)}
    chosen = {name: given for name, given in stored.items() if name in asked}
    return pl.read_parquet(io.BytesIO(data), columns=list(chosen), parallel="none"), chosen


def _check_columns(names: Collection[str], channels: Sequence[Channel]) -> None:
    """Make sure that columns and channel table belong together."""
    known = {*TIME_COLUMNS, *(channel.name for channel in channels)}
    missing = [name for name in TIME_COLUMNS if name not in names]
    unknown = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"column {missing[0]} is missing")
    if unknown:
        raise ValueError(f"column {unknown[0]} is not in the channel table")
