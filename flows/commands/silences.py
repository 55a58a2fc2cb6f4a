"""``reveal silences`` and ``reveal alerts``: who is told of what, and when nobody is."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.output import emit
from flows.settings import load_settings
from reveal_core.errors import UnavailableError


def list_command(
    past: Annotated[bool, typer.Option("--past", help="Those that are over too.")] = False,
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """List silences and maintenance windows."""
    from tasks.silencing import list_silences

    found = list_silences(store or load_settings().store, past=past)
    emit(found, as_json=json, text=lambda console: _show(console, found))


def add_command(
    host: Annotated[str, typer.Option("--host", metavar="GLOB", help="Hosts: 'rack-7-*'.")],
    end: Annotated[str, typer.Option("--end", metavar="TIME", help="ISO 8601 or relative: +4h.")],
    start: Annotated[str, typer.Option("--start", metavar="TIME", help="As --end.")] = "now",
    subsystem: Annotated[
        str, typer.Option("--subsystem", metavar="GLOB", help="cpu, gpu, memory, network or storage.")
    ] = "*",
    cause: Annotated[
        str, typer.Option("--cause", metavar="GLOB", help="Ids of causes, as docs/causes.md has them.")
    ] = "*",
    every: Annotated[
        str, typer.Option("--every", metavar="day|week", help="Comes again: a maintenance window.")
    ] = "",
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, kept with it.")] = "",
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Tell nobody of matching incidents for a while; they are found and reported all the same."""
    from tasks.silencing import add_silence

    silence = add_silence(
        store or load_settings().store,
        host=host,
        subsystem=subsystem,
        cause=cause,
        start=start,
        end=end,
        every=every,
        why=why,
    )
    emit(silence, as_json=json, text=lambda console: _show(console, [silence]))


def end_command(
    silence: Annotated[str, typer.Argument(metavar="ID", help="Its id, from the list.")],
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """End a silence now."""
    from tasks.silencing import end_silence

    ended = end_silence(store or load_settings().store, silence)
    emit(ended, as_json=json, text=lambda console: _show(console, [ended]))


def _show(console: Console, silences: list[dict[str, Any]]) -> None:
    if not silences:
        console.print("No silence.")
    for one in silences:
        what = [f"host {one['host']}"]
        what += [f"{name} {one[name]}" for name in ("subsystem", "cause") if one[name] != "*"]
        again = f", every {one['every']}" if one["every"] else ""
        why = f": {one['why']}" if one["why"] else ""
        console.print(
            f"{one['id']}  {one['state']}  {one['start']} to {one['end']}{again}  {', '.join(what)}  "
            f"by {one['by']}{why}",
            markup=False,
            soft_wrap=True,
        )


def try_command(json: options.Json = False) -> None:
    """Send a test notice through every channel that the settings name."""
    from tasks.alerting import try_channels

    results = try_channels(load_settings().alerts.plain())
    emit(
        results,
        as_json=json,
        text=lambda console: console.print(
            "\n".join(f"{row['channel']}: {row['reason'] or 'taken'}" for row in results), markup=False
        ),
    )
    failed = [row for row in results if row["reason"]]
    if failed:
        raise UnavailableError(f"{len(failed)} of {len(results)} channels did not take the test")
