"""What is said about a host that is not like its peers: the types that peer comparison fills."""

from __future__ import annotations

from dataclasses import dataclass


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
