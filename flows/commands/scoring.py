"""``reveal score`` and ``reveal investigate``."""

from __future__ import annotations

import sys
from json import loads as parse_json
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markdown import Markdown

from flows import options
from flows.dispatch import run_pipeline
from flows.output import emit
from flows.settings import load_settings, mlflow_uri, plugins
from reveal_core.errors import UsageError


def score(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    model: options.Model = None,
    new: Annotated[
        bool, typer.Option("--new", help="Score what has arrived since the last run, however late.")
    ] = False,
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
        new=new,
        reach=settings.fleet.reach,
        silent_after=settings.fleet.silent_after,
        forget_after=settings.fleet.forget_after,
        hosts_per_task=settings.fleet.hosts_per_task,
        plugins=plugins(settings),
        announce=announce,
    )
    show_report(document, as_json=json)


def investigate(
    host: Annotated[str | None, typer.Option("--host", metavar="HOST", help="The host.")] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="ISO 8601 or relative: -1h.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="TIME", help="As --start, or 'now'.")] = None,
    incident: Annotated[
        str | None,
        typer.Option("--incident", metavar="ID", help="In place of host and range: an incident."),
    ] = None,
    alert: Annotated[
        Path | None,
        typer.Option("--alert", metavar="FILE", help="Likewise: what a webhook was sent, as JSON."),
    ] = None,
    store: options.Store = None,
    baseline_start: Annotated[
        str | None, typer.Option("--baseline-start", metavar="TIME", help="A healthy range to compare with.")
    ] = None,
    baseline_end: Annotated[
        str | None, typer.Option("--baseline-end", metavar="TIME", help="Its end.")
    ] = None,
    baseline: Annotated[
        Literal["auto", "none"],
        typer.Option("--baseline", help="Without one: look for it in the hour before, or not."),
    ] = "auto",
    profile: options.Profile = None,
    seed: options.Seed = None,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Judge one host's range after an incident, against a healthy stretch before it or against itself."""
    settings = load_settings()
    document = run_pipeline(
        "investigate_incident",
        f"Investigating {host or incident or 'what an alert is about'}",
        flow=flow,
        store=store or settings.store,
        host=host,
        start=start,
        end=end,
        incident=incident,
        alert=_alert(alert) if alert is not None else None,
        baseline_start=baseline_start,
        baseline_end=baseline_end,
        own_baseline=baseline == "auto",
        profile=profile or settings.method.profile,
        overrides=settings.method.overrides,
        seed=settings.method.seed if seed is None else seed,
    )
    show_report(document, as_json=json)


def _alert(path: Path) -> dict[str, Any]:
    """Return what a webhook was sent, from a file or, for ``-``, from standard input."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        found = parse_json(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"{path}: a notice is an object, not {type(found).__name__}")
    return found


def show_report(document: dict[str, Any], *, as_json: bool) -> None:
    """Print a report's document, or its Markdown and where the page lies."""

    def show(console: Console) -> None:
        console.print(Markdown(document["markdown"]))
        if document["report"] is not None:
            console.print(f"Report: {document['report']}", soft_wrap=True)
        for row in (document.get("alerts") or {}).get("sent", ()):
            console.print(f"Told {row['channel']}: {row['title']} ({row['status']})", markup=False)
        for row in (document.get("alerts") or {}).get("undelivered", ()):
            console.print(f"Not delivered: {row['reason']}; tried again by the next run", markup=False)

    emit({key: value for key, value in document.items() if key != "markdown"}, as_json=as_json, text=show)
