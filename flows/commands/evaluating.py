"""``reveal evaluate``: how good the method is, on data whose anomalies are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.commands import injected
from flows.output import emit, progress
from reveal_core.errors import UsageError

COLUMNS = (
    ("ap", "AP"),
    ("auc", "AUC"),
    ("vus_pr", "VUS-PR"),
    ("event_recall", "recall"),
    ("event_recall_pooled", "pooled"),
    ("false_events_per_day", "false/day"),
    ("worst_false_events_per_day", "worst"),
    ("event_f1", "F1"),
    ("median_delay_min", "delay, min"),
    ("normal_flagged", "flagged"),
)
SHARES = ("event_recall", "event_recall_pooled", "normal_flagged")


def evaluate(
    dataset: Annotated[str | None, typer.Option("--dataset", metavar="NAME", help="smd, asd or nab.")] = None,
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
        float, typer.Option("--budget", min=0.01, metavar="N", help="False alarms per host and day.")
    ] = 1.0,
    seed: options.Seed = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown",
            metavar="FILE",
            help="Put the tables into a Markdown file, in place of those of an earlier run.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Judge the method by labels that it never saw, or by perturbations of telemetry that has none.

    With --injected a registered model is judged, or with --profile one that is fitted on the first 60 % of
    the range; perturbations are written into a copy of the telemetry, the store is not changed.
    """
    if perturb:
        if dataset is not None or data is not None:
            raise UsageError("--injected judges a store's telemetry: leave out --dataset and --data")
        judged = injected.judge(
            store, host=host, start=start, end=end, model=model, profile=profile, count=count, seed=seed or 0
        )
        if markdown is not None:
            put_section(markdown, f"evaluate injected {judged['model']}", injected.markdown(judged))
        emit(judged, as_json=json, text=lambda console: injected.show(console, judged))
        return
    if dataset is None or data is None:
        raise UsageError("nothing to evaluate: give --dataset NAME and --data DIR, or --injected")
    with progress("Reading") as say:
        from tasks.evaluating import evaluate as run

        found = run(
            dataset, str(data), profile=profile or "default", budget_per_day=budget, seed=seed or 0, say=say
        )
    if markdown is not None:
        put_section(markdown, f"evaluate {found['dataset']} {found['profile']}", _markdown(found))
    emit(found, as_json=json, text=lambda console: _show(console, found))


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


def _markdown(found: dict[str, Any]) -> str:
    lines = [_heading(found), "", f"| detector | {' | '.join(title for _, title in COLUMNS)} |"]
    lines.append("|---|" + "---:|" * len(COLUMNS))
    for name, figures in found["detectors"].items():
        lines.append(f"| {name} | {' | '.join(_cell(key, figures[key]) for key, _ in COLUMNS)} |")
    if found["attribution"] is not None:
        lines += ["", f"{_attribution(found['attribution'])}."]
    return "\n".join(lines)


def _show(console: Console, found: dict[str, Any]) -> None:
    console.print(_heading(found))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("detector")
    for _, title in COLUMNS:
        table.add_column(title, justify="right")
    for name, figures in found["detectors"].items():
        table.add_row(name, *(_cell(key, figures[key]) for key, _ in COLUMNS))
    console.print(table)
    if found["attribution"] is not None:
        console.print(_attribution(found["attribution"]))


def _heading(found: dict[str, Any]) -> str:
    return (
        f"{found['dataset']}, profile {found['profile']}: {found['entities']} entities, "
        f"{found['host_days']:g} host-days, {found['events']} events; "
        f"{found['threshold']}; {found['seconds']:.0f} s"
    )


def _attribution(found: dict[str, Any]) -> str:
    share = {name: _cell("ap", value) for name, value in found.items()}
    text = (
        f"Right of {found['segments']:g} labelled segments: first metric {share['top1']}, any of three "
        f"{share['top3']}; hit rate {share['hit100']} at 100 %, {share['hit150']} at 150 %"
    )
    if not found["subsystem_segments"]:
        return text
    return (
        f"{text}; first subsystem {share['subsystem_top1']}, "
        f"{share['subsystem_top1_no_storage']} without segments of storage alone"
    )


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    if key in SHARES:
        return f"{100 * value:.1f} %"
    return f"{value:.1f}" if key == "median_delay_min" else f"{value:.3f}"
