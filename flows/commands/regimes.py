"""``reveal regimes``: hosts that stay out of their habits."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.output import emit
from flows.settings import load_settings


def list_command(store: options.Store = None, json: options.Json = False) -> None:
    """List the hosts that are, or were last, held as another regime."""
    from tasks.following import list_regimes

    found = list_regimes(store or load_settings().store)
    emit(found, as_json=json, text=lambda console: _show(console, found))


def acknowledge(
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="A host, or a pattern: 'node-*'.")],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, kept with it.")] = "",
    store: options.Store = None,
    json: options.Json = False,
) -> None:
    """Accept a host's change as its new normal."""
    from tasks.following import acknowledge_regimes

    done = acknowledge_regimes(store or load_settings().store, host=host, why=why)
    emit(done, as_json=json, text=lambda console: _show(console, done))


def _show(console: Console, regimes: list[dict[str, Any]]) -> None:
    if not regimes:
        console.print("No host has been held as another regime.")
    for regime in regimes:
        if regime["held"]:
            state = "held"
        elif regime["until"]:
            state = f"over since {regime['until']}"
        else:
            state = f"acknowledged at {regime['acknowledged']} by {regime['by']}"
        why = f": {regime['why']}" if regime["why"] else ""
        console.print(f"{regime['host']}  since {regime['since']}  {state}{why}", markup=False)
