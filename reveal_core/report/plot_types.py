"""What plots and pictures are drawn from: numbers of the report's model, without any geometry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeline:
    """How strange a host's windows were, relative to their threshold: 1 is the threshold.

    ``times_ms`` are the middles of windows or of groups of them (ms since 1970, UTC), ``ratio`` the highest
    score over threshold of each; None where nothing could be scored.
    """

    times_ms: tuple[int, ...]
    ratio: tuple[float | None, ...]


@dataclass(frozen=True)
class Levels:
    """Means of a quantity before, during and after an incident; None where there is no sample of it."""

    before: float | None
    during: float | None
    after: float | None


@dataclass(frozen=True)
class MetricPlot:
    """A channel around an incident, in the unit in which it reads best.

    ``quantity`` says what of the metric is drawn where it is not its plain value (`words.quantity`).
    ``low`` and ``high`` bound the normal band, in ``unit``; None where it is not known. ``step_ms`` is the
    distance of points; each is the mean (or the spread) of the samples around it. ``levels`` are means of
    the points drawn.
    """

    metric: str
    instance: str
    subsystem: str
    title: str
    quantity: str
    unit: str
    times_ms: tuple[int, ...]
    values: tuple[float | None, ...]
    low: float | None
    high: float | None
    step_ms: int
    levels: Levels


@dataclass(frozen=True)
class Onset:
    """The first signal of a subsystem that left its normal band, seconds from the incident's start."""

    subsystem: str
    seconds: float
    metric: str
    instance: str


@dataclass(frozen=True)
class InstanceLevel:
    """Means of one instance before and during an incident; None where it has no sample.

    ``moved`` is set for the instance that the incident names, and for those that changed at least
    `instances.MOVED_SHARE` as far in the same direction.
    """

    instance: str
    before: float | None
    during: float | None
    moved: bool


@dataclass(frozen=True)
class InstancePicture:
    """Which core, GPU, port or disk it was: every instance of the leading metric that has any.

    Attributes
    ----------
    metric, title, quantity, unit
        What is compared; levels are in ``unit``, the catalogue's.
    noun
        What an instance is: ``core``, ``GPU``, ``disk``.
    instances
        In natural order of their names.
    left_out
        Instances that are not among them, for being too many; these changed least.
    """

    metric: str
    title: str
    quantity: str
    unit: str
    noun: str
    instances: tuple[InstanceLevel, ...]
    left_out: int = 0

    @property
    def moved(self) -> tuple[InstanceLevel, ...]:
        """The instances that moved."""
        return tuple(level for level in self.instances if level.moved)
