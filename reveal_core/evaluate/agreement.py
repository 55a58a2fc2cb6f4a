"""How far two settings of the method agree on what is anomalous, and whether alarms keep their budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from reveal_core.scores import Scores

Flags = Mapping[str, Set[int]]
"""By name of a stretch of telemetry, the seconds since the epoch in which a flagged window ends."""
CHANCE = 0.05
"""A count of false incidents is within the budget unless chance alone would reach it less often than so."""


def flagged_seconds(scores: Scores) -> frozenset[int]:
    """Return the seconds since the epoch in which a flagged window ends.

    A window is told by its end, for what is new in it lies there: so settings with windows of another length
    can be compared. Of a stride below a second the windows of one second count as one.
    """
    ends = scores.frame["end"].dt.epoch("ns").to_numpy()
    return frozenset((ends[scores.frame["anomalous"].to_numpy()] // 10**9).tolist())


def overlap(one: Flags, other: Flags) -> float:
    """Return the intersection over the union of what two settings flag, 0 to 1; 1 where both flag nothing.

    >>> overlap({"host": {1, 2, 3}}, {"host": {2, 3, 4}})
    0.5
    """
    names = set(one) | set(other)
    both = sum(len(one.get(name, frozenset()) & other.get(name, frozenset())) for name in names)
    either = sum(len(one.get(name, frozenset()) | other.get(name, frozenset())) for name in names)
    return both / either if either else 1.0


def hit_rate(reference: Flags, other: Flags) -> float | None:
    """Return the share of what the reference flags that the other flags too; None where it flags nothing."""
    whole = sum(len(seconds) for seconds in reference.values())
    hit = sum(len(seconds & other.get(name, frozenset())) for name, seconds in reference.items())
    return hit / whole if whole else None


@dataclass(frozen=True)
class Extent:
    """An incident's extent: in which telemetry, and its first and last second since the epoch."""

    name: str
    first: int
    last: int


def incident_hit_rate(reference: Sequence[Extent], other: Flags) -> float | None:
    """Return the share of the reference's incidents in which the other flags a window; None without any."""
    if not reference:
        return None
    hit = sum(
        any(one.first <= second <= one.last for second in other.get(one.name, frozenset()))
        for one in reference
    )
    return hit / len(reference)


def stability(runs: Sequence[Flags]) -> float | None:
    """Return the mean overlap over pairs of repeated runs, which differ by their seed; None for one run."""
    pairs = [overlap(one, other) for one, other in combinations(runs, 2)]
    return float(np.mean(pairs)) if pairs else None


def within_budget(incidents: int, days: float, budget_per_day: float) -> bool:
    """Tell whether a count of false incidents is compatible with the alarm budget.

    Independent incidents at the budgeted rate are Poisson distributed; the count is compatible if such a rate
    reaches it with a probability of at least `CHANCE`. Minutes of telemetry show a gross excess only: no
    incident in an hour does not prove one a day.

    >>> within_budget(0, 0.01, 1.0), within_budget(1, 0.01, 1.0), within_budget(3, 1.0, 1.0)
    (True, False, True)
    """
    from scipy.stats import poisson

    return bool(poisson.sf(incidents - 1, budget_per_day * days) >= CHANCE)
