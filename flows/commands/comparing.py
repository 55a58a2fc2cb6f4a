"""``reveal compare``: settings of the method beside each other, on recorded telemetry."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.dispatch import run_pipeline
from flows.output import emit
from flows.settings import load_settings, mlflow_uri


def compare(
    grid: Annotated[
        Path, typer.Option("--grid", metavar="FILE", help="Settings to compare, TOML; see docs/comparing.md.")
    ],
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    fit_start: Annotated[
        str | None,
        typer.Option(
            "--fit-start",
            metavar="TIME",
            help="Healthy telemetry to learn from.",
            show_default="the start",
        ),
    ] = None,
    fit_end: Annotated[
        str | None,
        typer.Option(
            "--fit-end",
            metavar="TIME",
            help="Its end; what follows is judged.",
            show_default="half of the range, or the first fault",
        ),
    ] = None,
    faults: Annotated[
        Path | None,
        typer.Option(
            "--faults",
            metavar="FILE",
            help="Real faults that the telemetry holds, JSON; reveal demo writes such a file.",
        ),
    ] = None,
    most_hosts: Annotated[
        int | None,
        typer.Option(
            "--most-hosts",
            min=1,
            metavar="N",
            help="So many hosts of the largest hardware class.",
            show_default="all, which must be of one class",
        ),
    ] = None,
    seed: options.Seed = None,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Judge a grid of settings on the same telemetry, each as a run of its own in MLflow.

    Each setting learns from a healthy part of the range and is judged on the rest: by perturbations written
    into copies of it, by its own false incidents against the alarm budget, by agreement with a reference, by
    stability, and by what it costs.
    """
    from tasks.faultfiles import read_faults
    from tasks.grids import read_grid

    content = read_grid(grid)
    known = read_faults(faults) if faults is not None else []
    settings = load_settings()
    place = store or settings.store
    document = run_pipeline(
        "compare_detectors",
        "Comparing settings",
        flow=flow,
        store=place,
        tracking_uri=mlflow_uri(settings, place),
        host=host,
        start=start,
        end=end,
        fit_start=fit_start,
        fit_end=fit_end,
        grid=content,
        faults=known,
        seed=settings.method.seed if seed is None else seed,
        most_hosts=most_hosts,
    )
    emit(document, as_json=json, text=lambda console: _show(console, document))


def _show(console: Console, document: dict[str, Any]) -> None:
    from tasks.compare_report import LEGEND, cell, columns, in_order, noise

    runs = document["runs"]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("setting", no_wrap=True)
    shown = columns(runs)
    for _, title in shown:
        table.add_column(title, justify="right")
    for run in in_order(runs):
        style = "bold" if run["run_id"] == document["best"] else None
        table.add_row(run["name"], *(cell(name, run["metrics"].get(name)) for name, _ in shown), style=style)
    console.print(table)
    console.print(LEGEND, style="dim")
    console.print(f"Best: {document['why']}")
    for line in filter(None, (noise(runs), *document["notes"])):
        console.print(line)
    for one in document["failed"]:
        console.print(f"{one['name']} could not be judged: {one['reason']}")
    console.print(
        f"MLflow experiment {document['experiment']}, run {document['run_url'] or document['run_id']}"
    )
