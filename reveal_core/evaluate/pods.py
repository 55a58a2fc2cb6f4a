"""Faults in pods of a microservice application, told apart by what each pod did in the minutes before.

A day of such an application drifts, memory above all, and a baseline of a whole day blames the drift. So each
moment is held against the quarter of an hour before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from reveal_core.detect.across import known_median
from reveal_core.errors import UsageError
from reveal_core.evaluate.labelled import FAULT_EFFECT_S, Array, FaultDay, Mask, TimedSeries

CPU, NETWORK, NOTHING = "cpu", "network", "none"
CALLS = (CPU, NETWORK, NOTHING)
"""What may be named: the subsystem of a fault, or nothing that the hardware shows."""
CPU_METRIC = "cpu_rate_pct"
"""CPU time used, percent of the pod's limit."""
_MAD_TO_SIGMA = 1.4826
_LEAST_LATENCY_S = 1e-3
"""Shorter latencies are rounded away by their source."""
_SAME_MINUTE_S = 30.0


@dataclass(frozen=True)
class LocalRule:
    """How a moment is held against the time before it.

    A signal's median over the minutes judged, less its median over the time before, over the larger of the
    robust deviation in that time (1.4826 times the median absolute deviation) and a floor. All constants are
    margins, the same for every pod and day; none was fitted to labels.

    Attributes
    ----------
    before_s
        Length of the time before, s.
    skip_s, judged_s
        What is judged begins ``skip_s`` after the moment, since a sample is the mean of its minute, and lasts
        ``judged_s``, as long as the effect of a fault.
    floors
        Smallest scale of each signal: 5 points of the CPU limit; .25 of the logarithm of the latency ratio.
        With the threshold, what is named is 15 points, or a ratio twice as large, at least.
    threshold
        From here on a signal is named.
    least_before, least_judged
        Samples that must be there.
    """

    before_s: float = 900.0
    skip_s: float = 20.0
    judged_s: float = 180.0
    floors: Mapping[str, float] = field(default_factory=lambda: {CPU: 5.0, NETWORK: 0.25})
    threshold: float = 3.0
    least_before: int = 3
    least_judged: int = 2


@dataclass(frozen=True)
class JudgedPod:
    """A pod at each of its samples, first axis the samples.

    Attributes
    ----------
    pod
        Its name.
    scores
        By ``cpu`` and ``network``, how far it rose; see `excursions`.
    named
        What was named.
    labels
        Where a fault of this pod shows that the hardware can show. One in the code cannot be seen in it.
    free
        Where, in all that was judged, no fault of any pod can show.
    """

    pod: str
    scores: dict[str, Array]
    named: list[str]
    labels: Mask
    free: Mask


@dataclass(frozen=True)
class DayFigures:
    """What was named on one day.

    Attributes
    ----------
    day
        Its name.
    latency
        Whether latency between services was recorded, without which no network fault can be seen.
    named
        Of each kind of fault, how often which of ``cpu``, ``network`` and ``none`` was named for its pod.
    faults, right
        By ``cpu``, ``network`` and ``none``: faults, and those for which just this was named.
    free, free_named
        Moments of all pods at which no fault can show, and those of them at which something was named.
    """

    day: str
    latency: bool
    named: dict[str, dict[str, int]]
    faults: dict[str, int]
    right: dict[str, int]
    free: int
    free_named: int


def pod_signals(day: FaultDay) -> dict[str, dict[str, list[TimedSeries]]]:
    """Return for each pod what tells of its CPU and of its network.

    CPU: the share of its limit that it uses. Network: for each service that calls it, ln of the latency that
    the caller sees over the latency that the pod itself sees. A pod that is slow in itself raises both, what
    holds up its packets only the first; so does a delay of 3 ms as well as of 3 s. Byte counts do not show a
    delay.

    Raises
    ------
    UsageError
        If the pods' CPU was not recorded.
    """
    if CPU_METRIC not in day.metrics:
        raise UsageError(f"{day.day}: no column {CPU_METRIC}")
    column = day.metrics.index(CPU_METRIC)
    ratios: dict[str, list[TimedSeries]] = {}
    by_name = {edge.name: edge for edge in day.edges}
    for name, own in by_name.items():
        edge, side = name.rsplit("/", 1)
        seen = by_name.get(f"{edge}/source")
        if side == "destination" and seen is not None:
            ratios.setdefault(edge.rsplit("_", 1)[1], []).append(_ratio(edge, seen, own))
    return {
        pod.name: {
            CPU: [TimedSeries(pod.name, pod.times_s, pod.values[:, [column]])],
            NETWORK: ratios.get(service_of(pod.name), []),
        }
        for pod in day.pods
    }


def service_of(pod: str) -> str:
    """Return the service of a pod, whose name ends with those of its replica set and of itself.

    >>> service_of("ts-food-service-f5756978c-6sb8t")
    'ts-food-service'
    """
    return pod.rsplit("-", 2)[0]


