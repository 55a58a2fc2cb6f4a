"""What is told of a fleet at a moment: of each host its scores, its incidents, and how far it was judged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import polars as pl

from reveal_core.incidents import OPEN, SILENT
from reveal_core.ledger import Entry, Ledger

SPAN = timedelta(minutes=5)
"""The newest windows that levels are of: what one run of the usual schedule judges."""
DAY = timedelta(days=1)
UNKNOWN = "unknown"
"""Stands for the cause of an incident that no entry of the catalogue explains."""


@dataclass(frozen=True)
class Levels:
    """What the newest windows of a host say.

    Attributes
    ----------
    score
        Score over threshold of the newest window judged: an alarm from 1 on. None if it is no number.
    highest
        The highest of them; None likewise.
    coverage
        Mean share of the samples due that came, 0 to 1.
    """

    score: float | None
    highest: float | None
    coverage: float


@dataclass(frozen=True)
class HostState:
    """What is told of a host.

    Attributes
    ----------
    host
        Its label.
    judged
        Until when its telemetry was judged, UTC; None if it never was.
    levels
        Of its newest windows; None where these are too long ago, or their scores are gone.
    incidents
        Its open incidents, the strongest first.
    silent
        Whether nothing comes from it.
    held
        Whether it is held in another regime.
    begun
        How many incidents began within the last day.
    judged_s
        How much of the last day was judged, s.
    """

    host: str
    judged: datetime | None
    levels: Levels | None = None
    incidents: tuple[Entry, ...] = ()
    silent: bool = False
    held: bool = False
    begun: int = 0
    judged_s: float = 0.0


@dataclass(frozen=True)
class FleetState:
    """What is told of a fleet.

    Attributes
    ----------
    at
        When the store was read, UTC.
    hosts
        By label; those that are forgotten are left out.
    forgotten
        How many hosts were judged last so long ago that nothing is told of them.
    comings
        How often incidents came, by host, subsystem and cause.
    budget
        Incidents per host and day that the settings allow.
    report
        Id of the newest report; ``""`` if there is none.
    took_s
        How long reading took, s.
    """

    at: datetime
    hosts: tuple[HostState, ...]
    forgotten: int
    comings: Mapping[tuple[str, str, str], int]
    budget: float
    report: str = ""
    took_s: float = 0.0

    @property
    def open_incidents(self) -> list[Entry]:
        """Those of all hosts, the strongest first."""
        found = [entry for host in self.hosts for entry in host.incidents]
        return sorted(found, key=_strength)


@dataclass
class Comings:
    """Counts comings of incidents; what was counted stays counted.

    A ledger forgets what is long over, and tells an incident by another cause once it has a stronger
    explanation. A count that follows it would fall, which Prometheus takes for a restart. So each coming is
    counted once, by the subsystem and cause that its incident has when it is first seen.

    Attributes
    ----------
    totals
        By host, subsystem and cause.
    """

    totals: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _seen: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, host: str, entries: Iterable[Entry]) -> None:
        """Count what is new among a host's entries."""
        before = self._seen.get(host, {})
        now: dict[str, int] = {}
        for entry in entries:
            known = before.get(entry.id, 0)
            if entry.count > known:
                self.totals[host, entry.subsystem, entry.cause or UNKNOWN] += entry.count - known
            now[entry.id] = max(known, entry.count)
        self._seen[host] = now


def host_state(
    ledger: Ledger,
    now: datetime,
    *,
    mark: datetime | None = None,
    levels: Levels | None = None,
    held: bool = False,
) -> HostState:
    """Return what is told of a host.

    Parameters
    ----------
    ledger
        The host's.
    now
        The present, UTC.
    mark
        When the newest segment that was judged ends, if it is known.
    levels
        Of its newest windows.
    held
        Whether it is held in another regime.
    """
    still = [entry for entry in ledger.entries if entry.state == OPEN]
    return HostState(
        host=ledger.host,
        judged=judged_until(ledger, mark),
        levels=levels,
        incidents=tuple(sorted(still, key=_strength)),
        silent=any(entry.cause == SILENT for entry in still),
        held=held,
        begun=sum(now - DAY <= entry.first < now for entry in ledger.entries),
        judged_s=ledger.judged_s(now - DAY, now),
    )


def judged_until(ledger: Ledger, mark: datetime | None) -> datetime | None:
    """Return until when a host was judged; None if it never was."""
    known = [until for _, until in ledger.judged] + ([mark] if mark is not None else [])
    return max(known, default=None)


def ratios(frame: pl.DataFrame) -> pl.DataFrame:
    """Return windows that were judged, by start, with ``ratio``: their score over their threshold.

    A window without samples has no score, and one whose score or threshold is no number no ratio: both are
    left out.
    """
    ratio = pl.col("fused") / pl.col("threshold")
    judged = (pl.col("coverage") > 0) & (pl.col("threshold") > 0)
    return frame.filter(judged).with_columns(ratio=ratio).filter(pl.col("ratio").is_finite()).sort("start")


def levels_of(frame: pl.DataFrame, until: datetime) -> Levels | None:
    """Return what the windows of the last `SPAN` before a time say; None if there are none.

    Parameters
    ----------
    frame
        ``start``, ``coverage``, ``fused`` and ``threshold`` of windows.
    until
        Aware.
    """
    recent = frame.filter((pl.col("start") >= until - SPAN) & (pl.col("start") < until))
    if recent.is_empty():
        return None
    found: Sequence[float] = ratios(recent)["ratio"].to_list()
    coverage = float(recent["coverage"].mean())  # type: ignore[arg-type]
    return Levels(
        score=found[-1] if found else None,
        highest=max(found) if found else None,
        coverage=coverage if math.isfinite(coverage) else 0.0,
    )


def _strength(entry: Entry) -> tuple[float, str, str]:
    return -entry.score, entry.host, entry.id
