"""``reveal maintain``: keeping a store small and in order."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console

from flows import options
from flows.dispatch import run_pipeline
from flows.output import emit, human_bytes
from flows.settings import load_settings


def maintain(
    store: options.Store = None,
    host: options.Hosts = "*",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")
    ] = False,
    flow: options.Flow = None,
    json: options.Json = False,
) -> None:
    """Remove what is past its age, down-sample and merge telemetry, and clear up after writers that died.

    Ages are settings: retention.raw, retention.telemetry and others. With --host only telemetry, scores and
    ledgers of these hosts are looked at.
    """
    settings = load_settings()
    document = run_pipeline(
        "maintain_store",
        "Keeping the store in order",
        flow=flow,
        store=store or settings.store,
        host=host,
        retention=settings.retention.plain(),
        dry_run=dry_run,
        hours_per_task=settings.fleet.hosts_per_task,
    )
    emit(document, as_json=json, text=lambda console: _show(console, document))


def _show(console: Console, document: dict[str, Any]) -> None:
    lines = [
        f"{row['kind']}: {_files(row['count'])} past their age, {human_bytes(row['bytes'])}"
        for row in document["removed"]
        if row["count"]
    ]
    for name, verb in (("downsampled", "down-sampled"), ("compacted", "merged")):
        counts = document[name]
        if counts["segments"]:
            sizes = f"{human_bytes(counts['bytes_before'])} to {human_bytes(counts['bytes_after'])}"
            lines.append(f"telemetry: {_files(counts['segments'])} {verb} into {counts['into']:,}, {sizes}")
    lines += [f"{row['key']}: {row['reason']}" for row in document["orphans"]]
    if document["dry_run"]:
        console.print("This would be done; nothing was changed." if lines else "Nothing would be done.")
    elif not lines:
        console.print("Nothing was to be done.")
    for line in [*lines, *(f"kept: {line}" for line in document["kept"])]:
        console.print(line, markup=False, soft_wrap=True)


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"
