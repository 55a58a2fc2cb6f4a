"""What a person sees of the demo: what happens now, how long it will take, and the table at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

LINE_EVERY_S = 30.0
"""Without a terminal a line of progress is printed this often."""
STEP_S = 0.5


class DemoView:
    """Progress on standard error: a bar on a terminal, now and then a line elsewhere.

    Parameters
    ----------
    total_s
        How long the demo will take.
    """

    def __init__(self, total_s: float) -> None:
        self.total_s = total_s
        self.console = Console(file=sys.stderr, highlight=False)
        self._began = time.monotonic()
        self._told = 0.0
        columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[left]}")
        # Twice a second: drawing is work of the very machine that is being watched.
        self._progress = Progress(*columns, console=self.console, transient=True, refresh_per_second=2)
        self._task = self._progress.add_task("Starting", total=total_s, left="")

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self.console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began

    def tell(self, text: str) -> None:
        """Print a line that stays: something has happened."""
        minutes, seconds = divmod(int(self.elapsed_s), 60)
        self._progress.console.print(f"[dim]{minutes}:{seconds:02d}[/dim]  {text}", soft_wrap=True)
        self._told = self.elapsed_s

    def now(self, text: str) -> None:
        """Show what is happening now."""
        left = max(0.0, self.total_s - self.elapsed_s)
        shown = f"about {left:.0f} s left" if left else "any moment"
        self._progress.update(
            self._task, description=text, completed=min(self.elapsed_s, self.total_s), left=shown
        )
        if not self.console.is_terminal and self.elapsed_s - self._told >= LINE_EVERY_S:
            self.tell(f"{text} ({shown})")

    def wait(self, seconds: float, text: str, check: Callable[[], None]) -> None:
        """Wait, showing what for; ``check`` is called twice a second and raises if something went wrong."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            check()
            self.now(text)
            time.sleep(min(STEP_S, left))


def show_result(console: Console, document: dict[str, Any]) -> None:
    """Print the table of faults and incidents, what was false, and where to look further."""
    table = Table(title="What was injected, and what Reveal found", title_justify="left", header_style="bold")
    for column in ("fault injected", "at (UTC)", "incident found", "delay", "subsystem", "likely cause"):
        table.add_column(column, overflow="fold", justify="right" if column == "delay" else "left")
    for fault in document["faults"]:
        table.add_row(fault["fault"], str(fault["start"])[11:19], *_found(fault))
    console.print(table)
    found = sum(fault["found"] for fault in document["faults"])
    right = sum(bool(fault["subsystem_right"]) for fault in document["faults"])
    count = len(document["faults"])
    console.print(f"{found} of {count} faults found, {right} with the right subsystem first; ", end="")
    false = document["false_incidents"]
    console.print(f"{len(false)} false incidents" + (f": {', '.join(false)}" if false else ""))
    for note in document["notes"]:
        console.print(f"Note: {note}", markup=False)
    console.print(f"\n[bold]Report:[/bold] {document['report']}", soft_wrap=True)
    console.print(f"Prefect's pages on this run: {document['prefect']}", soft_wrap=True, markup=False)
    console.print(f"MLflow's pages on this run:  {document['mlflow']}", soft_wrap=True, markup=False)


def _found(fault: dict[str, Any]) -> tuple[str, str, str, str]:
    if not fault["found"]:
        return "[red]missed[/red]", "", "", ""
    subsystem = str(fault["found_subsystem"])
    cause = str(fault["found_cause"] or "none known")
    return (
        str(fault["incident"]),
        f"{fault['delay_s']:+.1f} s",
        subsystem
        if fault["subsystem_right"]
        else f"[yellow]{subsystem}[/yellow] (it is {fault['subsystem']})",
        cause if fault["cause_right"] else f"[yellow]{cause}[/yellow]",
    )