def _ratio(edge: str, seen: TimedSeries, own: TimedSeries) -> TimedSeries:
    """Return ln of one latency over the other, where both were taken in the same minute."""
    place = np.searchsorted(own.times_s, seen.times_s - _SAME_MINUTE_S)
    near = np.minimum(place, len(own.times_s) - 1)
    both = np.abs(own.times_s[near] - seen.times_s) < _SAME_MINUTE_S
    high, low = seen.values[both, 0], own.values[near[both], 0]
    ratio = np.log(np.maximum(high, _LEAST_LATENCY_S) / np.maximum(low, _LEAST_LATENCY_S))
    return TimedSeries(edge, seen.times_s[both], ratio[:, None])


def excursions(
    signals: Mapping[str, Sequence[TimedSeries]], moments_s: Array, rule: LocalRule
) -> dict[str, Array]:
    """Return how far each signal of a pod rose after each moment, in units of its scale.

    Parameters
    ----------
    signals
        By name, series whose first column counts; their median is taken.
    moments_s
        Seconds since the epoch, shape (n,).
    rule
        How to judge.

    Returns
    -------
    dict
        By name, shape (n,); 0, which is as usual, where samples are too few or there is no series.
    """
    found = {}
    for name, series in signals.items():
        parts = [_excursion(one, moments_s, rule.floors[name], rule) for one in series]
        middle = known_median(np.stack(parts), 0)[0] if parts else np.zeros(len(moments_s))
        found[name] = np.nan_to_num(middle, nan=0.0)
    return found


def _excursion(series: TimedSeries, moments_s: Array, floor: float, rule: LocalRule) -> Array:
    before = _within(series, moments_s - rule.before_s, moments_s)
    start_s = moments_s + rule.skip_s
    judged = _within(series, start_s, start_s + rule.judged_s)
    usual = known_median(before, 1)
    scale = np.maximum(_MAD_TO_SIGMA * known_median(np.abs(before - usual), 1), floor)
    rise = ((known_median(judged, 1) - usual) / scale)[:, 0]
    few = (_known(before) < rule.least_before) | (_known(judged) < rule.least_judged)
    return np.where(few, np.nan, rise)


def _within(series: TimedSeries, start_s: Array, end_s: Array) -> Array:
    """Return the samples after each start and up to each end, shape (n, the most of them), NaN for none."""
    first = np.searchsorted(series.times_s, start_s, side="right")
    last = np.searchsorted(series.times_s, end_s, side="right")
    place = first[:, None] + np.arange(max(1, int((last - first).max(initial=0))))
    values = np.append(series.values[:, 0], np.nan)
    return np.asarray(values[np.where(place < last[:, None], place, len(values) - 1)])


def _known(values: Array) -> NDArray[np.int64]:
    return np.asarray((~np.isnan(values)).sum(axis=1))


def named(found: Mapping[str, Array], rule: LocalRule) -> list[str]:
    """Return for each moment the signal that rose furthest if it reached the threshold, else ``none``."""
    names = list(found)
    rises = np.stack([found[name] for name in names])
    return [
        names[furthest] if rises[furthest, n] >= rule.threshold else NOTHING
        for n, furthest in enumerate(rises.argmax(axis=0))
    ]


def judge_pods(day: FaultDay, rule: LocalRule) -> list[JudgedPod]:
    """Judge every pod of a day at each of its samples, by that sample and those before it.

    Raises
    ------
    UsageError
        If the pods' CPU was not recorded.
    """
    signals = pod_signals(day)
    judged = []
    for pod in day.pods:
        moments_s = pod.times_s - rule.skip_s - rule.judged_s
        found = excursions(signals[pod.name], moments_s, rule)
        labels = np.zeros(len(pod.times_s), dtype=bool)
        for fault in day.faults:
            if fault.pod == pod.name and fault.subsystem is not None:
                labels |= (pod.times_s >= fault.time_s) & (pod.times_s < fault.time_s + FAULT_EFFECT_S)
        free = day.fault_free(moments_s) & day.fault_free(pod.times_s) & (moments_s >= pod.times_s[0])
        judged.append(JudgedPod(pod.name, found, named(found, rule), labels, np.asarray(free)))
    return judged


def day_figures(day: FaultDay, pods: Sequence[JudgedPod], rule: LocalRule) -> DayFigures:
    """Name what is behind each fault of a day, and count what was named where there was none.

    Parameters
    ----------
    day
        The day. Its faults say when to look and what would be right, nothing else.
    pods
        As `judge_pods` returns them.
    rule
        How to judge a moment.
    """
    signals = pod_signals(day)
    kinds: dict[str, Counter[str]] = {}
    faults: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for fault in day.faults:
        (told,) = named(excursions(signals[fault.pod], np.array([fault.time_s]), rule), rule)
        truth = fault.subsystem or NOTHING
        kinds.setdefault(fault.kind, Counter())[told] += 1
        faults[truth] += 1
        right[truth] += told == truth
    return DayFigures(
        day=day.day,
        latency=bool(day.edges),
        named={kind: {call: kinds[kind][call] for call in CALLS} for kind in sorted(kinds)},
        faults={call: faults[call] for call in CALLS},
        right={call: right[call] for call in CALLS},
        free=sum(int(pod.free.sum()) for pod in pods),
        free_named=sum(
            call != NOTHING for pod in pods for call, free in zip(pod.named, pod.free, strict=True) if free
        ),
    )
