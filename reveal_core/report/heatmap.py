"""Geometry of the heat map: hosts by time, each cell the highest score over threshold."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from reveal_core.report.attention import Rank, rank
from reveal_core.report.svg import Tick, time_ticks
from reveal_core.report.types import HostReport, IncidentReport, Report
from reveal_core.report.words import natural, subsystem_name

MAX_COLUMNS = 120
"""Cells of a row: of an hour, 30 s each."""
LEVELS = (0.8, 1.0, 2.0, 5.0)
"""Scores over threshold from which on a cell is darker; from 1 on it is beyond the threshold."""
ROWS_SHOWN = 12
"""Quiet hosts that are shown as they are; more are drawn together and open on demand."""
MAX_STRUCK = 200
"""Hosts with incidents that have a row with marks; the rest are drawn with the quiet ones."""
ROW = 10
"""Height of a row in the drawing's units, of which `_CELL` are the cell."""
_CELL = 8
_TOGETHER = 5.0
"""Marks nearer than this share of the width, in percent, would lie over each other: they become one."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Mark:
    """An incident, or several close together, on the heat map: ``left`` in percent, ``row`` from 0."""

    left: float
    row: int
    text: str
    subsystem: str
    anchor: str
    label: str


@dataclass(frozen=True)
class HeatBlock:
    """Rows of a heat map, drawn in ``columns`` by ``ROW * len(names)`` units.

    ``cells`` are SVG paths of all cells of a level, calm ones first (see `LEVELS`); ``gaps`` is the path of
    lines where nothing could be scored.
    """

    names: tuple[str, ...]
    columns: int
    height: int
    cells: tuple[str, ...]
    gaps: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True)
class HeatMap:
    """The whole map.

    ``struck`` are the hosts with incidents; ``quiet`` the others, ``together`` all those as one row where
    they are too many to show. ``ticks`` lie in percent of the width.
    """

    struck: HeatBlock | None
    quiet: HeatBlock | None
    together: HeatBlock | None
    ticks: tuple[Tick, ...]


def heat_map(report: Report, anchors: Collection[str]) -> HeatMap:
    """Return the heat map of a report; hosts whose incident deserves attention most are first.

    Parameters
    ----------
    report
        The report.
    anchors
        Names within the page to which a mark may lead.
    """
    struck = sorted((host for host in report.hosts if host.incidents), key=_foremost)
    quiet = sorted((host for host in report.hosts if not host.incidents), key=lambda host: natural(host.host))
    shown, quiet = struck[:MAX_STRUCK], struck[MAX_STRUCK:] + quiet
    points = max(len(host.timeline.times_ms) for host in report.hosts)
    # Two points to a cell: with one, cells between two points would look like gaps.
    columns = int(np.clip(points // 2, 1, MAX_COLUMNS))
    start, end = report.start, report.end
    rows = {host.host: highest(host, start, end, columns) for host in report.hosts}
    marks = [mark for n, host in enumerate(shown) for mark in _marks(host, n, start, end, set(anchors))]
    together = None
    if len(quiet) > ROWS_SHOWN:
        known = np.stack([rows[host.host] for host in quiet])
        some = np.isfinite(known).any(axis=0)
        most = np.where(some, np.where(np.isfinite(known), known, -np.inf).max(axis=0), np.nan)
        together = _block(("all of them",), [most], columns, ())
    return HeatMap(
        struck=_block([h.host for h in shown], [rows[h.host] for h in shown], columns, marks)
        if shown
        else None,
        quiet=_block([h.host for h in quiet], [rows[h.host] for h in quiet], columns, ()) if quiet else None,
        together=together,
        ticks=time_ticks(start, end, 0.0, 100.0, 5, room=6.0),
    )


def highest(host: HostReport, start: datetime, end: datetime, columns: int) -> Array:
    """Return a host's highest score over threshold per cell, NaN where nothing could be scored."""
    cells = np.full(columns, -np.inf)
    if host.timeline.times_ms:
        first, last = start.timestamp() * 1e3, end.timestamp() * 1e3
        times = np.array(host.timeline.times_ms, dtype=np.float64)
        ratio = np.array([np.nan if r is None else r for r in host.timeline.ratio])
        place = np.clip((times - first) * columns // (last - first), 0, columns - 1).astype(np.int64)
        known = np.isfinite(ratio)
        np.maximum.at(cells, place[known], ratio[known])
    return np.where(np.isfinite(cells), cells, np.nan)


def _foremost(host: HostReport) -> Rank:
    return min(rank(shown) for shown in host.incidents)


def _block(names: Sequence[str], rows: Sequence[Array], columns: int, marks: Sequence[Mark]) -> HeatBlock:
    cells: list[list[str]] = [[] for _ in range(len(LEVELS) + 1)]
    gaps: list[str] = []
    for n, row in enumerate(rows):
        levels = np.where(np.isfinite(row), np.searchsorted(LEVELS, np.nan_to_num(row), side="right"), -1)
        at = 0
        for level, run in groupby(levels.tolist()):
            width = len(list(run))
            if level < 0:
                gaps.append(f"M{at} {n * ROW + ROW // 2}h{width}")
            else:
                cells[level].append(f"M{at} {n * ROW + (ROW - _CELL) // 2}h{width}v{_CELL}h-{width}z")
            at += width
    return HeatBlock(
        names=tuple(names),
        columns=columns,
        height=ROW * len(rows),
        cells=tuple("".join(parts) for parts in cells),
        gaps="".join(gaps),
        marks=tuple(marks),
    )


def _marks(host: HostReport, row: int, start: datetime, end: datetime, anchors: set[str]) -> list[Mark]:
    span = (end - start).total_seconds()
    groups: list[tuple[float, list[IncidentReport]]] = []
    for shown in host.incidents:
        left = min(max(100 * (shown.incident.start - start).total_seconds() / span, 0.0), 100.0)
        if groups and left - groups[-1][0] < _TOGETHER:
            groups[-1][1].append(shown)
        else:
            groups.append((left, [shown]))
    return [_mark(host, row, left, group, anchors) for left, group in groups]


def _mark(host: HostReport, row: int, left: float, group: list[IncidentReport], anchors: set[str]) -> Mark:
    foremost = min(group, key=rank)
    subsystems = ", ".join(dict.fromkeys(subsystem_name(shown.incident.subsystem) for shown in group))
    numbers = ", ".join(str(shown.number) for shown in group)
    return Mark(
        left=round(left, 2),
        row=row,
        text=str(len(group)) if len(group) > 1 else foremost.incident.subsystem[:1].upper(),
        subsystem=foremost.incident.subsystem,
        anchor=foremost.anchor if foremost.anchor in anchors else "",
        label=f"Incident{'s' if len(group) > 1 else ''} {numbers} on {host.host}: {subsystems}",
    )
