"""The form of a telemetry segment: one Parquet file of one host that explains itself.

Shared by the collector, which writes segments, and the store, which reads them; so it imports nothing heavy.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from reveal_core.channels import Channel

SCHEMA_VERSION = 1
FACTS_KEY = b"reveal"
"""Parquet key-value entry: JSON with schema, host, boot, seq, facts and the period of each source."""
CHANNELS_KEY = b"reveal.channels"
"""Parquet key-value entry: the channel table as JSON rows, zlib, base64; plain it outweighs a minute."""
PARTS_KEY = b"reveal.parts"
"""Parquet key-value entry of a merged segment: which rows are those of which segment, with its facts and its
channel table; JSON, zlib, base64."""
REPLACES_KEY = b"reveal.replaces"
"""Parquet key-value entry of a down-sampled segment: JSON of the segments that it stands for."""

Identity = tuple[int, int]
"""Start in ms since 1970, and number: what tells the segments of one host and boot apart."""

_COLUMNS = ("name", "metric", "instance", "subsystem", "kind", "unit", "source", "period_ms")


@dataclass(frozen=True)
class Segment:
    """An encoded segment, ready to be stored.

    ``start`` is the UTC time of the first sample; (``start``, ``boot``, ``sequence``) is its content
    identity. ``data`` is the whole Parquet file.
    """

    host: str
    start: datetime
    boot: str
    sequence: int
    data: bytes
    rows: int
    columns: int


@dataclass(frozen=True)
class SegmentPart:
    """A segment that became part of a merged one.

    Attributes
    ----------
    identity
        What tells it from other segments of the same host and boot.
    rows
        How many rows of the merged segment are its own; parts follow each other.
    facts
        Its host facts.
    channels
        Its channel table, in the order of its columns.
    """

    identity: Identity
    rows: int
    facts: Mapping[str, Any]
    channels: tuple[Channel, ...]


def encode_metadata(
    *,
    host: str,
    boot: str,
    sequence: int,
    facts: Mapping[str, Any],
    channels: Sequence[Channel],
) -> dict[bytes, bytes]:
    """Return the key-value metadata of a segment."""
    head = {
        "schema": SCHEMA_VERSION,
        "host": host,
        "boot": boot,
        "seq": sequence,
        "facts": dict(facts),
        "periods_ms": {c.source: c.period_ms for c in channels},
    }
    table = zlib.compress(json.dumps(_rows_of(channels), separators=(",", ":")).encode(), 6)
    return {
        FACTS_KEY: json.dumps(head, separators=(",", ":"), sort_keys=True).encode(),
        CHANNELS_KEY: base64.b64encode(table),
    }


def _rows_of(channels: Sequence[Channel]) -> list[list[Any]]:
    return [[getattr(c, column) for column in _COLUMNS] for c in channels]


def _table_of(rows: Sequence[Sequence[Any]]) -> tuple[Channel, ...]:
    return tuple(Channel(**dict(zip(_COLUMNS, row, strict=True))) for row in rows)


@lru_cache(maxsize=32)
def _channel_table(text: bytes) -> tuple[Channel, ...]:
    """Return a channel table; those of one host's segments are mostly the same, byte for byte."""
    return _table_of(json.loads(zlib.decompress(base64.b64decode(text, validate=True))))


def decode_metadata(metadata: Mapping[bytes, bytes]) -> tuple[dict[str, Any], list[Channel]]:
    """Return head and channel table of a segment.

    Raises
    ------
    ValueError
        If the metadata is missing, malformed or of a schema this version does not know.
    """
    if FACTS_KEY not in metadata or CHANNELS_KEY not in metadata:
        raise ValueError("not a telemetry segment: its Reveal metadata is missing")
    try:
        head = json.loads(metadata[FACTS_KEY])
        channels = list(_channel_table(metadata[CHANNELS_KEY]))
    except (ValueError, TypeError, zlib.error) as error:
        raise ValueError(f"segment metadata is malformed: {error}") from error
    if not isinstance(head, dict) or head.get("schema") != SCHEMA_VERSION:
        raise ValueError(
            f"segment schema {head.get('schema') if isinstance(head, dict) else head!r} is not known"
        )
    return head, channels


def encode_parts(parts: Sequence[SegmentPart]) -> bytes:
    """Return the value of `PARTS_KEY`; facts and channel tables that several parts share are kept once."""
    facts: dict[str, int] = {}
    tables: dict[str, int] = {}
    rows = []
    for part in parts:
        fact = json.dumps(dict(part.facts), separators=(",", ":"), sort_keys=True)
        table = json.dumps(_rows_of(part.channels), separators=(",", ":"))
        places = facts.setdefault(fact, len(facts)), tables.setdefault(table, len(tables))
        rows.append([*part.identity, part.rows, *places])
    text = f'{{"facts":[{",".join(facts)}],"tables":[{",".join(tables)}],"parts":{json.dumps(rows)}}}'
    return base64.b64encode(zlib.compress(text.encode(), 6))


def decode_parts(value: bytes) -> list[SegmentPart]:
    """Return the parts of a merged segment, in order.

    Raises
    ------
    ValueError
        If this is no value of `PARTS_KEY`.
    """
    try:
        document = json.loads(zlib.decompress(base64.b64decode(value, validate=True)))
        tables = [_table_of(rows) for rows in document["tables"]]
        facts = [dict(one) for one in document["facts"]]
        parts = [
            SegmentPart((int(start), int(number)), int(rows), facts[fact], tables[table])
            for start, number, rows, fact, table in document["parts"]
        ]
    except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
        raise ValueError(f"the parts of a merged segment are malformed: {error}") from error
    if any(part.rows < 0 for part in parts):
        raise ValueError("the parts of a merged segment are malformed: one has a negative number of rows")
    return parts


def encode_replaced(identities: Sequence[Identity]) -> bytes:
    """Return the value of `REPLACES_KEY`."""
    return json.dumps([list(identity) for identity in identities], separators=(",", ":")).encode()


def decode_replaced(value: bytes) -> frozenset[Identity]:
    """Return which segments a down-sampled one stands for.

    Raises
    ------
    ValueError
        If this is no value of `REPLACES_KEY`.
    """
    try:
        return frozenset((int(start), int(number)) for start, number in json.loads(value))
    except (ValueError, TypeError) as error:
        raise ValueError(f"what a down-sampled segment stands for is malformed: {error}") from error
