"""Counts at a glance: incidents by subsystem, and incidents per day against the alarm budget."""

from __future__ import annotations

from dataclasses import dataclass

from reveal_core.channels import SUBSYSTEMS
from reveal_core.formatting import counted, format_number
from reveal_core.incidents import OPEN
from reveal_core.report.svg import Tick
from reveal_core.report.types import Report, Trend
from reveal_core.report.words import subsystem_name

_WIDTH, _HEIGHT = 364, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 8.0, 356.0, 20.0, 126.0
_FAR = 5.0
"""An allowance more than this many times the highest count would press the bars flat: it is told in words."""
_MAX_DAYS = 31
"""Days that are drawn; of a longer trend the last."""


@dataclass(frozen=True)
class SubsystemCount:
    """Incidents of one subsystem: how many, how many of them still on, on how many hosts, and their share."""

    name: str
    incidents: int
    open: int
    hosts: int
    share: float


@dataclass(frozen=True)
class DayBar:
    """A day of the trend: a bar from ``y`` down, and the height of what the budget allows, None if off it."""

    x: float
    width: float
    y: float
    height: float
    over: bool
    text: str
    allowed: float | None


@dataclass(frozen=True)
class TrendChart:
    """Bars of incidents per day; lengths are in units of the view box."""

    width: int
    height: int
    bottom: float
    bars: tuple[DayBar, ...]
    ticks: tuple[Tick, ...]


@dataclass(frozen=True)
class DayRow:
    """A day of the trend as a row of a table; ``allowed`` is what the budget allows that day."""

    day: str
    count: int
    host_days: float
    allowed: float
    over: bool


def subsystem_counts(report: Report) -> tuple[SubsystemCount, ...]:
    """Return incidents by subsystem, the most first."""
    found = [shown.incident for shown in report.incidents]
    order = {name: n for n, name in enumerate(SUBSYSTEMS)}
    counts = []
    for name in {incident.subsystem for incident in found}:
        own = [incident for incident in found if incident.subsystem == name]
        counts.append(
            SubsystemCount(
                name=name,
                incidents=len(own),
                open=sum(incident.state == OPEN for incident in own),
                hosts=len({incident.host for incident in own}),
                share=len(own) / len(found),
            )
        )
    return tuple(sorted(counts, key=lambda c: (-c.incidents, order.get(c.name, len(order)), c.name)))


def counts_sentence(counts: tuple[SubsystemCount, ...]) -> str:
    """Return the subsystems with their counts, as a label for the chart: ``network 14, CPU 2``."""
    return ", ".join(f"{subsystem_name(count.name)} {count.incidents}" for count in counts)


def trend_rows(trend: Trend) -> tuple[DayRow, ...]:
    """Return the days of a trend, at most the last `_MAX_DAYS`, with what the budget allows each."""
    rows = [
        DayRow(day.isoformat(), count, host_days, trend.budget * host_days, count > trend.budget * host_days)
        for day, count, host_days in zip(trend.days, trend.counts, trend.host_days, strict=True)
    ]
    return tuple(rows[-_MAX_DAYS:])


def trend_chart(trend: Trend) -> TrendChart:
    """Return the chart of a trend."""
    rows = trend_rows(trend)
    most = max(row.count for row in rows)
    allowed = [row.allowed for row in rows if row.allowed <= _FAR * max(most, 1)]
    top = max([most, *allowed, 1.0]) * 1.08
    scale = (_BOTTOM - _TOP) / top
    pitch = (_RIGHT - _LEFT) / max(len(rows), 5)
    width = min(0.66 * pitch, 34.0)
    bars = []
    for n, row in enumerate(rows):
        height = max(row.count * scale, 1.5 if row.count else 0.0)
        far = row.allowed > top
        bars.append(
            DayBar(
                x=round(_LEFT + n * pitch + (pitch - width) / 2, 1),
                width=round(width, 1),
                y=round(_BOTTOM - height, 1),
                height=round(height, 1),
                over=row.over,
                text=format_number(row.count) if len(rows) <= 16 or row.over else "",
                allowed=None if far else round(_BOTTOM - row.allowed * scale, 1),
            )
        )
    every = -(-len(rows) // 5)
    ticks = tuple(
        Tick(round(_LEFT + (n + 0.5) * pitch, 1), row.day[5:])
        for n, row in enumerate(rows)
        if (len(rows) - 1 - n) % every == 0
    )
    return TrendChart(_WIDTH, _HEIGHT, _BOTTOM, tuple(bars), ticks)


def trend_sentence(trend: Trend) -> str:
    """Return what a trend says: the incidents of the last days beside what the budget allows."""
    rows = trend_rows(trend)
    count, host_days = sum(row.count for row in rows), sum(row.host_days for row in rows)
    over = sum(row.over for row in rows)
    budget = f"the budget allows {format_number(trend.budget)} per host and day"
    if not host_days:
        return f"No telemetry was judged in {counted(len(rows), 'day')}; {budget}."
    kept = "kept every day" if not over else f"exceeded on {counted(over, 'day')}"
    return (
        f"{counted(count, 'incident')} in {counted(len(rows), 'day')} over {format_number(host_days)} "
        f"host-days: {format_number(count / host_days)} per host and day, where {budget}; {kept}."
    )
