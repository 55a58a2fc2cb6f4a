"""Options that several commands share, so that one thing is called the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reveal_core.errors import UsageError

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Root of the store: a folder or any fsspec URL.",
        show_default="./reveal-data",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Hosts = Annotated[str, typer.Option("--host", metavar="GLOB", help="A host, or a pattern over hosts.")]
Start = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="TIME",
        help="ISO 8601 (UTC if no zone is given) or relative: -1h.",
        show_default="one hour before the end",
    ),
]
End = Annotated[
    str | None,
    typer.Option("--end", metavar="TIME", help="As --start, or 'now'.", show_default="the newest sample"),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help="Method settings: default or paper.", show_default="default"
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", min=0, metavar="N", help="Seed of everything random.", show_default="0"),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="REF",
        help="name@alias or name/version of a registered model.",
        show_default="champion of the host's hardware class",
    ),
]
Flow = Annotated[
    bool | None,
    typer.Option(
        "--flow/--no-flow",
        help="Run as a Prefect flow, on an embedded server if none is configured; or directly.",
        show_default="as a flow where a Prefect API is configured",
    ),
]
Markdown = Annotated[
    Path | None,
    typer.Option(
        "--markdown",
        metavar="FILE",
        help="Put the tables into a Markdown file, in place of those of an earlier run.",
    ),
]


def refuse(context: typer.Context, names: tuple[str, ...], why: str) -> None:
    """Refuse options that stand on the command line and would be ignored, their defaults' values too."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [
        f"--{name.replace('_', '-')}"
        for name, source in sources.items()
        if source is not None and source.name == "COMMANDLINE"
    ]
    if given:
        raise UsageError(f"{why}: leave out {' and '.join(given)}")
