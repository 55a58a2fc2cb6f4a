"""Faults of devices that a machine does not have, replayed over its recorded telemetry, and judged.

They are no real faults, and never counted among these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import Metric, load_catalog
from reveal_core.errors import UsageError
from reveal_core.evaluate.campaign import CampaignFault, JudgedPiece
from reveal_core.evaluate.matching import LATE_S, InjectedFault
from reveal_core.evaluate.replayed_devices import sampled_rows
from reveal_core.evaluate.replayed_faults import REPLAYED, Effect, ReplayedFault
from reveal_core.features.rates import metric_of
from reveal_core.incidents import Incident
from reveal_core.lab.campaign_plan import GAP_S, LENGTH_S
from reveal_core.telemetry import Telemetry
from reveal_core.timespec import to_ns

Floats = NDArray[np.float64]
VARIANT = "replayed"
SHOWN_S = 3.0
"""How long something that happens once shows: a window."""
SIZES = (0.5, 1.5)
"""Bounds of a fault's size; at 1 its effects are what they are said to be."""


@dataclass(frozen=True)
class Placed:
    """A fault with its time, UTC, and its size."""

    fault: ReplayedFault
    onset: datetime
    end: datetime
    size: float

    def truth(self, host: str) -> CampaignFault:
        """Return it as a campaign counts it."""
        # A clock that was set forward shows a later time at the onset.
        onset = self.onset + timedelta(seconds=self.fault.step_s)
        fault = self.fault
        # Setting it back is a step, too, which the windows after it show.
        end = self.end + timedelta(seconds=SHOWN_S if fault.step_s else 0.0)
        return CampaignFault(
            truth=InjectedFault(fault.name, fault.subsystem, onset, end, fault.causes, host),
            piece=0,
            variant=VARIANT,
            intensity=self.size,
            seconds=(self.end - self.onset).total_seconds(),
            how=f"replayed, not real: {fault.title}",
            lenient=fault.lenient,
        )


def place(start: datetime, end: datetime, count: int, seed: int) -> list[Placed]:
    """Return faults one after another in a range, as many as fit, each once before any comes again.

    Parameters
    ----------
    start, end
        The range, UTC.
    count
        So many at most.
    seed
        Of order, gaps, lengths and sizes.

    Raises
    ------
    UsageError
        If not even one fits.
    """
    rng = np.random.default_rng(seed)
    placed: list[Placed] = []
    at = start
    while len(placed) < count:
        if len(placed) % len(REPLAYED) == 0:
            order = rng.permutation(len(REPLAYED))
        gap, seconds = float(rng.uniform(*GAP_S)), float(rng.uniform(*LENGTH_S))
        size = float(rng.uniform(*SIZES))
        onset = at + timedelta(milliseconds=round(1000.0 * gap))
        until = onset + timedelta(milliseconds=round(1000.0 * seconds))
        if until + timedelta(seconds=LATE_S) > end:
            break
        fault = REPLAYED[int(order[len(placed) % len(REPLAYED)])]
        placed.append(Placed(fault, onset, until, round(size, 3)))
        at = until
    if not placed:
        length = (end - start).total_seconds()
        raise UsageError(f"{length:.0f} s of telemetry are too short to replay a fault in: at least 140 s")
    return placed


def replay(telemetry: Telemetry, faults: Sequence[Placed]) -> Telemetry:
    """Return a copy of the telemetry with faults written into it.

    Counters are changed in their rate and added up again; gauges keep their valid range.

    Parameters
    ----------
    telemetry
        With the channels of `reveal_core.evaluate.replayed_devices.add_devices`.
    faults
        None overlapping another.
    """
    frame, catalog = telemetry.frame, load_catalog()
    times = frame["ts"].dt.epoch("ns").to_numpy()
    mono = frame["mono"].to_numpy()
    columns: dict[str, pl.Series] = {}
    for one in faults:
        for name, channel in telemetry.channels.items():
            if name not in telemetry.held:
                continue
            effects = [e for e in one.fault.effects if _strikes(e, channel.metric, channel.instance)]
            gone = channel.instance in one.fault.lost and channel.metric.startswith("gpu.")
            if gone and channel.metric != "gpu.lost":
                inside = (times >= to_ns(one.onset)) & (times < to_ns(one.end))
                column = columns.get(name, frame[name])
                columns[name] = pl.select(pl.when(pl.Series(~inside)).then(column).alias(name)).to_series()
            for effect in effects:
                column = columns.get(name, frame[name])
                if effect.to is not None:
                    columns[name] = _set(column, effect, one, channel.period_ms, times, mono)
                else:
                    metric = metric_of(channel, catalog)
                    columns[name] = _changed(column, effect, one, metric, times, mono)
    written = replace(telemetry, frame=frame.with_columns(columns.values()))
    for one in faults:
        if one.fault.step_s:
            written = _with_step(written, one)
    return written


