"""Samples of one host's series, gathered until they are a stretch of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from reveal_core.collect.columns import MISSING
from reveal_core.importing.counts import as_counts
from reveal_core.importing.findings import Findings
from reveal_core.importing.prometheus_answers import MS, RawSeries
from reveal_core.importing.prometheus_names import NAME, Place, Refusal, keep_series, place_series
from reveal_core.importing.tables import facts_of
from reveal_core.importing.types import Chunk, Floats, Ints, Layout

_Test = Callable[[np.ndarray], np.ndarray]

NAMED = 3
"""Names of a list that are told; of more only how many."""


class Refusals:
    """Collects which names were not taken, by reason, for a whole import."""

    def __init__(self) -> None:
        self._names: dict[Refusal, set[str]] = {}

    def add(self, name: str, refusal: Refusal) -> None:
        """Take a name that was refused."""
        self._names.setdefault(refusal, set()).add(name)

    def tell(self, findings: Findings) -> None:
        """Say what was refused: names that nobody knows one by one, the others by reason."""
        for refusal, names in self._names.items():
            ordered = sorted(names)
            if refusal.known:
                more = f" and {len(ordered) - NAMED} more" if len(ordered) > NAMED else ""
                findings.skip(f"left out: {refusal.why}", item=", ".join(ordered[:NAMED]) + more)
            else:
                for name in ordered:
                    findings.skip(refusal.why, item=name)


@dataclass
class _Channel:
    """Samples of a channel: pieces in order of time, of one series or of several after another."""

    place: Place
    parts: list[tuple[Ints, Floats]] = field(default_factory=list)

    @property
    def span(self) -> tuple[int, int]:
        return min(int(ts[0]) for ts, _ in self.parts), max(int(ts[-1]) for ts, _ in self.parts)


@dataclass(frozen=True)
class Taken:
    """What `Gather.take` gave.

    Attributes
    ----------
    chunks
        One for each target.
    newest
        Time of the newest sample of them, ns since 1970; None without any.
    held
        Time of the first sample that is kept for the next time; None if none is.
    """

    chunks: list[Chunk]
    newest: int | None
    held: int | None


class Gather:
    """Gathers the samples of one host, of every target that is scraped on it.

    Parameters
    ----------
    host
        Its label in the store.
    identity
        Of the import: server and selection.
    findings, refusals
        Are told what is not taken.
    keep_unknown
        Keep what the catalogue does not know.
    kinds
        Of metrics, as the server knows them.
    whose
        Labels that say whose a series is.

    Attributes
    ----------
    samples
        Gathered at present.
    """

    def __init__(
        self,
        host: str,
        identity: str,
        findings: Findings,
        refusals: Refusals,
        *,
        keep_unknown: bool = False,
        kinds: Mapping[str, str] | None = None,
        whose: tuple[str, ...] = (),
    ) -> None:
        self.host = host
        self.identity = identity
        self.findings = findings
        self.refusals = refusals
        self.keep_unknown = keep_unknown
        self.kinds = kinds or {}
        self.whose = whose
        self.samples = 0
        self._targets: dict[tuple[str, str], dict[str, _Channel]] = {}
        self._places: dict[frozenset[tuple[str, str]], Place | None] = {}
        self._periods: dict[tuple[str, str], int] = {}

    def add(self, series: RawSeries, since: int) -> int:
        """Take the samples of a series from ``since`` (ns since 1970) on; return how many it had at all.

        Prometheus before version 3 gives a sample that lies exactly on the beginning of a range, too.
        """
        place = self._place(series.labels)
        if place is None:
            return len(series.ts)
        ts, values = series.ts, series.values
        if ts[0] < since:
            first = int(np.searchsorted(ts, since))
            ts, values = ts[first:], values[first:]
        if len(ts):
            key = series.labels.get("job", ""), series.labels.get("instance", "")
            channels = self._targets.setdefault(key, {})
            channel = channels.setdefault(place.column.name, _Channel(place))
            channel.parts.append((ts, self._clean(place, values)))
            self.samples += len(ts)
        return len(series.ts)

    def _place(self, labels: Mapping[str, str]) -> Place | None:
        key = frozenset(labels.items())
        if key in self._places:
            return self._places[key]
        name = labels.get(NAME, "")
        found = place_series(labels)
        if self.keep_unknown and isinstance(found, Refusal) and not found.known:
            found = keep_series(labels, self.kinds.get(name, ""), self.whose)
        place = found if isinstance(found, Place) else None
        if isinstance(found, Refusal):
            self.refusals.add(name, found)
        elif not found.known:
            self.findings.unmapped(name, found.column.metric.name)
        self._places[key] = place
        return place

    def _clean(self, place: Place, values: Floats) -> Floats:
        """Return values with NaN for those that are none; NaN and infinities of the server are told."""
        finite = np.isfinite(values)
        if not finite.all():
            nans = int(np.isnan(values).sum())
            infinite = len(values) - int(finite.sum()) - nans
            for what, count in (("NaN", nans), ("infinite", infinite)):
                if count:
                    item = place.column.metric.name
                    self.findings.skip(f"samples that are {what}", item=item, count=count)
            values = np.where(finite, values, np.nan)
        if place.missing:
            values = np.where(np.isin(values, place.missing), np.nan, values)
        return values

    def take(self, *, last: bool) -> Taken:
        """Return what was gathered as chunks and begin anew.

        A target with a single row, of which the interval is not known yet, is kept for the next time; if
        there is none (``last``), that is told.
        """
        self._part_targets()
        # Of all that was seen, for an exporter may be silent for a while: the hardware is still there.
        facts = facts_of([place.column for place in self._places.values() if place is not None])
        chunks: list[Chunk] = []
        kept: dict[tuple[str, str], dict[str, _Channel]] = {}
        newest: int | None = None
        held: int | None = None
        for key, channels in sorted(self._targets.items()):
            if not channels:
                continue
            rows = _union(ts for channel in channels.values() for ts, _ in channel.parts)
            if len(rows) > 1:
                self._periods[key] = max(1, round(float(np.median(np.diff(rows))) / MS))
            elif key not in self._periods:
                held = min(int(rows[0]), held) if held is not None else int(rows[0])
                kept[key] = channels
                continue
            chunks.append(self._chunk(key, channels, rows, facts))
            newest = max(int(rows[-1]), newest) if newest is not None else int(rows[-1])
        if last and kept:
            self.findings.skip(
                "targets with a single scrape, which tells no interval; the next import takes it with others",
                item=self.host,
                count=len(kept),
            )
        self._targets = {} if last else kept
        self.samples = sum(len(ts) for t in self._targets.values() for c in t.values() for ts, _ in c.parts)
        return Taken(chunks, newest, held)

    def _part_targets(self) -> None:
        """Leave out channels that an earlier target has at the same time: they would mix two devices."""
        spans: dict[str, list[tuple[int, int]]] = {}
        for (job, instance), channels in sorted(self._targets.items()):
            for name, channel in list(channels.items()):
                first, last = channel.span
                if any(first <= end and begin <= last for begin, end in spans.get(name, ())):
                    del channels[name]
                    self.findings.skip(
                        "series whose channel another target of the host has already",
                        item=f"{self.host}: {channel.place.column.metric.name}",
                        detail=f"job {job}, instance {instance}",
                    )
                else:
                    spans.setdefault(name, []).append((first, last))

    def _chunk(
        self, key: tuple[str, str], channels: dict[str, _Channel], rows: Ints, facts: dict[str, object]
    ) -> Chunk:
        job, instance = key
        ordered = [channels[name] for name in sorted(channels)]
        gauges = [channel for channel in ordered if not channel.place.counter]
        counters = [channel for channel in ordered if channel.place.counter]
        levels = np.full((len(gauges), len(rows)), np.nan, dtype=np.float32)
        counts = np.full((len(counters), len(rows)), MISSING, dtype=np.int64)
        where: dict[int, slice | Ints] = {}
        for channel, level in zip(gauges, levels, strict=True):
            for ts, values in channel.parts:
                with np.errstate(over="ignore"):  # what float32 cannot hold is told as infinite
                    scaled = (values * channel.place.scale).astype(np.float32)
                self._put(channel, level, _where(where, ts, rows), scaled, _is_nan)
        for channel, count in zip(counters, counts, strict=True):
            for ts, values in channel.parts:
                whole = self._counts(channel.place, values)
                self._put(channel, count, _where(where, ts, rows), whole, _is_missing)
        layout = Layout(
            self.host,
            f"{self.identity}\0{job}\0{instance}",
            {**facts, "imported": {"kind": "prometheus", "job": job, "instance": instance}},
            tuple(channel.place.column for channel in gauges),
            tuple(channel.place.column for channel in counters),
            self._periods[key],
        )
        return Chunk(layout, rows, levels, counts)

    def _counts(self, place: Place, values: Floats) -> Ints:
        metric = place.column.metric
        counts = as_counts(values, place.scale)
        lost = int(((counts == MISSING) & ~np.isnan(values)).sum())
        if lost:
            self.findings.skip("counts that are larger than any counter", item=metric.name, count=lost)
        if not place.known and place.scale == 1.0 and (np.rint(values) != values)[~np.isnan(values)].any():
            self.findings.note(f"{metric.name}: its fractions are rounded to whole numbers")
        return counts

    def _put(
        self, channel: _Channel, row: np.ndarray, where: slice | Ints, values: np.ndarray, is_missing: _Test
    ) -> None:
        """Put samples into a row; where it has one already, of another series, that one stays."""
        before = row[where]
        free = is_missing(before)
        clashes = int((~free & ~is_missing(values)).sum())
        if clashes:
            self.findings.skip(
                "samples of series that differ only in labels that tell nothing apart; the first is kept",
                item=channel.place.column.metric.name,
                count=clashes,
            )
        row[where] = np.where(free, values, before)


def _is_nan(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.isnan(values)
    return found


def _is_missing(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = values == MISSING
    return found


def _union(times: Iterable[Ints]) -> Ints:
    """Return all times, each once, in order; series that were scraped together share one array."""
    distinct = list({id(ts): ts for ts in times}.values())
    return distinct[0] if len(distinct) == 1 else np.unique(np.concatenate(distinct))


def _where(known: dict[int, slice | Ints], ts: Ints, rows: Ints) -> slice | Ints:
    """Return where times stand among the rows, worked out once for an array."""
    found = known.get(id(ts))
    if found is None:
        found = slice(None) if len(ts) == len(rows) else np.searchsorted(rows, ts).astype(np.int64)
        known[id(ts)] = found
    return found
