"""``reveal score`` and ``reveal investigate``."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from flows import options
from flows.dispatch import run_pipeline
from flows.output import emit
from flows.settings import load_settings, mlflow_uri, plugins


def score(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    model: options.Model = None,
    announce: Annotated[
        bool,
        typer.Option("--announce", help="Tell of new incidents, and of those that are over, by alerts.*."),
    ] = False,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Score telemetry with a registered model, and write a report of the incidents."""
    settings = load_settings()
    place = store or settings.store
    document = run_pipeline(
        "score_fleet",
        "Scoring",
        flow=flow,
        store=place,
        tracking_uri=mlflow_uri(settings, place),
        host=host,
        start=start,
        end=end,
        model=model,
        hosts_per_task=settings.fleet.hosts_per_task,
        plugins=plugins(settings),
        announce=announce,
    )
    show_report(document, as_json=json)


def investigate(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="The host.")],
    start: Annotated[str, typer.Option("--start", metavar="TIME", help="ISO 8601 or relative: -1h.")],
    end: Annotated[str, typer.Option("--end", metavar="TIME", help="As --start, or 'now'.")],
    store: options.Store = None,
    baseline_start: Annotated[
        str | None, typer.Option("--baseline-start", metavar="TIME", help="A healthy range to compare with.")
    ] = None,
    baseline_end: Annotated[
        str | None, typer.Option("--baseline-end", metavar="TIME", help="Its end.")
    ] = None,
    profile: options.Profile = None,
    seed: options.Seed = None,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Judge one host's range after an incident, against a healthy baseline or against itself."""
    settings = load_settings()
    document = run_pipeline(
        "investigate_incident",
        f"Investigating {host}",
        flow=flow,
        store=store or settings.store,
        host=host,
        start=start,
        end=end,
        baseline_start=baseline_start,
        baseline_end=baseline_end,
        profile=profile or settings.method.profile,
        overrides=settings.method.overrides,
        seed=settings.method.seed if seed is None else seed,
    )
    show_report(document, as_json=json)


def show_report(document: dict[str, Any], *, as_json: bool) -> None:
    """Print a report's document, or its Markdown and where the page lies."""

    def show(console: Console) -> None:
        console.print(Markdown(document["markdown"]))
        console.print(f"Report: {document['report']}", soft_wrap=True)
        for row in (document.get("alerts") or {}).get("sent", ()):
            console.print(f"Told {row['channel']}: {row['title']} ({row['status']})", markup=False)
        for row in (document.get("alerts") or {}).get("undelivered", ()):
            console.print(f"Not delivered: {row['reason']}; tried again by the next run", markup=False)

    emit({key: value for key, value in document.items() if key != "markdown"}, as_json=as_json, text=show)
