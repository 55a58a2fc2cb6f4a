"""What commands show: a JSON document or a text on standard output, progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Say = Callable[[str], None]


def emit(document: Any, *, as_json: bool, text: Callable[[Console], None]) -> None:
    """Print a result: the document with ``as_json``, else what ``text`` prints on a console."""
    if as_json:
        sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
    else:
        # A pipe has no width of its own; this one holds every table.
        console = Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 120)
        text(console)
    sys.stdout.flush()


@contextmanager
def progress(title: str) -> Iterator[Say]:
    """Show what is happening on a terminal while the block runs; yields a function that changes the text.

    Nothing is shown where standard error is no terminal. Whatever a library prints on standard output
    meanwhile goes to standard error, so that a JSON document stays alone.
    """
    console = Console(file=sys.stderr, highlight=False)
    with redirect_stdout(sys.stderr):
        if not console.is_terminal:
            yield lambda _text: None
            return
        columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
        with Progress(*columns, console=console, transient=True, refresh_per_second=5) as bar:
            task = bar.add_task(title)
            yield lambda text: bar.update(task, description=text)


def human_bytes(size: float) -> str:
    """Return a size for people.

    >>> human_bytes(123_456)
    '123 kB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(size) < 1000:
            return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
