"""``reveal jobs``: which hosts run which job, and when, so that they can be held against each other."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.output import emit
from flows.settings import load_settings

SHOWN_HOSTS = 4
"""Hosts of a job that a person sees; the JSON document has all."""


def import_command(
    context: typer.Context,
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="csv, slurm or kubernetes.", show_default=False)
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE",
            help="A table, or what sacct or kubectl printed; - for standard input.",
            show_default="sacct is asked",
        ),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone", metavar="ZONE", help="Of times without one: Europe/London, UTC or +01:00."
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            metavar="NAME",
            help="Label that names the job of a pod; several by precedence.",
            show_default="those of Job, JobSet, Kubeflow, Ray, LeaderWorkerSet and Volcano",
        ),
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Put jobs into the table of jobs, beside those that are known.

    csv has a row for each job and host, with columns job, host, start, and end, name and devices if they are
    known. slurm is what sacct --allocations --parsable2 --format=JobID,JobName,NodeList,Start,End,State
    prints, and kubernetes what kubectl get pods -A -o json does. Importing the same twice is harmless; of a
    job that was still running, a later import tells the end.
    """
    from tasks.jobs import KUBERNETES, import_jobs

    if kind == KUBERNETES:
        options.refuse(context, ("timezone",), "times of Kubernetes have their zone")
    else:
        options.refuse(context, ("label",), "only pods have labels")
    place = store or load_settings().store
    found = import_jobs(place, kind=kind, file=file, timezone=timezone, labels=tuple(label or ()))
    emit(found, as_json=json, text=lambda console: _show_import(console, found, place))


def _show_import(console: Console, found: dict[str, Any], place: str) -> None:
    changed = "nothing new" if not found["files"] else f"put into {place}"
    console.print(
        f"{found['jobs']} jobs on {found['hosts']} hosts, {found['running']} still running: {changed}",
        markup=False,
        soft_wrap=True,
    )
    for row in found["skipped"]:
        console.print(f"Left out: {row['item']}: {row['reason']}", markup=False, soft_wrap=True)


def list_command(
    host: options.Hosts = "*",
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            metavar="TIME",
            help="ISO 8601 (UTC if no zone is given) or relative: -1h.",
            show_default="a day before the end",
        ),
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="TIME", help="As --start.", show_default="now")
    ] = None,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """List the jobs that ran at any time of a range."""
    from tasks.jobs import list_jobs

    found = list_jobs(store or load_settings().store, host=host, start=start, end=end)
    emit(found, as_json=json, text=lambda console: _show_list(console, found))


def _show_list(console: Console, jobs: list[dict[str, Any]]) -> None:
    if not jobs:
        console.print("No job.")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in ("job", "name", "start (UTC)", "end (UTC)", "hosts"):
        table.add_column(column, overflow="fold")
    for job in jobs:
        names = [one["host"] for one in job["hosts"]]
        more = len(names) - SHOWN_HOSTS
        shown = ", ".join(names[:SHOWN_HOSTS]) + (f" and {more} more" if more > 0 else "")
        end = job["end"][:19].replace("T", " ") if job["end"] else "runs"
        start = job["start"][:19].replace("T", " ")
        table.add_row(*(text.replace("[", r"\[") for text in (job["id"], job["name"], start, end, shown)))
    console.print(table)
