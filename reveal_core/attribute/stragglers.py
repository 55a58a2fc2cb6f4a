"""Hosts that are out of step with the others of their job: an incident of its own kind, seen in no window."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime

from reveal_core.attribute.causes import Term, cause_by_id
from reveal_core.attribute.matching import Signal, Signals, match
from reveal_core.attribute.tracking import enter
from reveal_core.formatting import format_band, format_number, format_value
from reveal_core.incidents import OPEN, RESOLVED, STRAGGLER, Incident, MetricEvidence, SubsystemShare
from reveal_core.ledger import Ledger
from reveal_core.odd_hosts import Straggler, StragglerMetric

METRIC = "peers.work"
"""What the hosts of a job did, of all metrics together, as the catalogue of causes calls it."""
PROBABILITY = 1.0 / 41_460
"""None of so many healthy node-minutes was named in a day of a job of 32 nodes (docs/quality.md, emmy)."""
_FAR = 100.0
"""Excursion of a host that is named: as far as any signal counts."""
_LEAST_PCT = 1.0
"""A metric that differs by less tells a person nothing."""


def straggler_incident(found: Straggler, ledger: Ledger, *, threshold: float) -> Incident:
    """Return the incident of a host that is out of step; it has the same id as long as that lasts.

    Parameters
    ----------
    found
        What the comparison says.
    ledger
        Of the host: what is on already goes on.
    threshold
        Score from which on a host is named. The score of the incident is the host's over this.
    """
    start = min(found.start, _begun(ledger, found))
    first = found.metrics[0]
    moved = -_FAR if first.direction == "down" else _FAR
    told = found.metrics[:1] + tuple(m for m in found.metrics[1:] if abs(m.deviation_pct) >= _LEAST_PCT)

    def word(term: Term, _signal: Signal) -> str:
        return term.says

    cause = match(cause_by_id()[STRAGGLER], Signals([Signal(METRIC, "value", "level", moved, 0)]), word)
    if cause is None:
        raise ValueError(f"the catalogue's {STRAGGLER} does not listen to {METRIC}")
    shares: dict[str, float] = {}
    for metric in found.metrics:
        shares[metric.subsystem] = shares.get(metric.subsystem, 0.0) + metric.share
    total = sum(shares.values()) or 1.0
    subsystems = sorted((SubsystemShare(n, s / total) for n, s in shares.items()), key=_foremost)
    key = hashlib.sha256(f"{found.host}|{STRAGGLER}".encode()).hexdigest()[:16]
    return Incident(
        id=f"{start:%Y%m%dT%H%M%S}-{found.host}-{key[:6]}",
        fingerprint=key,
        host=found.host,
        start=start,
        end=found.end,
        severity=1,
        probability=PROBABILITY,
        score=found.score / threshold,
        subsystem=subsystems[0].name,
        subsystems=tuple(subsystems),
        metrics=tuple(_evidence(metric, found.peers) for metric in found.metrics),
        causes=(replace(cause, evidence=tuple(sentence(found, metric) for metric in told)),),
        state=OPEN if found.on else RESOLVED,
        job=found.job,
    )


def _foremost(share: SubsystemShare) -> tuple[float, str]:
    return -share.share, share.name


def sentence(found: Straggler, metric: StragglerMetric) -> str:
    """Return how a host stands among its peers in a metric.

    It reads as ``node-7 has 11 % less memory.bandwidth than the median of 31 peers of job 1234: 59.2 GB/s
    against 66.8 GB/s, all of them 64.1 to 69.3 GB/s``.
    """
    more = "more" if metric.direction == "up" else "less"
    share = format_number(float(f"{abs(metric.deviation_pct):.2g}"))
    peers = "1 peer" if found.peers == 1 else f"{found.peers} peers"
    return (
        f"{found.host} has {share} % {more} {metric.metric} than the median of {peers} of job {found.job}: "
        f"{format_value(metric.value, metric.unit)} against {format_value(metric.peers, metric.unit)}, "
        f"all of them {format_band(metric.low, metric.high, metric.unit)}"
    )


def _evidence(metric: StragglerMetric, peers: int) -> MetricEvidence:
    return MetricEvidence(
        metric=metric.metric,
        instance="",
        subsystem=metric.subsystem,
        unit=metric.unit,
        value=metric.value,
        normal_low=metric.low,
        normal_high=metric.high,
        direction=metric.direction,
        share=metric.share,
        part=metric.part,
        role="cause",
        peers=peers,
        peers_low=metric.low,
        peers_high=metric.high,
    )


def _begun(ledger: Ledger, found: Straggler) -> datetime:
    """Return since when a host has been out of step in a job, by what was found before."""
    for entry in ledger.entries:
        if entry.cause != STRAGGLER or entry.job != found.job:
            continue
        for episode in entry.episodes:
            if episode.start <= found.end and episode.end >= found.start:
                return episode.start
    return found.start


def note_straggler(ledger: Ledger, incident: Incident) -> Ledger:
    """Return a host's ledger with a straggler in it, which is over when a comparison no longer names it."""
    known = enter(ledger, [incident])
    entries = []
    for entry in known.entries:
        if entry.has(incident.id) and incident.end >= entry.end:
            on = incident.state == OPEN
            entry = replace(entry, state=incident.state, cleared=None if on else incident.end)
        entries.append(entry)
    return replace(known, entries=tuple(entries))


def end_straggler(ledger: Ledger, job: str, now: datetime) -> Ledger:
    """Return a host's ledger after a comparison in a job that ends at a time and does not name it.

    What was found later than that stays as it is: an old stretch was judged again.
    """
    entries = tuple(
        replace(entry, state=RESOLVED, cleared=now)
        if entry.cause == STRAGGLER and entry.state == OPEN and entry.job == job and entry.end <= now
        else entry
        for entry in ledger.entries
    )
    return replace(ledger, entries=entries)
