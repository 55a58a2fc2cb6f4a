"""What a source is: a thing that can say whether it is here, and be read at a tick."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import why_unreadable
from reveal_core.collect.parts import Part


def left_out_note(count: int, things: str, most: int | None) -> list[str]:
    """Return the note on what is not read because there is too much of it; none where nothing is left out.

    >>> left_out_note(2, "disks are in use", 128)
    ['2 more disks are in use than the 128 that are read']
    """
    return [f"{count} more {things} than the {most} that are read"] if count > 0 else []


def _nothing() -> None:
    """Nothing is left to parse where every read is parsed at once."""


class Source(ABC):
    """Base of every source.

    A source opens its files at construction, each as a `Part`, and fills the row of its columns at every
    read. It never raises for what a host lacks: a part that fails makes its samples missing.

    Parameters
    ----------
    root
        Where the host's files begin; ``/`` on a live host.
    columns
        The row to fill.

    Attributes
    ----------
    name
        As ``reveal doctor`` prints it.
    period_ms
        How often it wants to be read; the loop rounds up to a multiple of its tick.
    detached
        Its reads may hang, in a driver, firmware or network, so each part's ``file.read()`` runs in a thread
        that can be abandoned (see `reveal_core.collect.lanes`). What it says comes a tick later then. Like
        the period, a source may settle it for itself when it is opened.
    parts
        What is read at each tick.
    rescan_ms
        How often it looks for what came and went; 0 where nothing does.
    reads_to_rescan
        Reads until it looks again.
    settle
        Called before it looks: what was read of parts that are closed then may still have to be parsed.
    """

    name: ClassVar[str]
    period_ms: int = 100
    detached: bool = False
    rescan_ms: ClassVar[int] = 0

    def __init__(self, root: Path, columns: Columns) -> None:
        self.root = root
        self.columns = columns
        self.parts: list[Part] = []
        self.reads_to_rescan = 0
        self.settle: Callable[[], None] = _nothing

    @abstractmethod
    def probe(self) -> str | None:
        """Return why this source is not here, in one line; None if it is."""

    @abstractmethod
    def open(self) -> None:
        """Make the parts; called once, after `probe` found nothing amiss."""

    def refresh(self) -> None:
        """Look for what came and went if it is time; called before every read, also of a detached source."""
        if not self.rescan_ms:
            return
        if self.reads_to_rescan == 0:
            self.settle()
            self.rescan()
            self.reads_to_rescan = max(1, self.rescan_ms // self.columns.period_ms)
        self.reads_to_rescan -= 1

    def rescan(self) -> None:  # noqa: B027 - most sources have nothing to do here
        """Look for what came and went, every ``rescan_ms``. Must not hang."""

    def read(self) -> list[int]:
        """Fill the row of samples and return it; it is the same list every time."""
        self.refresh()
        for part in self.parts:
            part.update()
        return self.columns.row

    def close(self) -> None:
        """Close every file."""
        for part in self.parts:
            part.file.close()

    @property
    def facts(self) -> dict[str, Any]:
        """What it knows of the host beside its samples: goes into each segment's facts."""
        return {}

    @property
    def notes(self) -> list[str]:
        """What a person should know about this source, for ``reveal doctor``."""
        return []

    def path(self, relative: str) -> Path:
        """Return a path of the host under the root."""
        return self.root / relative

    def missing(self, *relative: str, hint: str = "") -> str | None:
        """Return why none of some paths can be read, or None if one can; a usual form of `probe`."""
        reason = None
        for name in relative:
            reason = why_unreadable(self.path(name))
            if reason is None:
                return None
        return f"{reason}: {hint}" if hint and reason else reason
