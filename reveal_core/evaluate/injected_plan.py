"""What perturbations of recorded telemetry may be, and what one of them is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reveal_core.errors import UsageError
from reveal_core.evaluate.matching import LATE_S

SIZED = ("level", "spread", "trend")
KINDS = (*SIZED, "stuck", "lost")
"""Shift, added noise, ramp; value frozen; samples missing. The last two have no size."""
TARGETS = ("metric", "instance", "subsystem", "source", "host")
LOST_TARGETS = ("metric", "source", "host")
VALUE_TARGETS = ("metric", "instance", "subsystem")


@dataclass(frozen=True)
class InjectionPlan:
    """What is injected.

    Attributes
    ----------
    kinds
        Some of `KINDS`, each as often as the others.
    targets
        Some of `TARGETS`: one metric on all its instances, on one instance only, several metrics of a
        subsystem together; all channels of a source and the whole host, which can only get lost.
    sizes
        Of what has a size. A level is shifted by so many robust standard deviations (1.4826 times the median
        absolute deviation) of the channel's own window levels, a trend ends there; the noise of a spread has
        so many times the channel's usual standard deviation within a window. Neither unit is below the
        smallest difference that is worth noticing, see `reveal_core.evaluate.injected_scale`.
    fault_s, gap_s
        Length of a perturbation, and of the healthy time before, between and after them, at least, s.
    count
        How many.
    seed
        Of everything random.
    together
        Metrics of a subsystem that move together.
    passes
        Where they do not fit into the telemetry one after another, they go into so many copies of it at most;
        what does not fit then is left out.
    exclude
        Metrics (shell patterns) that nothing is written into.
    """

    kinds: tuple[str, ...] = KINDS
    targets: tuple[str, ...] = TARGETS
    sizes: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0)
    fault_s: float = 10.0
    gap_s: float = 30.0
    count: int = 40
    seed: int = 0
    together: int = 4
    passes: int = 6
    exclude: tuple[str, ...] = ("reveal.*",)

    def __post_init__(self) -> None:
        for name, given, known in (("kinds", self.kinds, KINDS), ("targets", self.targets, TARGETS)):
            unknown = [value for value in given if value not in known]
            if unknown or not given:
                raise UsageError(f"injection {name} {list(unknown)}: choose from {', '.join(known)}")
        if not self.sizes or min(self.sizes) <= 0:
            raise UsageError(f"injection sizes {list(self.sizes)}: each must be above 0")
        if self.fault_s < 1.0 or self.gap_s < LATE_S:
            raise UsageError(
                f"faults of {self.fault_s:g} s with gaps of {self.gap_s:g} s cannot be judged: "
                f"at least 1 s and {LATE_S:g} s"
            )
        if min(self.count, self.together, self.passes) < 1 or self.seed < 0:
            raise UsageError("count, together and passes of an injection are 1 or more, its seed 0 or more")


DEFAULT_PLAN = InjectionPlan()


@dataclass(frozen=True)
class InjectedPerturbation:
    """A perturbation that was written into telemetry: the truth.

    Attributes
    ----------
    kind, target, size
        As in `InjectionPlan`; the size is None for a kind that has none.
    metrics, instance, source, subsystems
        What it struck. Instance and source are ``""`` but where one of them is the target; the whole host
        has no subsystem.
    channels
        Every channel that was changed, and by how much at most in its physical unit, signed; 0 where no
        amount is defined.
    onset, end
        When, UTC.
    clipped
        Share of its samples, 0 to 1, that were kept within what is valid: a share of 100 %, a rate of 0.
    """

    kind: str
    target: str
    metrics: tuple[str, ...]
    instance: str
    subsystems: tuple[str, ...]
    size: float | None
    channels: tuple[tuple[str, float], ...]
    onset: datetime
    end: datetime
    source: str = ""
    clipped: float = 0.0
