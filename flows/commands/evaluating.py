"""``reveal evaluate``: how good the method is, on data whose anomalies are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flows import options
from flows.commands import injected, labelled
from flows.output import emit, progress
from reveal_core.errors import UsageError

LABELS_ONLY = ("dataset", "data", "budget")
STORE_ONLY = ("store", "host", "start", "end", "model", "count")
"""Options that mean nothing to the other way of judging."""


def evaluate(
    context: typer.Context,
    dataset: Annotated[
        str | None, typer.Option("--dataset", metavar="NAME", help="smd, asd, nab, emmy or nezha.")
    ] = None,
    data: Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Folder with its files.")] = None,
    perturb: Annotated[
        bool,
        typer.Option("--injected", help="Judge by perturbations written into a store's own telemetry."),
    ] = False,
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    model: options.Model = None,
    count: Annotated[
        int, typer.Option("--count", min=1, metavar="N", help="Perturbations on each host.")
    ] = 40,
    profile: options.Profile = None,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            min=0.01,
            metavar="N",
            help="False alarms per host and day; for smd, asd and nab.",
            show_default="1",
        ),
    ] = None,
    seed: options.Seed = None,
    markdown: options.Markdown = None,
    json: options.Json = False,
) -> None:
    """Judge the method by labels that it never saw, or by perturbations of telemetry that has none.

    With --injected a registered model is judged, or with --profile one that is fitted on the first 60 % of
    the range; perturbations are written into a copy of the telemetry, the store is not changed.
    """
    if perturb:
        options.refuse(context, LABELS_ONLY, "--injected judges a store's telemetry")
        judged = injected.judge(
            store, host=host, start=start, end=end, model=model, profile=profile, count=count, seed=seed or 0
        )
        if markdown is not None:
            put_section(markdown, f"evaluate injected {judged['model']}", injected.markdown(judged))
        emit(judged, as_json=json, text=lambda console: injected.show(console, judged))
        return
    if dataset is None or data is None:
        raise UsageError("nothing to evaluate: give --dataset NAME and --data DIR, or --injected")
    options.refuse(context, STORE_ONLY, "--dataset judges the files of a data set, not a store")
    with progress("Reading") as say:
        from tasks.evaluating import evaluate as run

        found = run(
            dataset, str(data), profile=profile or "default", budget_per_day=budget, seed=seed or 0, say=say
        )
    if markdown is not None:
        put_section(markdown, f"evaluate {found['dataset']} {found['profile']}", labelled.markdown(found))
    emit(found, as_json=json, text=lambda console: labelled.show(console, found))


def put_section(file: Path, name: str, text: str) -> None:
    """Put a text between two marks of a Markdown file, at its end where it has none.

    Raises
    ------
    UsageError
        If the file has one mark without the other.
    """
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    head, opened, rest = before.partition(begin)
    _, closed, tail = rest.partition(end)
    if bool(opened) != bool(closed):
        raise UsageError(f"{file}: the mark {begin} has no {end}")
    if not opened:
        head, tail = (f"{before.rstrip()}\n\n" if before.strip() else ""), "\n"
    whole = f"{head}{begin}\n{text.strip()}\n{end}{tail}"
    waiting = file.with_name(f".{file.name}.new")
    waiting.write_text(whole, encoding="utf-8")
    waiting.replace(file)
