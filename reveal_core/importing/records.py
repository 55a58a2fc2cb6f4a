"""Samples told one by one, in order of time, as chunks: for logs that are read line by line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from reveal_core.catalog import Metric
from reveal_core.collect.columns import MISSING
from reveal_core.importing.findings import Findings
from reveal_core.importing.names import Target, other_metric
from reveal_core.importing.times import FIRST_NS, IMPOSSIBLE, LAST_NS
from reveal_core.importing.types import NO_TIME, Chunk, ImportedColumn, Layout

MOST_ROWS = 4096
MOST_SAMPLES = 1_000_000


class Records:
    """Gathers samples of one host.

    Parameters
    ----------
    host, identity, facts
        As in `Layout`.
    source
        Name of the kind, for sources and for the names of what the catalogue does not know.
    """

    def __init__(
        self,
        host: str,
        identity: str,
        source: str,
        findings: Findings,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        self.host = host
        self.identity = identity
        self.source = source
        self.findings = findings
        self.facts = dict(facts or {})
        self._layout: Layout | None = None
        self._places: dict[tuple[str, str, str], tuple[bool, int, float]] = {}
        self._taken: set[tuple[str, str]] = set()
        self._gauges: list[ImportedColumn] = []
        self._counters: list[ImportedColumn] = []
        self._ts: list[int] = []
        self._open = False
        self._samples: list[tuple[bool, int, int, float]] = []

    @property
    def full(self) -> bool:
        """Whether a chunk should be taken."""
        return len(self._ts) >= MOST_ROWS or len(self._samples) >= MOST_SAMPLES

    def at(self, ts: int, line: int | None = None) -> None:
        """Begin a row; samples belong to the row that was begun last.

        A row of a time that cannot be is told, with its line, and its samples are dropped; `NO_TIME` is for
        one that was told already.
        """
        self._open = FIRST_NS <= ts < LAST_NS
        if not self._open:
            if ts != NO_TIME:
                self.findings.skip(IMPOSSIBLE, line=line)
        elif not self._ts or self._ts[-1] != ts:
            self._ts.append(ts)

    def put(self, target: Target, instance: str, value: float) -> None:
        """Add a sample; for a count, ``value`` is per second."""
        if not self._open:
            return
        key = "known", target.metric, instance
        if key not in self._places:
            self._add(key, *target.stored(), counter=target.form == "counter")
        self._sample(key, value)

    def put_other(
        self,
        field: str,
        instance: str,
        value: float,
        *,
        unit: str = "",
        subsystem: str = "",
        counter: bool = False,
    ) -> None:
        """Add a sample of something that the catalogue does not know: a level, or a raw cumulative count."""
        if not self._open:
            return
        key = "other", field, instance
        if key not in self._places:
            kind = "counter" if counter else "gauge"
            metric = other_metric(self.source, field, unit=unit, subsystem=subsystem, kind=kind)
            while (metric.name, instance) in self._taken:  # two fields that differ in signs only
                metric = replace(metric, name=f"{metric.name}_")
            self._taken.add((metric.name, instance))
            self.findings.unmapped(field, metric.name)
            self._add(key, metric, 1.0, counter=counter)
        self._sample(key, value)

    def _add(self, key: tuple[str, str, str], metric: Metric, scale: float, *, counter: bool) -> None:
        columns = self._counters if counter else self._gauges
        self._places[key] = counter, len(columns), scale
        columns.append(ImportedColumn(metric, key[2], self.source))

    def _sample(self, key: tuple[str, str, str], value: float) -> None:
        counter, place, scale = self._places[key]
        self._samples.append((counter, place, len(self._ts) - 1, value * scale))

    def take(self) -> Iterator[Chunk | Layout]:
        """Yield what was gathered since the last time, with the layout before if channels have come up."""
        if not self._samples:
            self._ts.clear()
            return
        layout = self._layout
        if layout is None or len(layout.gauges) + len(layout.counters) < len(self._places):
            if layout is not None:
                yield layout
            layout = Layout(self.host, self.identity, self.facts, tuple(self._gauges), tuple(self._counters))
            self._layout = layout
        levels = np.full((len(self._gauges), len(self._ts)), np.nan, dtype=np.float32)
        counts = np.full((len(self._counters), len(self._ts)), MISSING, dtype=np.int64)
        twice = 0
        for counter, place, row, value in self._samples:
            if counter:
                twice += counts[place, row] != MISSING
                counts[place, row] = round(value) if abs(value) < 2.0**62 else MISSING
            else:
                twice += not np.isnan(levels[place, row])
                levels[place, row] = value
        if twice:
            self.findings.skip(
                "samples of a time and channel that had one already; the last is kept", count=twice
            )
        yield Chunk(layout, np.array(self._ts, dtype=np.int64), levels, counts)
        self._ts.clear()
        self._samples.clear()

    def end(self) -> Iterator[Chunk | Layout]:
        """Yield what is left, and that it was the last."""
        yield from self.take()
        if self._layout is not None:
            yield self._layout
