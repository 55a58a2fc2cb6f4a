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
    rows = [[getattr(c, column) for column in _COLUMNS] for c in channels]
    table = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 6)
    return {
        FACTS_KEY: json.dumps(head, separators=(",", ":"), sort_keys=True).encode(),
        CHANNELS_KEY: base64.b64encode(table),
    }


@lru_cache(maxsize=32)
def _channel_table(text: bytes) -> tuple[Channel, ...]:
    """Return a channel table; those of one host's segments are mostly the same, byte for byte."""
    rows = json.loads(zlib.decompress(base64.b64decode(text, validate=True)))
    return tuple(Channel(**dict(zip(_COLUMNS, row, strict=True))) for row in rows)


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
