"""``reveal demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows import options
from flows.output import emit


def demo(
    full: Annotated[
        bool,
        typer.Option("--full", help="300 s of healthy telemetry and every fault that this machine allows."),
    ] = False,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Each run makes a folder of its own in here.")
    ] = Path("demo"),
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of everything random.")] = 0,
    faults: Annotated[
        str | None,
        typer.Option(
            "--faults", metavar="A,B,C", help="Which faults.", show_default="three of different subsystems"
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Run a job on this machine, inject real faults, and see what Reveal finds (about 4.5 minutes)."""
    from flows.demo import run_demo
    from flows.demo_plan import plan_demo
    from flows.demo_view import show_result

    chosen = [name.strip() for name in faults.split(",") if name.strip()] if faults is not None else None
    document = run_demo(plan_demo(directory, full=full, faults=chosen, seed=seed))
    emit(document, as_json=json, text=lambda console: show_result(console, document))
