"""What the tests of importing share: a reader run without a store, and what it gave as tables."""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from reveal_core.channels import Channel
from reveal_core.importing.assemble import Assembler
from reveal_core.importing.findings import Findings
from reveal_core.importing.kinds import kind_of, read_source
from reveal_core.importing.times import parse_zone
from reveal_core.importing.types import Chunk, ImportOptions
from reveal_core.segment import Segment, decode_metadata


@dataclass
class Imported:
    """Segments, and what was told."""

    segments: list[Segment]
    findings: Findings
    assembler: Assembler

    def frame(self, host: str | None = None) -> pl.DataFrame:
        """Return the samples of a host, of the only one if not given, by time."""
        frames = [pl.read_parquet(io.BytesIO(one.data)) for one in self.segments if host in (None, one.host)]
        return pl.concat(frames, how="diagonal").sort("ts")

    def channels(self) -> dict[str, Channel]:
        return {c.name: c for one in self.segments for c in metadata_of(one)[1]}

    def reasons(self) -> list[str]:
        return [entry["reason"] for entry in self.findings.skipped]

    def items(self) -> list[str]:
        return [entry["item"] for entry in self.findings.skipped]


def metadata_of(segment: Segment) -> tuple[dict[str, Any], list[Channel]]:
    metadata = pl.read_parquet_metadata(io.BytesIO(segment.data))
    return decode_metadata({k.encode(): v.encode() for k, v in metadata.items()})


def imported(
    kind: str,
    source: Path,
    *,
    zone: str | None = None,
    host: str | None = None,
    mapping: dict[str, Any] | None = None,
    origin: datetime | None = None,
    interval_s: float | None = None,
) -> Imported:
    """Read a source as `tasks.importing` does, and return what would be stored."""
    options = ImportOptions(
        host=host,
        zone=parse_zone(zone) if zone else None,
        mapping=mapping,
        origin=origin,
        interval_s=interval_s,
    )
    findings = Findings()
    segments: list[Segment] = []
    assembler = Assembler(findings, segments.append)
    for chunk in read_source(kind_of(kind), source, options, findings):
        if isinstance(chunk, Chunk):
            assembler.add(chunk)
        else:
            assembler.end(chunk)
    assembler.end()
    return Imported(segments, findings, assembler)
