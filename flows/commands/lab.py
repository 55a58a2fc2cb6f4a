"""``reveal lab``: the workload and the faults."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flows import options
from flows.output import emit, progress
from flows.signals import signals
from reveal_core.errors import UnavailableError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_duration


def list_command(json: options.Json = False) -> None:
    """List the faults, and of those that cannot be injected here why."""
    from reveal_core.lab.faults import list_faults

    faults = [
        {
            "fault": fault.name,
            "subsystem": fault.subsystem,
            "title": fault.title,
            "available": fault.available,
            "reason": fault.reason,
            "description": fault.description,
            "causes": list(fault.causes),
            "same_signals": list(fault.same_signals),
            "intensity": fault.intensity,
            "by_name": fault.by_name,
        }
        for fault in list_faults()
    ]

    def show(console: Console) -> None:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for column in ("fault", "subsystem", "what it does"):
            table.add_column(column, overflow="fold")
        for fault in faults:
            note = fault["title"] if fault["available"] else f"[red]not here:[/red] {fault['reason']}"
            if fault["by_name"]:
                note = f"{note} (only when asked for by name)"
            table.add_row(str(fault["fault"]), str(fault["subsystem"]), str(note))
        console.print(table)

    emit(faults, as_json=json, text=show)


def workload(
    duration: Annotated[
        str | None, typer.Option("--duration", metavar="TIME", help="How long.", show_default="until Ctrl-C")
    ] = None,
    directory: Annotated[
        Path,
        typer.Option(
            "--dir", metavar="DIR", help="Where its scratch files go; on the disk that faults are to hit."
        ),
    ] = Path(),
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of data and jitter.")] = 0,
    variant: Annotated[
        str,
        typer.Option(
            "--variant", metavar="NAME", help="What it is like: training, checkpoints or inference."
        ),
    ] = "training",
    json: options.Json = False,
) -> None:
    """Run an ML-like job of two processes, until the time is over or Ctrl-C."""
    from reveal_core.lab.workload import Workload

    seconds = parse_duration(duration) if duration else None
    if not directory.is_dir():
        raise UnavailableError(f"--dir {directory} is no folder")
    title = f"Workload running for {duration}" if duration else "Workload running until Ctrl-C"
    with (
        signals() as asked,
        progress("Starting the workload") as say,
        Workload(directory, seed=seed, variant=variant) as job,
    ):
        began = time.monotonic()
        say(f"{title}, over {job.transport}")
        while not asked.stop.wait(0.2) and (seconds is None or time.monotonic() - began < seconds):
            if not job.running:
                raise UnavailableError("the workload ended by itself: one of its processes was killed")
        elapsed = time.monotonic() - began
        steps = job.steps()
        result = {
            "variant": job.variant,
            "transport": job.transport,
            "reason": job.reason,
            "seconds": round(elapsed, 3),
            "steps": steps,
            "steps_per_s": round(steps / elapsed, 2) if elapsed else 0.0,
        }

    def show(console: Console) -> None:
        why = f" ({result['reason']})" if result["reason"] else ""
        console.print(
            f"{result['steps']} steps in {elapsed:.0f} s, {result['steps_per_s']} a second, "
            f"over {result['transport']}{why}"
        )

    emit(result, as_json=json, text=show)


def inject_command(
    fault: Annotated[str, typer.Argument(metavar="FAULT", help="Its name, from 'reveal lab list'.")],
    duration: Annotated[str, typer.Option("--duration", metavar="TIME", help="How long it lasts.")] = "8s",
    intensity: Annotated[
        float, typer.Option("--intensity", min=0.05, max=10.0, metavar="X", help="1 is the usual strength.")
    ] = 1.0,
    json: options.Json = False,
) -> None:
    """Inject a real fault for a while and undo it; Ctrl-C undoes it at once."""
    from reveal_core.lab.faults import inject
    from reveal_core.lab.workload import find_workload

    seconds = parse_duration(duration)
    with signals() as asked, progress(f"Injecting {fault} for {duration}"):
        run = inject(
            fault, duration_s=seconds, intensity=intensity, workload=find_workload(), stop=asked.stop
        )
    result: dict[str, Any] = {
        "fault": run.name,
        "onset": iso(run.onset),
        "end": iso(run.end),
        "seconds": round((run.end - run.onset).total_seconds(), 3),
        "how": run.how,
    }
    emit(
        result,
        as_json=json,
        text=lambda console: console.print(
            f"{run.name} from {result['onset']} for {result['seconds']:.1f} s: {run.how}; undone"
        ),
    )


def clean(json: options.Json = False) -> None:
    """Undo what a killed workload or fault left behind."""
    from reveal_core.lab.journal import clean_up

    lines = clean_up()
    emit(
        {"undone": lines},
        as_json=json,
        text=lambda console: console.print("\n".join(lines) or "nothing to undo", markup=False),
    )
