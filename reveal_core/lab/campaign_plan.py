"""What a campaign injects, piece by piece: a pure function of its seed and its settings."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

GAP_S = (30.0, 45.0)
"""Bounds of the healthy time before a fault."""
LENGTH_S = (10.0, 60.0)
INTENSITY = (0.5, 2.0)
"""Bounds of a fault's length and of its intensity, which are drawn evenly on a logarithmic scale."""
SETTLE_S = 30.0
"""What the workload needs to come to rest after its start."""
_ORDER, _PIECE = 0, 1
"""Streams of random numbers: of the order of faults, and of what happens in a piece."""


@dataclass(frozen=True)
class CampaignPlan:
    """The settings of a campaign.

    Attributes
    ----------
    seed
        Of everything that is drawn.
    faults, variants
        Names of the faults and of the workload's variants; each piece has the next variant.
    piece_faults
        How many faults a piece holds.
    healthy_s
        Healthy telemetry at the beginning of a piece, which a model learns from.
    control_s
        Healthy time after half of a piece's faults, and after the last.
    """

    seed: int
    faults: tuple[str, ...]
    variants: tuple[str, ...]
    piece_faults: int
    healthy_s: float
    control_s: float


@dataclass(frozen=True)
class PlannedFault:
    """A fault to come, after a healthy gap; ``control_s`` is further healthy time after it."""

    name: str
    gap_s: float
    seconds: float
    intensity: float
    control_s: float = 0.0


@dataclass(frozen=True)
class PiecePlan:
    """A recording to be made: one workload, a healthy stretch, and faults one after another.

    ``seed`` is the workload's, too.
    """

    number: int
    variant: str
    seed: int
    healthy_s: float
    faults: tuple[PlannedFault, ...]

    @property
    def seconds(self) -> float:
        """How long it takes from the time on that the workload runs."""
        spent = (fault.gap_s + fault.seconds + fault.control_s for fault in self.faults)
        return SETTLE_S + self.healthy_s + sum(spent)


def plan_piece(plan: CampaignPlan, number: int, most: int | None = None) -> PiecePlan:
    """Return a piece of a campaign.

    Every fault comes once before any comes again, in a new random order each time. Gaps, lengths and sizes
    are drawn anew for each.

    Parameters
    ----------
    plan
        The campaign's settings.
    number
        Which piece, from 0.
    most
        So many faults at most; what is left out are the last ones.
    """
    count = plan.piece_faults if most is None else min(plan.piece_faults, most)
    first = number * plan.piece_faults
    names = [_name(plan, first + place) for place in range(count)]
    rng = np.random.default_rng((plan.seed, _PIECE, number))
    seed = int(rng.integers(2**31))
    faults = []
    for place, name in enumerate(names):
        gap = float(rng.uniform(*GAP_S))
        seconds, intensity = _log_even(rng, LENGTH_S), _log_even(rng, INTENSITY)
        control = plan.control_s if place + 1 in (count // 2, count) else 0.0
        faults.append(PlannedFault(name, round(gap, 1), round(seconds, 1), round(intensity, 3), control))
    return PiecePlan(number, plan.variants[number % len(plan.variants)], seed, plan.healthy_s, tuple(faults))


def _log_even(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(log(bounds[0]), log(bounds[1]))))


def _name(plan: CampaignPlan, place: int) -> str:
    """Return the fault at a place of the endless sequence of rounds."""
    turn, within = divmod(place, len(plan.faults))
    order = np.random.default_rng((plan.seed, _ORDER, turn)).permutation(len(plan.faults))
    return plan.faults[int(order[within])]
