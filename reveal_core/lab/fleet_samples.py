"""Samples of one simulated host, chunk after chunk: a recording's motions at levels and rates of its own."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.collect.columns import MISSING
from reveal_core.collect.segments import Batch, encode_batch
from reveal_core.evaluate.replayed import Placed, replay
from reveal_core.lab.fleet_classes import Place
from reveal_core.lab.fleet_donor import Donor, Floats, Pattern
from reveal_core.lab.fleet_faults import struck
from reveal_core.lab.sample_host import block_of
from reveal_core.segment import Segment
from reveal_core.telemetry import Telemetry

Ints = NDArray[np.int64]
OWN_LEVEL = 0.3
"""A host's levels and rates differ from the recording's by up to so many of their standard deviations."""
OWN_NOISE = 0.3
"""Standard deviation of the noise that is added to a level, in that of its steps from sample to sample."""
MOST_RATE = 0.25
"""A rate differs by this share at most, however much it varies by itself."""
_SMALL = 2**31
"""A 32-bit counter begins below this, so that it does not come round within a simulation."""


class HostSamples:
    """The samples of a host, in order of time.

    Parameters
    ----------
    donor, table
        The recording, and the host's channels.
    seed
        Of everything that is the host's own.
    """

    def __init__(self, donor: Donor, table: Sequence[Place], seed: Sequence[int]) -> None:
        self.donor = donor
        self.table = table
        self._random = np.random.default_rng(seed)
        self.phase = int(self._random.integers(donor.turn))
        self.lag_ns = int(self._random.integers(donor.period_ms)) * 10**6
        """How far its ticks lie behind whole periods."""
        self.boot_ns = int(self._random.integers(10**14, 10**15))
        own = self._random.uniform(-OWN_LEVEL, OWN_LEVEL, len(table))
        begun = self._random.uniform(0.5, 1.5, len(table))
        self._own = own.tolist()
        self._base = [_begin(place.pattern, share) for place, share in zip(table, begun, strict=True)]
        self._sum = self._random.random(len(table)).tolist()

    def times(self, start_ns: int, first: int, count: int) -> tuple[Ints, Ints]:
        """Return wall clock and time since boot, ns, of ``count`` rows from ``first`` on."""
        since = np.arange(first, first + count, dtype=np.int64) * (self.donor.period_ms * 10**6)
        return start_ns + self.lag_ns + since, self.boot_ns + since

    def chunk(self, first: int, count: int) -> Ints:
        """Return the next rows, which must follow those before: integers as the kernel would have them.

        Returns
        -------
        Ints
            Shape (n_channels, count); a level's integers are still to be multiplied with its column's scale.
        """
        rows = {
            lag: self.donor.rows_at(self.phase - lag + first, count)
            for lag in dict.fromkeys(place.lag for place in self.table)
        }
        samples = np.empty((len(self.table), count), dtype=np.int64)
        for number, place in enumerate(self.table):
            pattern, at = place.pattern, rows[place.lag]
            motion = pattern.motion[at]
            if pattern.counts:
                samples[number] = self._counts(number, pattern, motion)
            else:
                samples[number] = self._levels(number, pattern, motion, place.column.scale)
            if not pattern.complete:
                samples[number, ~pattern.present[at]] = MISSING
        return samples

    def _counts(self, number: int, pattern: Pattern, motion: Floats) -> Ints:
        if pattern.spread:
            share = min(max(self._own[number] * pattern.spread, -MOST_RATE), MOST_RATE)
            motion = motion * (1.0 + share)
        # Sums are rounded, not steps: a slow counter moves by less than one count a sample.
        sums = self._sum[number] + np.cumsum(motion)
        self._sum[number] = float(sums[-1])
        counts: Ints = np.floor(sums).astype(np.int64)
        return counts + self._base[number]

    def _levels(self, number: int, pattern: Pattern, motion: Floats, scale: float) -> Ints:
        levels = motion
        if pattern.spread:
            noise = self._random.normal(0.0, OWN_NOISE * pattern.jitter, len(motion))
            levels = motion + self._own[number] * pattern.spread + noise
            np.clip(levels, pattern.low, pattern.high, out=levels)
        return np.rint(levels / scale).astype(np.int64)

    def strike(self, samples: Ints, start_ns: int, first: int, placed: Placed) -> None:
        """Write a fault into a chunk that it lies in; what it adds to counters stays in later ones."""
        numbers = {place.column.channel.name: number for number, place in enumerate(self.table)}
        names = struck(placed, [place.column.channel for place in self.table])
        ts, mono = self.times(start_ns, first, samples.shape[1])
        columns = {
            "ts": pl.Series(ts).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"),
            "mono": pl.Series(mono),
            **{name: _stored(samples[numbers[name]], self.table[numbers[name]]) for name in names},
        }
        channels = {name: self.table[numbers[name]].column.channel for name in names}
        after = replay(Telemetry("", pl.DataFrame(columns), channels), [placed]).frame
        for name in names:
            number = numbers[name]
            before, samples[number] = samples[number].copy(), _raw(after[name], self.table[number])
            there = np.flatnonzero(before != MISSING)
            if self.table[number].pattern.counts and there.size:
                self._base[number] += int(samples[number, there[-1]] - before[there[-1]])

    def segment(
        self,
        samples: Ints,
        start_ns: int,
        first: int,
        *,
        host: str,
        boot: str,
        sequence: int,
        facts: Mapping[str, Any],
    ) -> Segment:
        """Return rows as the collector would have encoded them."""
        ts, mono = self.times(start_ns, first, samples.shape[1])
        columns = [place.column for place in self.table]
        return encode_batch(
            Batch(
                host=host,
                boot=boot,
                sequence=sequence,
                facts=facts,
                ts=array("q", ts.tobytes()),
                mono=array("q", mono.tobytes()),
                blocks=[block_of(columns, samples)],
            )
        )


def _stored(row: Ints, place: Place) -> pl.Series:
    """Return a row of samples as a store gives them back."""
    values = pl.Series(row) if place.pattern.counts else pl.Series(row * place.column.scale)
    return pl.select(pl.when(pl.Series(row != MISSING)).then(values)).to_series()


def _raw(column: pl.Series, place: Place) -> Ints:
    """Return a column as a row of samples: the inverse of `_stored`."""
    if place.pattern.counts:
        return column.fill_null(MISSING).to_numpy().astype(np.int64)
    values = np.rint(column.fill_null(0.0).to_numpy() / place.column.scale).astype(np.int64)
    return np.where(column.is_null().to_numpy(), MISSING, values)


def _begin(pattern: Pattern, share: float) -> int:
    """Return a counter's first count on a host that has been up for another time than the recording's."""
    base = int(pattern.base * share)
    return base % _SMALL if pattern.metric.bits == 32 else base
