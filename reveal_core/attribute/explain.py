"""Which metrics and subsystems explain an incident.

The rule is made to explain, not taken from a detector: how far each metric's level lay beyond its healthy
band, pooled over the incident's windows, and per subsystem the mean of its five furthest metrics, of which
copies of each other count once, so that a subsystem is not favoured for having more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reveal_core.channels import SUBSYSTEMS
from reveal_core.detect.contributions import Excursions
from reveal_core.incidents import SubsystemShare

FURTHEST = 5
"""Metrics per subsystem that are pooled; of the numbers tried on injected faults this explained best."""

ALIKE = 0.02
"""Two metrics are copies of each other if their excesses differ by no more than this share of them."""


@dataclass(frozen=True)
class Movement:
    """How far a metric moved in an incident, by its feature that moved furthest.

    Attributes
    ----------
    metric, subsystem
        Which metric.
    column
        Number of the feature.
    excess
        Signed excess beyond the healthy band in standard units, pooled over the incident's windows.
    peak
        Number of the window where it was furthest out.
    course
        Its excess in each of the incident's windows.
    """

    metric: str
    subsystem: str
    column: int
    excess: float
    peak: int
    course: NDArray[np.float64] = field(compare=False, repr=False)


def pooled(excess: NDArray[np.float64], windows: Sequence[int]) -> NDArray[np.float64]:
    """Return the mean signed excess of each feature over an incident's windows, shape (k,)."""
    return np.asarray(excess[list(windows)].mean(axis=0))


def movements(excursions: Excursions, windows: Sequence[int]) -> list[Movement]:
    """Return every metric that left its healthy band, furthest first."""
    mean = pooled(excursions.excess, windows)
    best: dict[str, int] = {}
    for column, feature in enumerate(excursions.features):
        if mean[column] == 0.0:
            continue
        known = best.get(feature.metric)
        if known is None or _strength(excursions, mean, column) > _strength(excursions, mean, known):
            best[feature.metric] = column
    rows = np.array(windows)
    moved = []
    for metric, column in best.items():
        course = excursions.excess[rows, column]
        peak = int(rows[np.abs(course).argmax()])
        subsystem = excursions.features[column].subsystem
        moved.append(Movement(metric, subsystem, column, float(mean[column]), peak, course))
    return sorted(moved, key=lambda m: (-abs(m.excess), m.metric))


def _strength(excursions: Excursions, mean: NDArray[np.float64], column: int) -> float:
    """Prefer levels: at 100 ms they explain better than spreads, and people read them more easily."""
    feature = excursions.features[column]
    return abs(float(mean[column])) * (1.0 if feature.statistic == "level" else 0.5)


def furthest(moved: Sequence[Movement], subsystem: str) -> list[Movement]:
    """Return the `FURTHEST` metrics of a subsystem that moved furthest, without copies of each other.

    Pages and bytes of the same memory, busy and idle time of the same cores are one signal, told twice: what
    moved by the same excess in every window, whatever its sign, counts once.
    """
    chosen: list[Movement] = []
    for movement in moved:
        if len(chosen) == FURTHEST:
            break
        if movement.subsystem == subsystem and not any(_copies(movement, other) for other in chosen):
            chosen.append(movement)
    return chosen


def _copies(one: Movement, other: Movement) -> bool:
    size = np.abs(other.course)
    return bool(np.abs(np.abs(one.course) - size).sum() <= ALIKE * size.sum())


def subsystem_shares(moved: Sequence[Movement]) -> tuple[SubsystemShare, ...]:
    """Return the subsystems' shares of an incident, largest first, summing to 1.

    Parameters
    ----------
    moved
        From `movements`: furthest first.
    """
    strengths: dict[str, float] = {}
    for subsystem in SUBSYSTEMS:
        logs = [np.log1p(abs(m.excess)) for m in furthest(moved, subsystem)]
        # Absent metrics count as unmoved: one metric alone does not outweigh five.
        strengths[subsystem] = float(sum(logs)) / FURTHEST
    total = sum(strengths.values())
    if total <= 0.0:
        return ()
    shares = [SubsystemShare(name, value / total) for name, value in strengths.items() if value > 0.0]
    return tuple(sorted(shares, key=lambda s: -s.share))


def blend(shares: Sequence[SubsystemShare], subsystem: str, confidence: float) -> tuple[SubsystemShare, ...]:
    """Return the shares with the best cause's subsystem raised by the confidence in that cause."""
    values = {s.name: s.share * (1.0 - confidence) for s in shares}
    values[subsystem] = values.get(subsystem, 0.0) + confidence
    return tuple(sorted((SubsystemShare(k, v) for k, v in values.items()), key=lambda s: -s.share))