def judged_replay(
    telemetry: Telemetry,
    faults: Sequence[Placed],
    incidents: Sequence[Incident],
    *,
    start: datetime,
    end: datetime,
    seed: int,
) -> JudgedPiece:
    """Return the replayed faults and what was found, as a campaign's figures are made of them."""
    truths = tuple(one.truth(telemetry.host) for one in faults)
    return JudgedPiece(0, VARIANT, seed, start, end, truths, tuple(incidents))


def _strikes(effect: Effect, metric: str, instance: str) -> bool:
    return effect.metric == metric and (not effect.instances or instance in effect.instances)


def _weights(times: NDArray[np.int64], one: Placed, ramp_s: float) -> Floats:
    """Return how far an effect is there at each time, 0 to 1."""
    since = (times - to_ns(one.onset)) / 1e9
    inside = (since >= 0) & (times < to_ns(one.end))
    grown = np.minimum(since / ramp_s, 1.0) if ramp_s else np.ones(len(times))
    return np.where(inside, grown, 0.0)


def _set(
    column: pl.Series,
    effect: Effect,
    one: Placed,
    period_ms: int,
    times: NDArray[np.int64],
    mono: NDArray[np.int64],
) -> pl.Series:
    """Return a column set to a value; one without samples gets some, as the number of a first error."""
    assert effect.to is not None
    inside = _weights(times, one, 0.0) > 0
    there = column.is_not_null().to_numpy()
    if not (there & inside).any():
        there = there | inside & sampled_rows(mono, period_ms)
    values = np.where(inside, effect.to, column.fill_null(0).to_numpy().astype(np.float64))
    rows = np.flatnonzero(there)
    return _put(column, rows, values[rows])


def _changed(
    column: pl.Series,
    effect: Effect,
    one: Placed,
    metric: Metric,
    times: NDArray[np.int64],
    mono: NDArray[np.int64],
) -> pl.Series:
    rows = np.flatnonzero(column.is_not_null().to_numpy())
    weights = _weights(times[rows], one, effect.ramp_s)
    factor = np.maximum(0.0, 1.0 + (effect.factor - 1.0) * one.size * weights)
    added = effect.add * one.size * weights
    if metric.kind != "counter":
        low = -np.inf if metric.minimum is None else metric.minimum
        high = np.inf if metric.maximum is None else metric.maximum
        values = column.drop_nulls().to_numpy().astype(np.float64)
        return _put(column, rows, np.clip(values * factor + added, low, high))
    counts = column.drop_nulls().to_numpy().astype(np.int64)
    steps = np.diff(counts)
    new = np.where(steps >= 0, steps * factor[1:] + added[1:] * np.diff(mono[rows]) / 1e9, steps)
    # Rounded sums, not rounded steps: a slow counter moves by less than one count a sample.
    offsets = np.floor(np.cumsum(new - steps) + 0.5).astype(np.int64)
    changed = counts.copy()
    changed[1:] += offsets
    return _put(column, rows, changed % 2**32 if metric.bits == 32 else changed)


def _put(column: pl.Series, rows: NDArray[np.intp], values: NDArray[np.generic]) -> pl.Series:
    """Return the column with values in some rows and none in the others."""
    whole = np.zeros(len(column), dtype=values.dtype)
    whole[rows] = values
    there = np.zeros(len(column), dtype=bool)
    there[rows] = True
    known = pl.when(pl.Series(there)).then(pl.Series(whole))
    return pl.select(known.cast(column.dtype).alias(column.name)).to_series()


def _with_step(telemetry: Telemetry, one: Placed) -> Telemetry:
    """Return telemetry of a host whose wall clock is set forward and, at the fault's end, back."""
    frame = telemetry.frame
    times = frame["ts"].dt.epoch("ns").to_numpy()
    first, last = np.searchsorted(times, (to_ns(one.onset), to_ns(one.end)))
    at = pl.int_range(len(frame), eager=True)
    shift = timedelta(seconds=one.fault.step_s)
    inside = at.is_between(int(first), int(last), closed="left")
    columns = [pl.when(inside).then(pl.col("ts") + shift).otherwise(pl.col("ts")).alias("ts")]
    if "reveal.clock_steps" in frame.columns:
        steps = (at >= int(first)).cast(pl.Int64) + (at >= int(last)).cast(pl.Int64)
        columns.append((pl.col("reveal.clock_steps") + steps).alias("reveal.clock_steps"))
    if "reveal.clock_step" in frame.columns:
        size_ms = 1000.0 * one.fault.step_s
        told = pl.when(at == int(first)).then(size_ms).when(at == int(last)).then(-size_ms)
        kept = told.otherwise(pl.col("reveal.clock_step"))
        columns.append(kept.cast(frame.schema["reveal.clock_step"]).alias("reveal.clock_step"))
    stepped = frame.with_columns(columns).sort("ts", maintain_order=True)
    # As the store gives it: one row for each time.
    return replace(telemetry, frame=stepped.unique(subset="ts", keep="first", maintain_order=True))
