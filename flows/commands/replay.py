"""``reveal lab replay``: faults that this machine cannot have, over a recording of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.commands.campaign import figure_table
from flows.commands.evaluating import put_section
from flows.output import emit, progress


def replay(
    store: options.Store = None,
    host: options.Hosts = "*",
    start: options.Start = None,
    end: options.End = None,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Faults, as far as they fit.")] = 22,
    profile: options.Profile = None,
    seed: options.Seed = None,
    markdown: options.Markdown = None,
    json: options.Json = False,
) -> None:
    """Replay faults of GPUs, NUMA and the clock over a healthy recording, and judge what is made of them.

    The recording's machine has no such devices: two GPUs, a second NUMA node and hardware counters are made
    up beside what was recorded. A model is fitted on the first 40 % of the range, and the faults are written
    into a copy of the rest. The store is not changed.
    """
    from flows.settings import load_settings

    settings = load_settings()
    with progress("Replaying") as say:
        from tasks.campaign_report import replay_heading, replay_markdown
        from tasks.replaying import replay_faults

        document = replay_faults(
            store or settings.store,
            host=host,
            start=start,
            end=end,
            profile=profile or settings.method.profile,
            overrides=settings.method.overrides,
            count=runs,
            seed=seed if seed is not None else settings.method.seed,
            say=say,
        )
    if markdown is not None:
        put_section(markdown, "lab replay", replay_markdown(document))
    emit(document, as_json=json, text=lambda console: show(console, document, replay_heading(document)))


def show(console: Console, document: dict[str, Any], heading: str) -> None:
    """Print what became of replayed faults."""
    from tasks.campaign_report import notes

    console.print(heading)
    console.print(figure_table(document))
    for note in notes(document):
        console.print(note, markup=False)
