"""Perturbations written into raw telemetry: counters stay cumulative, gauges keep their valid range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import Metric, load_catalog
from reveal_core.evaluate.injected_plan import InjectedPerturbation
from reveal_core.evaluate.injected_scale import Habit
from reveal_core.features.rates import metric_of
from reveal_core.telemetry import BOOT_COLUMN, Telemetry
from reveal_core.timespec import to_ns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def write(
    telemetry: Telemetry,
    perturbations: Sequence[InjectedPerturbation],
    habits: Mapping[str, Habit],
    seed: int,
) -> tuple[Telemetry, list[InjectedPerturbation]]:
    """Return a copy of the telemetry with perturbations in it, and what of each was clipped.

    A counter's rate is changed and added up again, so after a perturbation its counts keep an offset and its
    rates are as they were. Where the counter itself starts anew (a reset, a boot) the offset is gone.
    Channels that are not perturbed share their memory with the original.

    Parameters
    ----------
    telemetry
        Raw samples.
    perturbations
        None overlapping another in time.
    habits
        Of every channel that changes its values.
    seed
        Of added noise.
    """
    frame = telemetry.frame
    times = frame["ts"].dt.epoch("ns").to_numpy()
    mono = frame["mono"].to_numpy()
    boots = frame[BOOT_COLUMN].to_numpy() if BOOT_COLUMN in frame.columns else np.zeros(len(frame), np.int32)
    catalog = load_catalog()
    columns: dict[str, pl.Series] = {}
    present = np.ones(len(frame), dtype=bool)
    told = []
    for number, one in enumerate(perturbations):
        first, last = np.searchsorted(times, (to_ns(one.onset), to_ns(one.end)))
        if one.kind == "lost" and one.target == "host":
            present[first:last] = False
            told.append(one)
            continue
        rng = np.random.default_rng((seed, number))
        clipped = samples = 0
        for name, amount in one.channels:
            if name not in telemetry.held:
                continue
            column = columns.get(name, frame[name])
            if one.kind == "lost":
                columns[name] = _without(column, int(first), int(last))
                continue
            metric = metric_of(telemetry.channels[name], catalog)
            rows = np.flatnonzero(column.is_not_null().to_numpy())
            values = column.drop_nulls().to_numpy()
            inside = (rows >= first) & (rows < last)
            part = _Part(
                one.kind,
                amount,
                inside,
                times[rows],
                mono[rows],
                boots[rows],
                to_ns(one.onset),
                to_ns(one.end),
            )
            change = _counter if telemetry.channels[name].kind == "counter" else _gauge
            changed, cut = change(values, part, habits[name], metric, rng)
            clipped += cut
            samples += int(inside.sum())
            columns[name] = _with(column, rows, changed)
        told.append(replace(one, clipped=clipped / samples if samples else 0.0))
    written = frame.with_columns(columns.values())
    if not present.all():
        written = written.filter(pl.Series(present))
    return replace(telemetry, frame=written), told


class _Part:
    """The samples of one channel, without missing ones, and which of them a perturbation covers."""

    def __init__(
        self,
        kind: str,
        amount: float,
        inside: NDArray[np.bool_],
        times: Ints,
        mono: Ints,
        boots: NDArray[np.int32],
        onset_ns: int,
        end_ns: int,
    ) -> None:
        self.kind, self.amount, self.inside = kind, amount, inside
        self.times, self.mono, self.boots = times, mono, boots
        self.onset_ns, self.end_ns = onset_ns, end_ns

    def added(self, rng: np.random.Generator) -> Floats:
        """Return what is added to each sample in the physical unit, 0 where none is covered."""
        times = self.times[self.inside]
        added = np.zeros(len(self.times))
        if self.kind == "spread":
            added[self.inside] = rng.normal(0.0, abs(self.amount), len(times))
        elif self.kind == "trend":
            added[self.inside] = self.amount * (times - self.onset_ns) / (self.end_ns - self.onset_ns)
        else:
            added[self.inside] = self.amount
        return added


def _gauge(
    values: NDArray[np.generic], part: _Part, habit: Habit, metric: Metric, rng: np.random.Generator
) -> tuple[Floats, int]:
    old = values.astype(np.float64)
    inside, new = part.inside, old.copy()
    if not inside.any():
        return new, 0
    if part.kind == "stuck":
        new[inside] = old[max(0, int(inside.argmax()) - 1)]
        return new, 0
    wanted = (old + part.added(rng))[inside]
    if (old == np.round(old)).all():  # counts of things and bytes stay whole
        wanted = np.round(wanted)
    new[inside] = np.clip(wanted, habit.minimum, habit.maximum)
    return new, int((new[inside] != wanted).sum())


def _counter(
    values: NDArray[np.generic], part: _Part, habit: Habit, metric: Metric, rng: np.random.Generator
) -> tuple[Ints, int]:
    old = values.astype(np.int64)
    steps = np.diff(old)
    if metric.bits == 32:  # the same rule as `reveal_core.features.rates.counter_rate`
        wrapped = steps + 2**32
        steps = np.where((steps < 0) & (old[:-1] > 2**31) & (wrapped < 2**31), wrapped, steps)
    dip = (steps < 0) & metric.dips & (-steps < old[:-1] // 2)
    anew = (np.diff(part.boots) != 0) | ((steps < 0) & ~dip)
    touched = part.inside[1:] & ~anew & ~dip
    if not touched.any():
        return old, 0
    number = np.arange(len(steps))
    breaks = number[anew & (number > touched.argmax())]
    stop = int(breaks[0]) if breaks.size else len(steps)
    touched &= number < stop
    new = steps.astype(np.float64)
    cut = 0
    if part.kind == "stuck":
        new[touched] = 0.0
    else:
        elapsed = np.diff(part.mono)[touched]
        # Only the time since the onset counts: a sample may be the first after a long gap.
        since_onset = part.times[1:][touched] - np.maximum(part.times[:-1][touched], part.onset_ns)
        seconds = np.clip(np.minimum(elapsed, since_onset), 0, None) / 1e9
        wanted = new[touched] + part.added(rng)[1:][touched] * seconds / metric.rate_scale
        most = np.inf
        if np.isfinite(habit.maximum):
            most = np.maximum(habit.maximum * elapsed / 1e9 / metric.rate_scale, new[touched])
        new[touched] = np.clip(wanted, 0.0, most)
        cut = int((new[touched] != wanted).sum())
    # Rounded sums, not rounded steps: a slow counter moves by less than one count a sample.
    offsets = np.floor(np.cumsum(new - steps) + 0.5).astype(np.int64)
    changed = old.copy()
    changed[1 : stop + 1] += offsets[:stop]
    return (changed % 2**32 if metric.bits == 32 else changed), cut


def _without(column: pl.Series, first: int, last: int) -> pl.Series:
    gone = pl.int_range(len(column), eager=True).is_between(first, last, closed="left")
    return pl.select(pl.when(~gone).then(column).alias(column.name)).to_series()


def _with(column: pl.Series, rows: Ints, values: NDArray[np.generic]) -> pl.Series:
    """Return the column with values in some of its rows; the others are null, as they were."""
    whole = np.zeros(len(column), dtype=values.dtype)
    whole[rows] = values
    known = column.is_not_null()
    return pl.select(pl.when(known).then(pl.Series(whole)).cast(column.dtype).alias(column.name)).to_series()
