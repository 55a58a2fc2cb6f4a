"""``reveal import``: telemetry that somebody else recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.output import emit, human_bytes, progress
from flows.settings import load_settings
from reveal_core.timespec import parse_duration

SHOWN = 20
"""Entries of a list that a person sees; the JSON document has all."""


def import_command(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="reveal-dataset, csv, parquet, nvidia-smi, dcgmi, sadf, turbostat, perf or stats-collect.",
            show_default=False,
        ),
    ],
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A file, or a folder of such files.", show_default=False)
    ],
    store: options.Store = None,
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="HOST", help="Label of the host, if the source does not tell it."),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone", metavar="ZONE", help="Of times without one: Europe/London, UTC or +01:00."
        ),
    ] = None,
    mapping: Annotated[
        Path | None,
        typer.Option("--mapping", metavar="FILE", help="What the columns are; for csv and parquet."),
    ] = None,
    suggest: Annotated[
        bool, typer.Option("--suggest", help="Print a mapping file to start from, and import nothing.")
    ] = False,
    origin: Annotated[
        str | None,
        typer.Option("--origin", metavar="TIME", help="When a log began that only counts seconds or lines."),
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option("--interval", metavar="TIME", help="Between samples of a log without any times."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Put telemetry that others recorded into the store, as if it had been collected.

    Columns go by the catalogue's names where it has them; others are kept as imported.* and listed. What
    cannot be kept is listed with the reason. Importing the same twice is harmless.
    """
    from tasks.importing import import_telemetry, suggest_mapping

    if suggest:
        found = suggest_mapping(kind=kind, source=str(source))
        emit(
            found,
            as_json=json,
            text=lambda console: console.print(found["mapping"], end="", markup=False, soft_wrap=True),
        )
        return
    place = store or load_settings().store
    with progress(f"Importing {source}") as say:
        result = import_telemetry(
            place,
            kind=kind,
            source=str(source),
            host=host,
            timezone=timezone,
            mapping=str(mapping) if mapping is not None else None,
            origin=origin,
            interval_s=parse_duration(interval) if interval is not None else None,
            say=say,
        )
    emit(result, as_json=json, text=lambda console: _show(console, result, place))


def _show(console: Console, result: dict[str, Any], place: str) -> None:
    hosts = result["hosts"]
    named = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    console.print(
        f"{named}: {result['samples']} samples in {result['segments']} segments "
        f"({human_bytes(result['bytes'])}) put into {place}",
        markup=False,
    )
    console.print(f"one every {result['period_ms'] / 1000:g} s, from {result['start']} to {result['end']}")
    for note in result["notes"]:
        console.print(f"Note: {note}", markup=False)
    _table(console, "Kept, though the catalogue does not know it", ("column", "metric"), result["unmapped"])
    _table(console, "Left out", ("item", "reason"), result["skipped"])


def _table(console: Console, title: str, keys: tuple[str, str], rows: list[dict[str, str]]) -> None:
    if not rows:
        return
    console.print(f"{title}:")
    table = Table(*keys, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for row in rows[:SHOWN]:
        table.add_row(*(row[key].replace("[", r"\[") for key in keys))
    console.print(table)
    if len(rows) > SHOWN:
        console.print(f"… and {len(rows) - SHOWN} more: --json has them all")
