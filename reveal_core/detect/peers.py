"""Hosts that run the same job, held against each other: needs no history, and finds who holds the job up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from reveal_core.detect.across import clipped_ratio, known_median, weighted_median
from reveal_core.detect.base import Array
from reveal_core.errors import UsageError
from reveal_core.odd_hosts import OddHost, PeerMetric

Flags = NDArray[np.bool_]
_MAD_TO_SIGMA = 1.4826
"""Median absolute deviation to standard deviation of a normal distribution: 1 / Φ⁻¹(3/4)."""


@dataclass(frozen=True)
class PeerScores:
    """How far each host stands from its peers, span by span.

    Attributes
    ----------
    ends
        For each span, the number of the window after its last, shape (n_spans,).
    score
        Shape (n_spans, n_hosts); higher is stranger. NaN for a host that has too few samples in a span.
    deviation
        Difference from the peers' median that lasted, as a share of it, at least 0, shape (n_spans, n_hosts);
        NaN likewise.
    contributions
        Each metric's part of a score, at least 0, shape (n_spans, n_hosts, n_metrics).
    named
        Whether a host is named in a span, shape (n_spans, n_hosts).
    """

    ends: NDArray[np.int64]
    score: Array
    deviation: Array
    contributions: Array
    named: Flags


@dataclass(frozen=True)
class _Judged:
    """Hosts in one span, as `PeerScores` has them, first axis the hosts.

    ``relative`` is the median difference as a share of the peers' median, with its sign; ``value`` and
    ``peers`` are medians in the unit of the input. All of shape (n_hosts, n_metrics).
    """

    score: Array
    deviation: Array
    contributions: Array
    relative: Array
    value: Array
    peers: Array


class PeerDetector(BaseEstimator):  # type: ignore[misc]
    """Robust differences between hosts of one job, gathered over a span of windows.

    Window by window, each metric of each host becomes a z-score against the hosts of that window (median,
    and scale by the median absolute deviation), clipped. Means of these over a span are compared across hosts
    in the same way: what is odd for a moment averages out, what lasts adds up. A host's score is the mean
    over metrics of the absolute result. It is named where the score reaches ``threshold`` and it differs by
    ``effect`` at least: over long spans a host that is 2 % off is certainly off, and nobody cares. That
    difference has to last: of each metric the smaller median of both halves of the span counts, nothing if
    they are on different sides, and of the metrics the median weighted by their parts of the score. One slow
    host hides the next, so the worst is taken out and the others are compared again.

    Nothing is learned: there is no ``fit``, and the same input gives the same output.

    Parameters
    ----------
    span
        Windows that are gathered; None for all that are given.
    every
        Windows from the end of one span to that of the next.
    clip
        Largest z-score of a single window that counts.
    floor
        Smallest scale of the hosts' mean z-scores.
    threshold
        Score from which on a host can be named.
    effect
        Smallest difference that matters, as a share of the peers' median.
    strongest
        How many metrics make a score, the furthest ones of each host; None for all. Among hundreds of
        features the few that a fault moves drown in a mean over all. The score is then less by
        ``sqrt(2 ln(metrics / strongest))``, about what the largest of so many reach by chance (Donoho and
        Johnstone 1994), so that the threshold keeps its meaning.
    floors
        Smallest scale of each metric in its own unit, shape (n_metrics,): what is worth noticing. Needed for
        metrics that may lie about 0, where every difference is large as a share. None for 0.
    relative_floor
        Smallest scale as a share of the peers' median.
    least_hosts
        Hosts that must have a sample of a metric to be compared in it.
    least_share
        Share of a span's windows that a host must have samples in to be judged.

    Notes
    -----
    Metrics should be those in which peers must be alike: work done per time or per cycle. Power differs from
    chip to chip, memory by what a rank holds; with such among few metrics the score says so. A metric that
    is the same everywhere throughout a span does not count.

    Examples
    --------
    >>> import numpy as np
    >>> work = np.random.default_rng(0).normal(100, 1, size=(60, 8, 3))
    >>> work[:, 5] *= 0.9
    >>> int(PeerDetector().anomaly_score(work).argmax())
    5
    """

    def __init__(
        self,
        *,
        span: int | None = None,
        every: int = 1,
        clip: float = 3.0,
        floor: float = 0.1,
        threshold: float = 3.0,
        effect: float = 0.05,
        strongest: int | None = None,
        floors: ArrayLike | None = None,
        relative_floor: float = 0.01,
        least_hosts: int = 4,
        least_share: float = 0.5,
    ) -> None:
        self.span = span
        self.every = every
        self.clip = clip
        self.floor = floor
        self.threshold = threshold
        self.effect = effect
        self.strongest = strongest
        self.floors = floors
        self.relative_floor = relative_floor
        self.least_hosts = least_hosts
        self.least_share = least_share

    def compare(self, X: ArrayLike) -> PeerScores:
        """Compare hosts in every span.

        Parameters
        ----------
        X
            Shape (n_windows, n_hosts, n_metrics), windows in order of time; NaN where a sample is missing.

        Returns
        -------
        PeerScores
            Of the spans that end with windows ``span``, ``span + every`` and so on.

        Raises
        ------
        UsageError
            If hosts or windows are too few.
        """
        values = self._validate(X)
        span = len(values) if self.span is None else self.span
        if len(values) < span:
            raise UsageError(f"{len(values)} windows are too few to compare peers over {span}")
        ends = np.arange(span, len(values) + 1, self.every, dtype=np.int64)
        judged, named = zip(*(self._judge(values[end - span : end]) for end in ends), strict=True)
        return PeerScores(
            ends=ends,
            score=np.stack([one.score for one in judged]),
            deviation=np.stack([one.deviation for one in judged]),
            contributions=np.stack([one.contributions for one in judged]),
            named=np.stack(named),
        )

    def anomaly_score(self, X: ArrayLike) -> Array:
        """Return how strange each host is, shape (n_spans, n_hosts); see `compare`."""
        return self.compare(X).score

    def contributions(self, X: ArrayLike) -> Array:
        """Return each metric's part of each score, shape (n_spans, n_hosts, n_metrics); see `compare`."""
        return self.compare(X).contributions

    def odd_hosts(self, X: ArrayLike, hosts: Sequence[str], metrics: Sequence[str]) -> tuple[OddHost, ...]:
        """Name the hosts that are not like their peers, over all windows given.

        Parameters
        ----------
        X
            As `compare` takes it; ``span`` and ``every`` do not matter.
        hosts, metrics
            Names along the axes of ``X``.

        Returns
        -------
        tuple of OddHost
            The strangest first.

        Raises
        ------
        UsageError
            If hosts are too few.
        """
        values = self._validate(X)
        if values.shape[1:] != (len(hosts), len(metrics)):
            raise ValueError(f"{len(hosts)} hosts and {len(metrics)} metrics, but shape {values.shape}")
        one, named = self._judge(values)
        order = sorted(np.flatnonzero(named).tolist(), key=lambda host: (-one.score[host], host))
        return tuple(
            OddHost(hosts[h], float(one.score[h]), 100.0 * float(one.deviation[h]), _behind(one, h, metrics))
            for h in order
        )

    def _validate(self, X: ArrayLike) -> Array:
        values = np.asarray(X, dtype=np.float64)
        if values.ndim != 3 or 0 in values.shape:
            raise ValueError(f"peers need windows by hosts by metrics, not shape {values.shape}")
        if np.isinf(values).any():
            raise ValueError("peers cannot be compared with infinite values")
        if self.least_hosts < 3:
            raise ValueError(f"least_hosts must be 3 at least, not {self.least_hosts}")
        if self.every < 1 or (self.span is not None and self.span < 1):
            raise ValueError(f"span and every must be 1 at least, not {self.span} and {self.every}")
        if self.strongest is not None and self.strongest < 1:
            raise ValueError(f"strongest must be 1 at least, not {self.strongest}")
        if self.floors is not None and np.shape(self.floors) != values.shape[2:]:
            raise ValueError(f"{np.size(self.floors)} floors for {values.shape[2]} metrics")
        if values.shape[1] < self.least_hosts:
            raise UsageError(
                f"{values.shape[1]} hosts are too few to compare with each other: {self.least_hosts} at least"
            )
        return values

    def _judge(self, values: Array) -> tuple[_Judged, Flags]:
        """Judge hosts in one span: take the worst out, compare the others again; return who was named.

        What is said of a host is from the last comparison that it took part in.
        """
        n_hosts, n_metrics = values.shape[1:]
        blank = np.full((n_hosts, n_metrics), np.nan)
        found = _Judged(blank[:, 0].copy(), blank[:, 0].copy(), *(blank.copy() for _ in range(4)))
        found.contributions[:] = 0.0
        named = np.zeros(n_hosts, dtype=bool)
        left = np.flatnonzero(~np.isnan(values).all(axis=(0, 2)))
        # Who differs from most is odd; most cannot be.
        most = (len(left) - 1) // 2
        while len(left) >= self.least_hosts:
            latest = self._compared(values[:, left])
            for part in fields(_Judged):
                getattr(found, part.name)[left] = getattr(latest, part.name)
            odd = (latest.score >= self.threshold) & (latest.deviation >= self.effect)
            if not odd.any() or named.sum() >= most:
                break
            worst = int(np.where(odd, latest.score, -np.inf).argmax())
            named[left[worst]] = True
            left = np.delete(left, worst)
        return found, named

    def _compared(self, values: Array) -> _Judged:
        """Compare hosts once, shape (n_windows, n_hosts, n_metrics)."""
        peers = known_median(values, 1)
        enough = (~np.isnan(values)).sum(axis=1, keepdims=True) >= self.least_hosts
        difference = np.where(enough, values - peers, np.nan)
        floors = np.zeros(values.shape[2]) if self.floors is None else np.asarray(self.floors, dtype=float)
        scale = np.maximum(
            _MAD_TO_SIGMA * known_median(np.abs(difference), 1), self.relative_floor * np.abs(peers)
        )
        z = clipped_ratio(difference, np.maximum(scale, floors), self.clip)
        present = (~np.isnan(z)).sum(axis=0)
        moving = (np.nan_to_num(z) != 0.0).any(axis=(0, 1))
        judged = (present >= max(1.0, self.least_share * len(values))) & moving
        judged &= judged.sum(axis=0) >= self.least_hosts
        mean = np.where(judged, np.nansum(z, axis=0) / np.maximum(present, 1), np.nan)
        away = mean - known_median(mean, 0)
        size = np.abs(away) / np.maximum(_MAD_TO_SIGMA * known_median(np.abs(away), 0), self.floor)
        contributions, score = self._combined(size)
        # Where the peers have nothing at all, whatever a host has is all of it.
        whole = np.maximum(np.abs(peers), floors)
        share = difference / np.where(
            whole > 0.0, whole, np.where(difference == 0.0, 1.0, np.abs(difference))
        )
        halves = [known_median(half, 0)[0] for half in np.array_split(share, 2) if len(half)]
        same = np.abs(np.sign(halves).sum(axis=0)) == len(halves)
        lasting = np.where(judged, np.where(same, np.abs(halves).min(axis=0), 0.0), np.nan)
        return _Judged(
            score=score,
            deviation=weighted_median(lasting, contributions),
            contributions=contributions,
            relative=np.where(judged, known_median(share, 0)[0], np.nan),
            value=known_median(values, 0)[0],
            peers=np.broadcast_to(known_median(peers, 0)[0], size.shape),
        )

    def _combined(self, size: Array) -> tuple[Array, Array]:
        """Return each metric's part of the score and the score of each host."""
        known = (~np.isnan(size)).sum(axis=1)
        count = known if self.strongest is None else np.minimum(known, self.strongest)
        order = np.argsort(np.where(np.isnan(size), 1.0, -size), axis=1, kind="stable")
        rank = np.argsort(order, axis=1, kind="stable")
        part = np.where(rank < count[:, None], size, 0.0) / np.maximum(count, 1)[:, None]
        chance = np.sqrt(2.0 * np.log(np.maximum(known, 1) / np.maximum(count, 1)))
        score = np.where(known > 0, np.maximum(part.sum(axis=1) - chance, 0.0), np.nan)
        return part, score


def _behind(judged: _Judged, host: int, metrics: Sequence[str]) -> tuple[PeerMetric, ...]:
    """Return the metrics that make a host's score, the largest part first."""
    part = judged.contributions[host]
    return tuple(
        PeerMetric(
            metric=metrics[m],
            value=float(judged.value[host, m]),
            peers=float(judged.peers[host, m]),
            deviation_pct=100.0 * float(judged.relative[host, m]),
            direction="up" if judged.relative[host, m] > 0 else "down",
            share=float(part[m] / part.sum()),
        )
        for m in np.argsort(-part, kind="stable")
        if part[m] > 0.0
    )
