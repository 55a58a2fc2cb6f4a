"""``reveal evaluate --injected``: recall, delay and attribution on a store's own telemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.output import progress
from flows.settings import load_settings, mlflow_uri, plugins

COLUMNS = (
    ("injected", "injected"),
    ("detected", "found"),
    ("recall", "recall"),
    ("median_delay_s", "delay, s"),
    ("metric_top1", "metric first"),
    ("metric_top3", "in three"),
    ("subsystem_top1", "subsystem first"),
    ("asked_metric_top3", "asked: metric in three"),
    ("asked_subsystem_top1", "subsystem first"),
)
TABLES = ("kind", "size", "target", "subsystem")


def judge(
    store: str | None,
    *,
    host: str,
    start: str | None,
    end: str | None,
    model: str | None,
    profile: str | None,
    count: int,
    seed: int,
) -> dict[str, Any]:
    """Judge a registered model, or a profile, by perturbations written into a store's telemetry."""
    settings = load_settings()
    place = store or settings.store
    with progress("Reading") as say:
        from tasks.injecting import evaluate_injected

        return evaluate_injected(
            place,
            tracking_uri=mlflow_uri(settings, place),
            host=host,
            start=start,
            end=end,
            model=model,
            profile=profile,
            overrides=settings.method.overrides,
            count=count,
            seed=seed,
            plugins=plugins(settings),
            say=say,
        )


def markdown(found: dict[str, Any]) -> str:
    """Return the figures as a Markdown table, with what they are of."""
    lines = [heading(found), "", f"| | {' | '.join(title for _, title in COLUMNS)} |"]
    lines.append("|---|" + "---:|" * len(COLUMNS))
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in _rows(found)]
    return "\n".join([*lines, "", own(found), *found["notes"]])


def show(console: Console, found: dict[str, Any]) -> None:
    """Print the figures as a table."""
    console.print(heading(found))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for _, title in COLUMNS:
        table.add_column(title, justify="right")
    for name, cells in _rows(found):
        table.add_row(name, *cells)
    console.print(table)
    console.print(own(found))
    for note in found["notes"]:
        console.print(note)


def heading(found: dict[str, Any]) -> str:
    """Return what was judged, on which telemetry."""
    hosts = found["hosts"]
    where = hosts[0]["host"] if len(hosts) == 1 else f"{len(hosts)} hosts"
    plan = found["plan"]
    return (
        f"{found['model']} on {where}, {min(h['start'] for h in hosts)} to {max(h['end'] for h in hosts)}: "
        f"perturbations of {plan['fault_s']:g} s, at least {plan['gap_s']:g} s apart; seed {plan['seed']}, "
        f"{found['seconds']:.0f} s"
    )


def own(found: dict[str, Any]) -> str:
    """Return what the telemetry itself gave."""
    summary = found["summary"]
    after = summary["false_incidents"] - summary["own_incidents"]
    return (
        f"False incidents: {summary['own_incidents']} in {summary['healthy_hours']:.2f} h of the recording "
        f"itself, {after} after perturbations."
    )


def _rows(found: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    yield "all", _cells(found["summary"])
    for what in TABLES:
        for name, figures in found[f"by_{what}"].items():
            yield f"{what} {name}", _cells(figures)


def _cells(figures: dict[str, Any]) -> list[str]:
    return [_cell(key, figures[key]) for key, _ in COLUMNS]


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    return str(value) if key in ("injected", "detected") else f"{value:.2f}"
