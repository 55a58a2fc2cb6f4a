"""What readers of labelled public data sets return: labelled series, jobs of peers, days with faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Span = tuple[int, int]
"""First row, and the row after the last."""

FAULT_EFFECT_S = 360.0
"""An injected Nezha fault shows in at most 5 samples of 60 s; one more, for samples are means of a minute."""


@dataclass(frozen=True)
class Segment:
    """A labelled anomaly and what made it one.

    Attributes
    ----------
    start, end
        First row, and the row after the last; rows of the test split.
    metrics
        Names of the metrics that made it anomalous; empty where the data set does not tell.
    """

    start: int
    end: int
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabelledSeries:
    """Telemetry of one entity, split in time, with labels on its second part.

    Attributes
    ----------
    entity
        Name of the machine, server or series.
    train, test
        Values in the publisher's unit, shapes (n, m) and (k, m). Train comes first in time and is unlabelled:
        it is only presumed to be mostly normal.
    period_s
        Seconds between two rows.
    metrics
        Names of the m columns.
    subsystems
        Subsystem of each metric; None where it is not known.
    labels
        True where a test row is anomalous, shape (k,).
    segments
        Labelled anomalies in order of start. They may overlap, and need not equal the runs of `labels`:
        a few data sets keep both by hand.
    """

    entity: str
    train: Array
    test: Array
    period_s: float
    metrics: tuple[str, ...]
    subsystems: tuple[str | None, ...]
    labels: Mask
    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        m, k = len(self.metrics), len(self.labels)
        shapes = (self.train.shape[1:], self.test.shape, len(self.subsystems))
        if shapes != ((m,), (k, m), m):
            raise ValueError(f"{self.entity}: {m} metrics and {k} labels, but shapes {shapes}")
        if not all(0 <= segment.start < segment.end <= k for segment in self.segments):
            raise ValueError(f"{self.entity}: a segment lies outside the {k} rows of the test split")

    @property
    def events(self) -> list[Span]:
        """The runs of `labels`."""
        return runs(self.labels)


@dataclass(frozen=True)
class PeerJob:
    """One job on many nodes that should behave alike.

    Attributes
    ----------
    job
        Its name.
    nodes, metrics
        Names, in the order of the axes of `values`.
    period_s
        Seconds between two rows.
    values
        Shape (k, nodes, metrics), in the publisher's unit; NaN where a sample is missing.
    slow
        Names of the nodes that are known to be slow for the whole job.
    work
        Those of the metrics that tell how much work a node does, in which nodes of a job must be alike; not
        what it is given or needs for it.
    """

    job: str
    nodes: tuple[str, ...]
    metrics: tuple[str, ...]
    period_s: float
    values: Array
    slow: frozenset[str]
    work: tuple[str, ...]


@dataclass(frozen=True)
class TimedSeries:
    """Samples with a time each, for clocks that tick apart.

    Attributes
    ----------
    name
        A pod, or an edge: ``caller_callee/side``, where the side that saw the latency is ``source`` or
        ``destination``.
    times_s
        Seconds since the epoch, rising, shape (k,).
    values
        Shape (k, m); NaN where a sample is missing.
    """

    name: str
    times_s: Array
    values: Array


@dataclass(frozen=True)
class PodFault:
    """A fault that was injected into a pod.

    Attributes
    ----------
    time_s
        When it was injected, seconds since the epoch. Its end is not known; see `FAULT_EFFECT_S`.
    pod, kind
        The pod, and the publisher's name of the fault.
    subsystem
        ``cpu`` or ``network``; None for a fault in the code, which the hardware does not show.
    """

    time_s: float
    pod: str
    kind: str
    subsystem: str | None


@dataclass(frozen=True)
class FaultDay:
    """A day of a microservice application with injected faults.

    Attributes
    ----------
    day
        Such as ``2022-08-22``.
    metrics
        Names of the columns of the pods' values.
    pods
        Telemetry of each pod; their clocks differ by seconds.
    edges
        Median latency between two services, s, one column; empty where it was not recorded.
    faults
        In order of time.
    """

    day: str
    metrics: tuple[str, ...]
    pods: tuple[TimedSeries, ...]
    edges: tuple[TimedSeries, ...]
    faults: tuple[PodFault, ...]

    def fault_free(self, times_s: Array) -> Mask:
        """Return where no fault of any pod can show: not within `FAULT_EFFECT_S` from an injection on.

        Parameters
        ----------
        times_s
            Seconds since the epoch, any shape.
        """
        free = np.ones(np.shape(times_s), dtype=bool)
        for fault in self.faults:
            free &= (times_s < fault.time_s) | (times_s >= fault.time_s + FAULT_EFFECT_S)
        return free


def runs(flags: Mask | Sequence[bool]) -> list[Span]:
    """Return the half-open spans of rows where flags are set, in order."""
    edges = np.flatnonzero(np.diff(np.asarray(flags, dtype=np.int8), prepend=0, append=0))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
