"""``reveal import``: telemetry that somebody else recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.output import emit, human_bytes, progress
from flows.settings import Settings, load_settings
from reveal_core.timespec import parse_duration

if TYPE_CHECKING:
    from tasks.prometheus_access import Access

SHOWN = 20
"""Entries of a list that a person sees; the JSON document has all."""
SERVER = "prometheus"
"""The kind that asks a server."""
OF_FILES = ("host", "timezone", "mapping", "suggest", "origin", "interval")
OF_SERVERS = ("start", "end", "match", "host_label", "concurrency", "keep_unknown", "again", "token_file")
OF_SERVERS += ("ca_file", "cert", "key", "insecure")
_ASKED = "Asking a server"
"""Panel of the help that holds the options of `SERVER`."""


def import_command(
    context: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="reveal-dataset, csv, parquet, nvidia-smi, dcgmi, sadf, turbostat, perf, stats-collect, "
            "otlp or prometheus.",
            show_default=False,
        ),
    ],
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A file, or a folder of such files; the address of a server for prometheus.",
            show_default=False,
        ),
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
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="TIME",
            help="ISO 8601 (UTC if no zone is given) or relative: -1h.",
            show_default="one hour before the end",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--end", metavar="TIME", help="As --start.", show_default="now", rich_help_panel=_ASKED),
    ] = None,
    match: Annotated[
        str | None,
        typer.Option(
            "--match",
            metavar="SELECTOR",
            help='Only series with these labels: \'{job="node", cluster=~"a|b"}\'.',
            rich_help_panel=_ASKED,
        ),
    ] = None,
    host_label: Annotated[
        str,
        typer.Option(
            "--host-label",
            metavar="LABEL",
            help="The label that names the host; of instance the port is dropped.",
            rich_help_panel=_ASKED,
        ),
    ] = "instance",
    concurrency: Annotated[
        int,
        typer.Option("--concurrency", min=1, max=16, help="Requests at once.", rich_help_panel=_ASKED),
    ] = 2,
    keep_unknown: Annotated[
        bool,
        typer.Option(
            "--keep-unknown",
            help="Keep series that the catalogue does not know, as imported.prometheus.*.",
            rich_help_panel=_ASKED,
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="Import what was imported before, too.", rich_help_panel=_ASKED),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="Holds the bearer token; user and password are settings.",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file",
            metavar="FILE",
            help="Certificates to trust in place of the system's.",
            rich_help_panel=_ASKED,
        ),
    ] = None,
    cert: Annotated[
        Path | None,
        typer.Option("--cert", metavar="FILE", help="Certificate of the client.", rich_help_panel=_ASKED),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE", help="Its key, if not in the same file.", rich_help_panel=_ASKED
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Take any certificate of the server's.", rich_help_panel=_ASKED),
    ] = False,
    json: options.Json = False,
) -> None:
    """Put telemetry that others recorded into the store, as if it had been collected.

    Columns go by the catalogue's names where it has them; others are kept as imported.* and listed. What
    cannot be kept is listed with the reason. Importing the same twice is harmless. prometheus asks a server
    for the raw samples of node_exporter and dcgm-exporter, and goes on where an earlier import ended.
    """
    if kind == SERVER:
        options.refuse(context, OF_FILES, "the server says it itself")
    else:
        options.refuse(context, OF_SERVERS, "only prometheus asks a server")
    if suggest:
        _suggest(kind, source, json)
        return
    settings = load_settings()
    place = store or settings.store
    with progress(f"Importing {source}") as say:
        if kind == SERVER:
            from tasks.prometheus_importing import import_prometheus

            result = import_prometheus(
                place,
                url=source,
                access=_access(settings, token_file, ca_file, cert, key, insecure),
                start=start,
                end=end,
                match=match,
                host_label=host_label,
                concurrency=concurrency,
                keep_unknown=keep_unknown,
                again=again,
                say=say,
            )
        else:
            from tasks.importing import import_telemetry

            result = import_telemetry(
                place,
                kind=kind,
                source=source,
                host=host,
                timezone=timezone,
                mapping=str(mapping) if mapping is not None else None,
                origin=origin,
                interval_s=parse_duration(interval) if interval is not None else None,
                say=say,
            )
    emit(result, as_json=json, text=lambda console: _show(console, result, place))


def _suggest(kind: str, source: str, json: bool) -> None:
    from tasks.importing import suggest_mapping

    found = suggest_mapping(kind=kind, source=source)
    emit(
        found,
        as_json=json,
        text=lambda console: console.print(found["mapping"], end="", markup=False, soft_wrap=True),
    )


def _access(
    settings: Settings,
    token_file: Path | None,
    ca_file: Path | None,
    cert: Path | None,
    key: Path | None,
    insecure: bool,
) -> Access:
    """Return how the server is entered; a token file on the command line beats what the settings hold."""
    from tasks.prometheus_access import Access

    tls = {
        name: str(path) if path is not None else None
        for name, path in (("ca_file", ca_file), ("cert", cert), ("key", key))
    }
    if token_file is not None:
        return Access(token_file=str(token_file), insecure=insecure, **tls)
    said = settings.prometheus
    return Access(
        token=said.token.get_secret_value() if said.token is not None else "",
        token_file=str(said.token_file) if said.token_file is not None else None,
        user=said.user,
        password=said.password.get_secret_value() if said.password is not None else "",
        insecure=insecure,
        **tls,
    )


def _show(console: Console, result: dict[str, Any], place: str) -> None:
    hosts = result["hosts"]
    named = hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts"
    console.print(
        f"{named}: {result['samples']} samples in {result['segments']} segments "
        f"({human_bytes(result['bytes'])}) put into {place}",
        markup=False,
    )
    if result["segments"]:
        console.print(
            f"one every {result['period_ms'] / 1000:g} s, from {result['start']} to {result['end']}"
        )
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
