"""What is said about a host that is not like its peers: the types that peer comparison fills."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class PeerMetric:
    """A metric in which a host stands apart.

    Attributes
    ----------
    metric
        Its name.
    value, peers
        Median of the host over the span, and of the peers' median, in the unit of the input.
    deviation_pct
        Median over the span of the difference from the peers' median, in percent of it, with its sign.
    direction
        ``"up"`` or ``"down"``.
    share
        Its part of the host's score, 0 to 1.
    """

    metric: str
    value: float
    peers: float
    deviation_pct: float
    direction: str
    share: float


@dataclass(frozen=True)
class OddHost:
    """A host that is not like its peers.

    Attributes
    ----------
    host
        Its name.
    score
        In standard units of the hosts' differences.
    deviation_pct
        Difference from the peers' median that lasted, in percent of it, without a sign: that of the metrics
        that make the score.
    metrics
        What made it odd, the largest share first.
    """

    host: str
    score: float
    deviation_pct: float
    metrics: tuple[PeerMetric, ...]


@dataclass(frozen=True)
class WorkMetric:
    """A metric of work done, in which the hosts of a job must be alike.

    Attributes
    ----------
    name, unit, subsystem
        Of the metric; the unit is that of the physical value.
    part
        ``mean`` over the instances of a host, or ``value`` of a metric that has none.
    """

    name: str
    unit: str
    subsystem: str
    part: str


@dataclass(frozen=True)
class StragglerMetric(PeerMetric):
    """A metric in which a host of a job stands apart, with what is said of it to people.

    Attributes
    ----------
    unit, subsystem, part
        As `WorkMetric` has them.
    low, high
        The least and the most of the peers' medians.
    """

    unit: str
    subsystem: str
    part: str
    low: float
    high: float


@dataclass(frozen=True)
class Straggler:
    """A host of a job that was out of step with its peers for a while.

    Attributes
    ----------
    host, job
        Which host, and the id of the job that it was compared in; several ids, with commas, where all peers
        run the same several jobs.
    start, end
        The time over which it was compared and named, UTC.
    on
        Whether it still is: whether a comparison of late names it.
    score, deviation_pct
        Of the comparison in which it stood out most; see `OddHost`.
    peers
        How many other hosts it was compared with.
    metrics
        What made it odd, the largest share first.
    """

    host: str
    job: str
    start: datetime
    end: datetime
    on: bool
    score: float
    deviation_pct: float
    peers: int
    metrics: tuple[StragglerMetric, ...]
