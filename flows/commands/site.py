"""``reveal site``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.output import emit
from flows.signals import signals
from reveal_core.timespec import parse_duration


def site_command(
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Logs, databases and, without --objects, the store.")
    ] = Path("site"),
    agents: Annotated[
        int, typer.Option("--agents", min=1, max=8, help="Agents, each a host of its own to the fleet.")
    ] = 2,
    objects: Annotated[
        bool | None,
        typer.Option(
            "--objects/--no-objects",
            help="Keep telemetry in an object store on loopback, which forgets it in the end.",
            show_default="if one is installed",
        ),
    ] = None,
    learn: Annotated[
        str, typer.Option("--learn", metavar="TIME", help="Telemetry before the first model.")
    ] = "3m",
    duration: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="End by itself.", show_default="Ctrl-C")
    ] = None,
    json: options.Json = False,
) -> None:
    """Bring up a whole site on this machine, to look at: Prefect, MLflow, an object store, a worker, agents.

    Everything binds to loopback. A process that ends is started again; the logs are in the folder. Within ten
    minutes the schedule publishes reports.
    """
    from flows.site import bring_up

    learn_s = parse_duration(learn)
    duration_s = parse_duration(duration) if duration is not None else None
    with signals() as asked:
        found = bring_up(
            directory,
            agents=agents,
            objects=objects,
            learn_s=learn_s,
            duration_s=duration_s,
            say=_say,
            asked=asked,
        )
    emit(found, as_json=json, text=lambda console: _show(console, found))


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _show(console: Console, found: dict[str, Any]) -> None:
    console.print(f"Ended. Logs and databases are in {found['folder']}.", markup=False)
