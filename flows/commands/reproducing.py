"""``reveal reproduce``: the publication's claims beside what is measured here."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.commands.evaluating import put_section
from flows.output import emit, progress
from reveal_core.timespec import parse_duration

SECTION = "reproduce"


def reproduce(
    runs: Annotated[int, typer.Option("--runs", min=2, metavar="N", help="Runs of each workload.")] = 10,
    run: Annotated[str, typer.Option("--run", metavar="TIME", help="Length of a run.")] = "60s",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help="collector, recording, speed or cases; several times."),
    ] = None,
    recorded: Annotated[
        str | None,
        typer.Option("--recorded", metavar="URL", help="A store with a recording that was made before."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Keep the recording.", show_default="it is not kept"),
    ] = None,
    seed: options.Seed = None,
    markdown: options.Markdown = None,
    json: options.Json = False,
) -> None:
    """Measure what the publication claims, on this machine (about 45 minutes; nothing else should run)."""
    run_s = parse_duration(run)
    with progress("Measuring") as say, tempfile.TemporaryDirectory(prefix="reproduce-") as scratch:
        from tasks.reproducing import reproduce as measure

        found = measure(
            directory or Path(scratch),
            runs=runs,
            run_s=run_s,
            only=only or (),
            store=recorded,
            seed=seed or 0,
            say=say,
        )
    if markdown is not None:
        from reveal_core.report.render_markdown import escape

        lines = ["| claim | publication | here | how |", "|---|---|---|---|"]
        cells = [[escape(row[name]) for name in ("claim", "paper", "here", "how")] for row in found]
        lines += [f"| {' | '.join(row)} |" for row in cells]
        put_section(markdown, SECTION, "\n".join(lines))
    emit(found, as_json=json, text=lambda console: _show(console, found))


def _show(console: Console, found: list[dict[str, str]]) -> None:
    table = Table()
    for name in ("claim", "publication", "here", "how"):
        table.add_column(name)
    for row in found:
        table.add_row(row["claim"], row["paper"], row["here"], row["how"])
    console.print(table)
