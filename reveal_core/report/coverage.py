"""How much telemetry a fleet delivered: the hosts that delivered less, and each source over all hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reveal_core.formatting import counted, format_duration
from reveal_core.report.types import HostReport, Report
from reveal_core.report.words import natural

FULL = 0.99
"""A host with at least this share of its samples, and no gap, has nothing worth a row."""
MAX_ROWS = 50
"""Hosts that have a row, those with the least telemetry first."""
MAX_REASONS = 3
"""Reasons that are told of one source."""


@dataclass(frozen=True)
class Gap:
    """A stretch without telemetry, in percent of the report's time."""

    x: float
    width: float


@dataclass(frozen=True)
class CoverageRow:
    """A host that delivered less than all: ``coverage`` is None where nothing could be judged."""

    host: str
    coverage: float | None
    gaps: tuple[Gap, ...]
    told: str
    quarantined: tuple[str, ...]


@dataclass(frozen=True)
class Coverage:
    """The coverage of a fleet.

    ``whole`` counts the hosts that have no row for having delivered all, ``more`` those that have none for
    want of room.
    """

    whole: int
    rows: tuple[CoverageRow, ...]
    more: int


@dataclass(frozen=True)
class SourceSummary:
    """A source over all hosts: where it was measured, its lowest share of samples, and why it was not."""

    source: str
    measured: int
    absent: int
    lowest: float | None
    reasons: tuple[str, ...]


def coverage_of(report: Report) -> Coverage:
    """Return the hosts of a report that delivered less than all of their telemetry."""
    short = [host for host in report.hosts if _is_short(host)]
    short.sort(key=lambda host: (host.coverage if host.coverage is not None else -1.0, natural(host.host)))
    rows = tuple(_row(host, report) for host in short[:MAX_ROWS])
    return Coverage(whole=len(report.hosts) - len(short), rows=rows, more=len(short) - len(rows))


def source_summaries(hosts: Sequence[HostReport]) -> tuple[SourceSummary, ...]:
    """Return every source over all hosts, in order of its name, those measured nowhere last."""
    by_source: dict[str, list[tuple[bool, str, float | None]]] = {}
    for host in hosts:
        for source in host.sources:
            told = (source.available, source.reason, source.coverage)
            by_source.setdefault(source.source, []).append(told)
    summaries = [_summary(name, told) for name, told in by_source.items()]
    return tuple(sorted(summaries, key=lambda summary: (not summary.measured, summary.source)))


def _is_short(host: HostReport) -> bool:
    return host.coverage is None or host.coverage < FULL or bool(host.gaps) or bool(host.quarantined)


def _row(host: HostReport, report: Report) -> CoverageRow:
    span = (report.end - report.start).total_seconds()
    gaps = []
    longest = 0.0
    for start, end in host.gaps:
        longest = max(longest, (end - start).total_seconds())
        first = max(100 * (start - report.start).total_seconds() / span, 0.0)
        last = min(100 * (end - report.start).total_seconds() / span, 100.0)
        if last > first:
            gaps.append(Gap(round(first, 2), round(max(last - first, 0.4), 2)))
    if host.coverage is None:
        told = "nothing could be judged: no telemetry"
    elif host.gaps:
        many = f"{len(host.gaps)} gaps, the longest "
        told = f"{many if len(host.gaps) > 1 else 'a gap of '}{format_duration(longest)}"
    else:
        told = "single samples" if host.coverage < FULL else ""
    return CoverageRow(host.host, host.coverage, tuple(gaps), told, host.quarantined)


def _summary(name: str, told: Sequence[tuple[bool, str, float | None]]) -> SourceSummary:
    shares = [share for available, _, share in told if available and share is not None]
    reasons = Counter(reason or "no reason given" for available, reason, _ in told if not available)
    listed = [f"{reason} ({counted(count, 'host')})" for reason, count in reasons.most_common(MAX_REASONS)]
    if len(reasons) > MAX_REASONS:
        listed.append(f"and {counted(len(reasons) - MAX_REASONS, 'other reason')}")
    return SourceSummary(
        source=name,
        measured=sum(available for available, _, _ in told),
        absent=sum(not available for available, _, _ in told),
        lowest=min(shares, default=None),
        reasons=tuple(listed),
    )
