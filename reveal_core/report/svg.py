"""Geometry of the static plots: what a page shows on paper, without JavaScript, and until a plot is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from reveal_core.evaluate.matching import FaultMatch
from reveal_core.formatting import format_number
from reveal_core.incidents import Incident
from reveal_core.report.plot_types import MetricPlot
from reveal_core.report.plots import MARGIN_S
from reveal_core.report.types import HostReport
from reveal_core.report.words import subsystem_name

_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_CHARACTER = 6.0
"""Mean width of a character of the drawings' text."""
_FLOOR = 0.1
"""The score axis begins here, or at the lowest score if that is higher: calm is calm, however calm."""


@dataclass(frozen=True)
class Tick:
    """A mark of an axis: its place in the drawing and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Bar:
    """A span of time in the drawing, with what it stands for.

    ``text`` stands within it, ``name`` beside it: empty where there is no room up to the next one.
    """

    x: float
    width: float
    subsystem: str = ""
    text: str = ""
    name: str = ""
    found: bool = True


@dataclass(frozen=True)
class Drawing:
    """A static plot; lengths are in units of its view box.

    ``left``, ``right``, ``top``, ``bottom`` bound the area of the line; ``path`` is an SVG path. ``mark``
    is the height of the threshold, ``band`` top and height of the normal band.
    """

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    path: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    spans: tuple[Bar, ...]
    faults: tuple[Bar, ...] = ()
    gaps: tuple[Bar, ...] = ()
    mark: float | None = None
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class _Scale:
    """A linear scale from data to drawing."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.first + min(max(share, 0.0), 1.0) * (self.last - self.first), 1)


def timeline_drawing(host: HostReport, faults: Sequence[FaultMatch]) -> Drawing:
    """Return the drawing of a host's scores with its incidents, gaps and the faults injected into it."""
    width, left, right, top, bottom = 1000, 52.0, 988.0, 12.0, 190.0
    x = _Scale(_ms(host.start), _ms(host.end), left, right)
    known = [r for r in host.timeline.ratio if r is not None]
    low = math.log10(max(min([*known, 0.5]), _FLOOR))
    high = math.log10(max([*known, 1.0]) * 1.6)
    y = _Scale(low, high, bottom, top)
    decades = [f * 10.0**e for e in range(-2, 5) for f in (1, 3)]
    return Drawing(
        width=width,
        height=266 if faults else 242 if host.incidents else 214,
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        path=_path([x(t) for t in host.timeline.times_ms], [_y(r, y, log=True) for r in host.timeline.ratio]),
        x_ticks=time_ticks(host.start, host.end, left, right, 9),
        y_ticks=tuple(Tick(y(math.log10(d)), f"{d:g}×") for d in decades if low <= math.log10(d) <= high),
        spans=_named(
            [
                _bar(x, i.incident.start, i.incident.end, i.incident.subsystem, str(i.number))
                for i in host.incidents
            ],
            [subsystem_name(i.incident.subsystem) for i in host.incidents],
            right,
        ),
        faults=_named(
            [replace(_bar(x, m.fault.start, m.fault.end, m.fault.subsystem), found=m.found) for m in faults],
            [m.fault.name for m in faults],
            right,
        ),
        gaps=tuple(_bar(x, start, end) for start, end in host.gaps),
        mark=y(0.0),
    )


def metric_drawing(plot: MetricPlot, incident: Incident) -> Drawing:
    """Return the drawing of a metric around an incident, against its normal band."""
    left, right, top, bottom = 44.0, 356.0, 8.0, 138.0
    first, last = _ms(incident.start) - MARGIN_S * 1e3, _ms(incident.end) + MARGIN_S * 1e3
    x = _Scale(first, last, left, right)
    known = [v for v in (*plot.values, plot.low, plot.high) if v is not None]
    low, high = min([*known, 0.0] if min(known) < 0.3 * max(known) else known), max(known)
    room = 0.06 * (high - low) or max(abs(high) * 0.1, 0.5)
    y = _Scale(low - (room if low else 0.0), high + room, bottom, top)
    band = None
    if plot.low is not None and plot.high is not None:
        band = (y(plot.high), max(y(plot.low) - y(plot.high), 1.0))
    return Drawing(
        width=364,
        height=160,
        left=left,
        right=right,
        top=top,
        bottom=bottom,
        path=_path([x(t) for t in plot.times_ms], [_y(v, y) for v in plot.values]),
        x_ticks=time_ticks(
            datetime.fromtimestamp(first / 1e3, UTC), datetime.fromtimestamp(last / 1e3, UTC), left, right, 4
        ),
        y_ticks=tuple(Tick(y(v), format_number(v)) for v in _nice(y.low, y.high, 3)),
        spans=(_bar(x, incident.start, incident.end, incident.subsystem),),
        band=band,
    )


def _ms(time: datetime) -> float:
    return time.timestamp() * 1e3


def _bar(x: _Scale, start: datetime, end: datetime, subsystem: str = "", text: str = "") -> Bar:
    first = x(_ms(start))
    return Bar(first, round(max(x(_ms(end)) - first, 2.0), 1), subsystem, text)


def _named(bars: Sequence[Bar], names: Sequence[str], right: float) -> tuple[Bar, ...]:
    ends = [*(bar.x for bar in bars[1:]), right]
    return (
        tuple(
            replace(bar, name=name if bar.x + bar.width + len(name) * _CHARACTER + 8 <= end else "")
            for bar, name, end in zip(bars, names, ends, strict=True)
        )
        if bars
        else ()
    )


def _y(value: float | None, scale: _Scale, *, log: bool = False) -> float | None:
    if value is None:
        return None
    return scale(math.log10(value) if log else value)


def _path(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    parts = []
    pen_down = False
    for place, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if y is None:
            pen_down = False
            continue
        parts.append(f"{'L' if pen_down else 'M'}{x:g} {y:g}")
        if not pen_down and (place + 1 == len(ys) or ys[place + 1] is None):
            parts.append("h.01")  # a lone point shows as a dot only where the line has some length
        pen_down = True
    return "".join(parts)


def time_ticks(
    start: datetime, end: datetime, left: float, right: float, most: int, *, room: float | None = None
) -> tuple[Tick, ...]:
    """Return marks of a time axis from ``left`` to ``right``, `most` or a few fewer, at round times.

    One whose text would reach beyond ``right`` is left out: nearer than ``room``, or by its text's width in a
    drawing.
    """
    first, last = start.timestamp(), end.timestamp()
    x = _Scale(first, last, left, right)
    step = next((s for s in _STEPS_S if (last - first) / s <= most), math.ceil((last - first) / most))
    times = range(math.ceil(first / step) * step, math.floor(last) + 1, step)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%m-%d"
    ticks = (Tick(x(t), datetime.fromtimestamp(t, UTC).strftime(form)) for t in times)
    return tuple(
        tick
        for tick in ticks
        if tick.at <= right - (_CHARACTER * len(tick.text) / 3 if room is None else room)
    )


def _nice(low: float, high: float, about: int) -> list[float]:
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((f * power for f in (1.0, 2.0, 5.0, 10.0)), key=lambda s: abs(s - rough))
    first = math.ceil(low / step)
    return [(first + n) * step for n in range(about * 3) if (first + n) * step <= high]
