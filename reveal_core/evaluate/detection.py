"""How well scores and alarms find labelled anomalies, without point adjustment.

Point adjustment counts a whole event as found when one row of it is flagged, which lets random scores win
(Kim et al., "Towards a rigorous evaluation of time-series anomaly detection", AAAI 2022). Here events and
rows are counted apart instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from reveal_core.detect.threshold import DAY_S
from reveal_core.evaluate.labelled import Array, Mask, Span, runs
from reveal_core.evaluate.vus import WINDOW, vus_pr

MERGE_S = 1800.0
"""Alarms at most this far apart are one: nobody is called twice within half an hour."""


@dataclass(frozen=True)
class RankingScores:
    """How well scores rank anomalous rows above normal ones, over all thresholds.

    Attributes
    ----------
    average_precision
        Sum over thresholds of precision times the step in recall. Chance is the share of anomalous rows.
    auc
        Chance that an anomalous row scores higher than a normal one, ties half. Chance is 0.5.
    vus_pr
        Volume under the precision-recall surface, see `vus_pr`.
    """

    average_precision: float
    auc: float
    vus_pr: float


def ranking_scores(scores: Array, labels: Mask, window: int = WINDOW) -> RankingScores:
    """Judge a ranking of rows.

    Parameters
    ----------
    scores
        Higher is stranger, shape (k,). None may be NaN: what a row without a score means is for
        the caller to say.
    labels
        True where a row is anomalous, shape (k,).
    window
        Widest buffer around events for VUS-PR, rows.

    Returns
    -------
    RankingScores
        All NaN where rows are all normal or all anomalous, for then no ranking is better than another.
    """
    _check(scores, labels)
    if labels.all() or not labels.any():
        return RankingScores(np.nan, np.nan, np.nan)
    return RankingScores(
        average_precision=float(average_precision_score(labels, scores)),
        auc=float(roc_auc_score(labels, scores)),
        vus_pr=vus_pr(scores, labels, window),
    )


@dataclass(frozen=True)
class EventScores:
    """What alarms found, and what they cost. Counts, so that hosts can be pooled.

    Attributes
    ----------
    events, found
        Labelled events, and those that an alarm overlaps.
    alarms, false_alarms
        Alarms, and those that overlap no event.
    days
        Length of the judged time, host-days.
    delays_min
        Of each found event, in order of time: minutes from its start to the first row of it within an alarm.
    normal, normal_flagged
        Normal rows, and those of them above the threshold (rows that merging adds to an alarm are not).
    """

    events: int
    found: int
    alarms: int
    false_alarms: int
    days: float
    delays_min: tuple[float, ...]
    normal: int
    normal_flagged: int

    @property
    def recall(self) -> float:
        """Share of events found; NaN without events."""
        return _share(self.found, self.events)

    @property
    def precision(self) -> float:
        """Share of alarms that overlap an event; NaN without alarms."""
        return _share(self.alarms - self.false_alarms, self.alarms)

    @property
    def f1(self) -> float:
        """Harmonic mean of event recall and alarm precision.

        0 where events are there but none is found; NaN without events.
        """
        if self.events == 0 or self.found == 0:
            return np.nan if self.events == 0 else 0.0
        return 2 * self.recall * self.precision / (self.recall + self.precision)

    @property
    def false_per_day(self) -> float:
        """False alarms per host and day."""
        return _share(self.false_alarms, self.days)

    @property
    def median_delay_min(self) -> float:
        """Median of the delays, minutes; NaN where nothing was found."""
        return float(np.median(self.delays_min)) if self.delays_min else np.nan

    @property
    def normal_flagged_share(self) -> float:
        """Share of normal rows above the threshold; NaN without normal rows."""
        return _share(self.normal_flagged, self.normal)


def find_alarms(
    scores: Array, threshold: float | Array, period_s: float, merge_s: float = MERGE_S
) -> list[Span]:
    """Return the alarms: runs of scores above a threshold, merged where they lie close together.

    Parameters
    ----------
    scores
        Shape (k,). NaN is never above the threshold.
    threshold
        One number, or one per row where it is recalibrated.
    period_s
        Seconds between two rows.
    merge_s
        Runs become one where the next begins at most this long after the last flagged row, s. So are clusters
        of scores formed when the threshold is calibrated.

    Returns
    -------
    list of Span
        Half open, in order. No two overlap.
    """
    return _merged(runs(scores > threshold), period_s, merge_s)


def event_scores(
    scores: Array,
    threshold: float | Array,
    labels: Mask,
    period_s: float,
    *,
    merge_s: float = MERGE_S,
    events: Sequence[Span] | None = None,
) -> EventScores:
    """Judge the alarms of one host.

    Parameters
    ----------
    scores, threshold, period_s, merge_s
        As `find_alarms` takes them.
    labels
        True where a row is anomalous, shape (k,).
    events
        Labelled events, half open, in order of start; they may overlap. The runs of `labels` if not given.

    Returns
    -------
    EventScores
        Counts, and the shares that follow from them.
    """
    if np.shape(scores) != np.shape(labels) or np.shape(threshold) not in ((), np.shape(scores)):
        raise ValueError(
            f"{np.shape(scores)} scores, {np.shape(labels)} labels, {np.shape(threshold)} thresholds"
        )
    flags = scores > threshold
    alarms = _merged(runs(flags), period_s, merge_s)
    events = runs(labels) if events is None else events
    first_rows = [next((max(a[0], event[0]) for a in alarms if _overlap(a, event)), None) for event in events]
    return EventScores(
        events=len(events),
        found=sum(row is not None for row in first_rows),
        alarms=len(alarms),
        false_alarms=sum(not any(_overlap(alarm, event) for event in events) for alarm in alarms),
        days=len(scores) * period_s / DAY_S,
        delays_min=tuple(
            (row - start) * period_s / 60
            for row, (start, _) in zip(first_rows, events, strict=True)
            if row is not None
        ),
        normal=int((~labels).sum()),
        normal_flagged=int((flags & ~labels).sum()),
    )


def pooled(parts: Iterable[EventScores]) -> EventScores:
    """Return the counts of several hosts together, so that each event and each host-day weighs the same."""
    all_parts = list(parts)
    return EventScores(
        events=sum(p.events for p in all_parts),
        found=sum(p.found for p in all_parts),
        alarms=sum(p.alarms for p in all_parts),
        false_alarms=sum(p.false_alarms for p in all_parts),
        days=sum(p.days for p in all_parts),
        delays_min=tuple(delay for p in all_parts for delay in p.delays_min),
        normal=sum(p.normal for p in all_parts),
        normal_flagged=sum(p.normal_flagged for p in all_parts),
    )


def _merged(spans: Sequence[Span], period_s: float, merge_s: float) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and (start - (merged[-1][1] - 1)) * period_s <= merge_s:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _share(part: float, whole: float) -> float:
    return part / whole if whole else np.nan


def _check(scores: Array, labels: Mask) -> None:
    if np.shape(scores) != np.shape(labels) or np.ndim(scores) != 1:
        raise ValueError(f"scores have shape {np.shape(scores)}, labels {np.shape(labels)}")
    if not np.isfinite(scores).all():
        raise ValueError(f"{int((~np.isfinite(scores)).sum())} scores are not finite")
