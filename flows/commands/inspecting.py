"""``reveal doctor`` and ``reveal channels``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from flows import options
from flows.dispatch import check_prefect
from flows.environment import prefect_api_url
from flows.output import emit, progress
from flows.settings import ADAPTIVE, load_settings, mlflow_uri
from reveal_core.collect.adaptive import DENSE_MS
from reveal_core.timespec import parse_duration

Root = Annotated[
    Path | None, typer.Option("--root", metavar="DIR", help="Where /proc and /sys are.", show_default="/")
]


def doctor(store: options.Store = None, root: Root = None, json: options.Json = False) -> None:
    """Say what can be measured on this machine and what not and why, and whether store and servers answer."""
    settings = load_settings()
    place = store or settings.store
    with progress("Looking around"):
        from tasks.inspecting import inspect_machine

        found = inspect_machine(
            root=str(root or settings.collect.root),
            tick_ms=_tick_ms(settings.collect.interval),
            store=place,
            tracking_uri=mlflow_uri(settings, place),
            prefect_url=prefect_api_url(),
            check_prefect=check_prefect,
        )
    emit(found, as_json=json, text=lambda console: _show_doctor(console, found))


def _tick_ms(interval: str) -> int:
    if interval == ADAPTIVE:
        return DENSE_MS
    return max(1, round(parse_duration(interval) * 1000))


def _show_doctor(console: Console, found: dict[str, Any]) -> None:
    here = [source for source in found["sources"] if source["available"]]
    absent = [source for source in found["sources"] if not source["available"]]
    console.print(f"{found['host']}: {found['channels']} channels of {len(here)} sources")
    console.print(
        "  ".join(f"{source['source']}\N{NO-BREAK SPACE}{source['channels']}" for source in here),
        markup=False,
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("source", overflow="fold")
    table.add_column("note", overflow="fold")
    for source in here:
        if source["reason"]:
            table.add_row(source["source"], escape(source["reason"]))
    reasons: dict[str, list[str]] = {}
    for source in absent:
        reasons.setdefault(source["reason"], []).append(source["source"])
    for reason, names in reasons.items():
        table.add_row(f"[dim]{', '.join(names)}[/dim]", f"[dim]not here:[/dim] {escape(reason)}")
    if table.rows:
        console.print(table)
    for name, address in (("store", "url"), ("mlflow", "uri"), ("prefect", "api")):
        part = found[name]
        mark = "[green]ok[/green]" if part["available"] else "[red]not available[/red]"
        where = f"{part[address]}: " if part["available"] and part[address] else ""
        console.print(f"{name:<8} {mark}  ", end="")
        console.print(f"{where}{part['reason']}", markup=False, soft_wrap=True)


def channels(root: Root = None, json: options.Json = False) -> None:
    """List every channel that the collector would sample on this machine."""
    settings = load_settings()
    from tasks.inspecting import list_channels

    found = list_channels(str(root or settings.collect.root), _tick_ms(settings.collect.interval))

    def show(console: Console) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in ("channel", "subsystem", "kind", "unit", "source", "period"):
            table.add_column(column, overflow="fold", justify="right" if column == "period" else "left")
        for channel in found:
            table.add_row(
                channel["name"],
                channel["subsystem"],
                channel["kind"],
                channel["unit"],
                channel["source"],
                f"{channel['period_ms']} ms",
            )
        console.print(table)

    emit(found, as_json=json, text=show)
