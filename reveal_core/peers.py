"""Hosts of a job held against each other, over an hour of their work: who is out of step with the others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from reveal_core.catalog.floors import floor_of
from reveal_core.detect.peers import PeerDetector
from reveal_core.jobtable import LEAST_HOSTS, JobTable, label_of
from reveal_core.odd_hosts import OddHost, Straggler, StragglerMetric, WorkMetric
from reveal_core.work import MINUTE, Array, Range, Work, floor_minute, side_by_side

LEAST_WINDOWS = 6
"""Windows that a comparison needs: halves of fewer have no median worth the name."""
_STEPS = 4
"""Of a range longer than a span, spans end at so many places within one."""


@dataclass(frozen=True)
class PeerRules:
    """When a host of a job is named.

    Attributes
    ----------
    span_s
        Time over which hosts are compared, s.
    threshold, effect
        As `reveal_core.detect.peers.PeerDetector` has them.
    least_hosts
        Fewer hosts are not compared.
    """

    span_s: float = 3600.0
    threshold: float = 3.0
    effect: float = 0.05
    least_hosts: int = LEAST_HOSTS


@dataclass(frozen=True)
class Judged:
    """The newest comparison that a host took part in: in which job, and its end, UTC."""

    host: str
    job: str
    until: datetime


@dataclass(frozen=True)
class Compared:
    """What came of comparing hosts: who was out of step, and who was looked at."""

    stragglers: tuple[Straggler, ...] = ()
    judged: tuple[Judged, ...] = ()


def needed(start: datetime, end: datetime, span_s: float) -> Range:
    """Return the whole minutes that comparing a range needs: at least one span up to its end."""
    last = floor_minute(end)
    return min(floor_minute(start), last - timedelta(minutes=_minutes(span_s))), last


def patience(span_s: float) -> timedelta:
    """Return for how long no comparison must name a host until it is over.

    Half a span: a node that is 9 % slower all day, which is not far from what names a host, is not named in a
    quarter of the hours (docs/quality.md, emmy), and would be over and on again two dozen times.
    """
    return timedelta(seconds=span_s / 2)


def _minutes(span_s: float) -> int:
    return max(1, round(span_s / 60.0))


def compare_hosts(
    works: Sequence[Work],
    table: JobTable,
    own: Mapping[str, str],
    start: datetime,
    end: datetime,
    rules: PeerRules,
) -> Compared:
    """Compare hosts with those that run the same jobs.

    Of a range that is no longer than a span the last span is compared, of a longer one all that end within it
    every quarter of a span. What a host did before its jobs were just those that they are at the end of a
    span does not count.

    Parameters
    ----------
    works
        Work of each host, over the time that `needed` returns.
    table
        The jobs.
    own
        By host the job that its telemetry names: for hosts of which the table tells nothing.
    start, end
        The range.
    rules
        When a host is named.
    """
    if not works:
        return Compared()
    width = max(1, math.ceil(max(work.period_s for work in works) / 60.0))
    span = _minutes(rules.span_s) // width
    if span < LEAST_WINDOWS:
        return Compared()
    first, last = needed(start, end, rules.span_s)
    metrics, values = side_by_side(works, first, last, width)
    hosts = [work.host for work in works]
    judged: dict[str, Judged] = {}
    found: dict[tuple[str, str], list[Straggler]] = {}
    for until, block in _spans(values, last, span, width):
        since = until - span * width * MINUTE
        labels, starts = _labels(hosts, table, own, until)
        _blank_before(block, starts, since, width)
        for label, members in _groups(labels).items():
            if len(members) < rules.least_hosts:
                continue
            named = _named(block[:, members], [hosts[n] for n in members], metrics, rules)
            for host in named.judged:
                judged[host] = Judged(host, label, until)
            for host, odd in named.odd.items():
                begun = starts[hosts.index(host)]
                one = Straggler(
                    host=host,
                    job=label,
                    start=max(since, begun) if begun is not None else since,
                    end=until,
                    on=True,
                    score=odd.score,
                    deviation_pct=odd.deviation_pct,
                    peers=len(named.judged) - 1,
                    metrics=named.told(odd),
                )
                _add(found.setdefault((host, label), []), one)
    stragglers = [
        replace(one, on=judged[host].job == label and judged[host].until - one.end < patience(rules.span_s))
        for (host, label), mine in found.items()
        for one in mine
    ]
    return Compared(
        tuple(sorted(stragglers, key=lambda one: (-one.score, one.host, one.start))),
        tuple(judged[host] for host in sorted(judged)),
    )


def _spans(values: Array, last: datetime, span: int, width: int) -> Iterator[tuple[datetime, Array]]:
    """Yield the end of each span in order of time, and a copy of the windows in it."""
    count = len(values)
    step = max(1, span // _STEPS)
    for end in reversed(range(count, span - 1, -step)):
        yield last - (count - end) * width * MINUTE, values[end - span : end].copy()


def _labels(
    hosts: Sequence[str], table: JobTable, own: Mapping[str, str], time: datetime
) -> tuple[list[str], list[datetime | None]]:
    """Return what each host runs just before a time, ``""`` for nothing, and since when just this."""
    labels: list[str] = []
    starts: list[datetime | None] = []
    for host in hosts:
        ids, since = table.at(host, time)
        labels.append(label_of(ids) or own.get(host, ""))
        starts.append(since)
    return labels, starts


def _blank_before(block: Array, starts: Sequence[datetime | None], since: datetime, width: int) -> None:
    """Take out what hosts did before their jobs were those that they are now."""
    for number, start in enumerate(starts):
        if start is not None and start > since:
            block[: math.ceil((start - since) / (width * MINUTE)), number] = np.nan


def _groups(labels: Sequence[str]) -> dict[str, list[int]]:
    groups: dict[str, list[int]] = {}
    for number, label in enumerate(labels):
        if label:
            groups.setdefault(label, []).append(number)
    return groups


@dataclass(frozen=True)
class _Named:
    """A comparison: who was judged, who is odd, and in what."""

    judged: tuple[str, ...]
    odd: Mapping[str, OddHost]
    metrics: Mapping[str, WorkMetric]
    medians: Mapping[str, Mapping[str, float]]
    """Of each metric the median of each host."""

    def told(self, odd: OddHost) -> tuple[StragglerMetric, ...]:
        """Return the metrics behind an odd host, with what its peers showed: those that are not odd too."""
        found = []
        for seen in odd.metrics:
            metric = self.metrics[seen.metric]
            peers = [
                level
                for host, level in self.medians[seen.metric].items()
                if host not in self.odd and math.isfinite(level)
            ]
            found.append(
                StragglerMetric(
                    **vars(seen),
                    unit=metric.unit,
                    subsystem=metric.subsystem,
                    part=metric.part,
                    low=min(peers, default=seen.peers),
                    high=max(peers, default=seen.peers),
                )
            )
        return tuple(found)


def _named(block: Array, hosts: Sequence[str], metrics: Sequence[WorkMetric], rules: PeerRules) -> _Named:
    """Compare hosts over one span, shape (n_windows, n_hosts, n_metrics), in the metrics that enough have."""
    known = np.isfinite(block).any(axis=0).sum(axis=0) >= rules.least_hosts
    kept = [metric for metric, enough in zip(metrics, known, strict=True) if enough]
    if not kept:
        return _Named((), {}, {}, {})
    part = block[:, :, known]
    detector = PeerDetector(
        threshold=rules.threshold,
        effect=rules.effect,
        least_hosts=rules.least_hosts,
        # Beside nearly nothing every difference is large: idle GPUs are not out of step.
        floors=[floor_of(metric.name, metric.unit) if metric.unit == "%" else 0.0 for metric in kept],
    )
    names = [metric.name for metric in kept]
    scores = detector.compare(part)
    judged = tuple(host for host, score in zip(hosts, scores.score[0], strict=True) if not np.isnan(score))
    odd = detector.odd_hosts(part, hosts, names) if scores.named.any() else ()
    levels = {
        name: {host: _median(part[:, h, m]) for h, host in enumerate(hosts)} if odd else {}
        for m, name in enumerate(names)
    }
    return _Named(judged, {one.host: one for one in odd}, dict(zip(names, kept, strict=True)), levels)


def _median(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def _add(known: list[Straggler], one: Straggler) -> None:
    """Add a span in which a host is named: what overlaps is one time, told as it stood out most."""
    before = known[-1] if known else None
    if before is None or one.start > before.end:
        known.append(one)
        return
    stronger = one if one.score > before.score else before
    known[-1] = replace(stronger, start=min(before.start, one.start), end=one.end)
