"""Snapshots of ``/proc/interrupts``, each below a line with its time; the collector parses the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.sources.interrupts import InterruptsPart
from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.streams import identity_of, lines, opened
from reveal_core.importing.times import Times
from reveal_core.importing.types import NO_TIME, Chunk, ImportedColumn, ImportOptions, Layout

SOURCE = "interrupts"
STAMP = re.compile(r"Timestamp\s*[:|]\s*(\S+)\s*$")
"""The line before a snapshot."""
_MOST_ROWS = 256


def read_interrupts(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read one log."""
    rows = _Rows(path, options)
    times = Times("s", None, findings)
    table: list[str] = []
    stamp: tuple[str, int] | None = None
    snapshots = 0
    with opened(path) as file:
        for number, (text, whole) in enumerate(lines(file), 1):
            found = STAMP.match(text)
            if found is None and whole:
                table.append(text)
                continue
            if stamp is not None and found is not None:
                yield from rows.add(_time(times, stamp), table, stamp[1], findings)
            if found is None:
                findings.skip("the last snapshot: the file ends within it", line=number)
                stamp = None
                break
            stamp, table = (found[1], number), []
            snapshots += 1
    if not snapshots:
        raise UsageError(f"{findings.where} has no line 'Timestamp: SECONDS' before a table of interrupts")
    if stamp is not None:
        yield from rows.add(_time(times, stamp), table, stamp[1], findings)
    for name in sorted(rows.columns.unknown):
        findings.skip("lines of interrupts that the catalogue does not know", item=name)
    if rows.part.cells_left_out:
        findings.skip("counts of devices beyond the most that are kept", count=rows.part.cells_left_out)
    yield from rows.end()


def _time(times: Times, stamp: tuple[str, int]) -> int:
    return int(times.ns([stamp[0]], [stamp[1]])[0])


class _Rows:
    """What the collector's parser makes of the tables, as chunks."""

    def __init__(self, path: Path, options: ImportOptions) -> None:
        self.columns = Columns(SOURCE, 1000, load_catalog(), load_left_out())
        self.part = InterruptsPart(HostFile(path), self.columns)
        self.host = options.host or "imported"
        self.identity = identity_of(path)
        self.file = path.name
        self.layout: Layout | None = None
        self.slots = 0
        self.ts: list[int] = []
        self.counts: list[list[int]] = []

    def add(self, ts: int, table: list[str], line: int, findings: Findings) -> Iterator[Chunk | Layout]:
        if ts == NO_TIME:
            return
        if not self.part.accept("\n".join(["", *table]).lstrip("\n").encode() + b"\n", None):
            reason = next(iter(self.columns.errors)).partition(": ")[2]
            findings.skip("snapshots that are no table of interrupts", line=line, detail=reason)
            return
        if len(self.columns.slots) != self.slots:
            yield from self.end()
            self.slots = len(self.columns.slots)
            self.layout = Layout(
                self.host,
                self.identity,
                {
                    "cpu": {"model": None, "logical": len(self.part.cores) or None},
                    "gpus": [],
                    "imported": {"kind": "stats-collect", "file": self.file},
                },
                (),
                tuple(
                    ImportedColumn(column.metric, column.channel.instance, SOURCE)
                    for column in self.columns.slots
                    if column is not None
                ),
            )
        self.ts.append(ts)
        self.counts.append(list(self.columns.row))
        if len(self.ts) >= _MOST_ROWS:
            yield from self._take()

    def _take(self) -> Iterator[Chunk]:
        if self.layout is not None and self.ts:
            counts = np.array(self.counts, dtype=np.int64).T.copy()
            yield Chunk(
                self.layout,
                np.array(self.ts, dtype=np.int64),
                np.empty((0, len(self.ts)), dtype=np.float32),
                counts,
            )
        self.ts, self.counts = [], []

    def end(self) -> Iterator[Chunk | Layout]:
        """Yield what is left, and that it was the last of its layout."""
        yield from self._take()
        if self.layout is not None:
            yield self.layout
            self.layout = None
