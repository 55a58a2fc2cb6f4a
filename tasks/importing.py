"""The importing stage: telemetry of others becomes segments in the store."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from reveal_core.errors import UsageError
from reveal_core.features.pace import LEAST_SAMPLES
from reveal_core.importing.assemble import Assembler
from reveal_core.importing.findings import Findings
from reveal_core.importing.kinds import kind_of, read_source
from reveal_core.importing.mapping import read_mapping
from reveal_core.importing.suggest import suggest
from reveal_core.importing.times import parse_zone
from reveal_core.importing.types import Chunk, ImportOptions
from reveal_core.incidents import iso
from reveal_core.segment import Segment
from reveal_core.timespec import from_ns, parse_time
from storage.store import Store

USUAL_WINDOW_S = 3.0
"""Length of a window in the profiles that Reveal brings."""


def import_telemetry(
    store: str,
    *,
    kind: str,
    source: str,
    host: str | None = None,
    timezone: str | None = None,
    mapping: str | None = None,
    origin: str | None = None,
    interval_s: float | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Importing telemetry.

    Parameters
    ----------
    store
        Root of the store.
    kind
        One of `reveal_core.importing.kinds.KINDS`.
    source
        A file or folder.
    host
        The host's label, where the source does not tell it, or in place of what it tells.
    timezone
        Of times without one.
    mapping
        A mapping file, for tables.
    origin, interval_s
        When a log began that only counts, and seconds between samples of one without any times.
    say
        Told what is going on.

    Returns
    -------
    dict
        ``hosts`` (names), ``segments``, ``samples`` (numbers), ``skipped`` (``item``, ``reason``);
        ``unmapped`` (``column``, ``metric``): columns that the catalogue does not know, and what keeps them;
        ``notes``: what was decided where the source leaves room; ``period_ms``: time between most rows;
        ``start``, ``end``: times of the first and the last sample; ``bytes``: of the segments.

    Raises
    ------
    UsageError
        If the source is of no use as this kind, or nothing of it could be imported.
    UnavailableError
        If the store cannot be written.
    """
    chosen = kind_of(kind)
    options = ImportOptions(
        host=host,
        zone=parse_zone(timezone) if timezone is not None else None,
        mapping=read_mapping(Path(mapping)) if mapping is not None else None,
        origin=parse_time(origin) if origin is not None else None,
        interval_s=interval_s,
    )
    findings = Findings()
    chunks = read_source(chosen, Path(source), options, findings)
    first = next(chunks, None)  # a source of no use is told before a store is made
    target = Store(store)
    target.check(write=True)
    total = 0

    def put(segment: Segment) -> None:
        nonlocal total
        target.put_segment(segment)
        total += len(segment.data)
        say(f"Importing {findings.where}: {segment.host} {iso(segment.start)}")

    assembler = Assembler(findings, put)
    for chunk in chain([first] if first is not None else [], chunks):
        if isinstance(chunk, Chunk):
            assembler.add(chunk)
        else:
            assembler.end(chunk)
    assembler.end()
    if not assembler.segments:
        skipped = findings.skipped
        why = f": {skipped[0]['item']}: {skipped[0]['reason']}" if skipped else ""
        raise UsageError(f"nothing of {source} could be imported{why}")
    period_ms = max(assembler.rows_by_period, key=lambda ms: assembler.rows_by_period[ms])
    return {
        "hosts": sorted(assembler.hosts),
        "segments": assembler.segments,
        "samples": assembler.samples,
        "skipped": findings.skipped,
        "unmapped": findings.kept_as,
        "notes": [*findings.notes, *window_notes(period_ms)],
        "period_ms": period_ms,
        "bytes": total,
        "start": iso(from_ns(assembler.first_ns)),
        "end": iso(from_ns(assembler.last_ns)),
    }


def suggest_mapping(*, kind: str, source: str) -> dict[str, str]:
    """Proposing a mapping file.

    Returns
    -------
    dict
        ``mapping``: the file's content.

    Raises
    ------
    UsageError
        If the kind has none, or the source is no table.
    """
    if not kind_of(kind).maps:
        raise UsageError(f"{kind} needs no mapping file: its columns are known by name")
    return {"mapping": suggest(Path(source), kind)}


def window_notes(period_ms: int) -> list[str]:
    """Return what to say where the method's usual windows are too short for the data."""
    if period_ms * LEAST_SAMPLES <= USUAL_WINDOW_S * 1000:
        return []
    period_s = period_ms / 1000
    return [
        f"samples come every {period_s:g} s: windows of {USUAL_WINDOW_S:g} s are too short for them; fit and "
        f"score with window_s = {LEAST_SAMPLES * period_s:g} and stride_s = {period_s:g} (docs/importing.md)"
    ]
