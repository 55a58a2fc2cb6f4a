"""What a recording knows of how channels move: the pattern of each, from which simulated hosts are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import Metric, load_catalog
from reveal_core.channels import Channel
from reveal_core.errors import UsageError
from reveal_core.features.rates import metric_of
from reveal_core.telemetry import BOOT_COLUMN, Telemetry

Floats = NDArray[np.float64]
LEAST_ROWS = 100
"""With fewer samples a recording says nothing of how channels move."""
_OF_ITSELF = "reveal."
"""Begins what the collector says of itself, which is of its machine and not of others."""
_TIME_SHARES = ("%", "ms/s")
"""Units of rates that are shares of time: a core has no more than a second in a second."""


@dataclass(frozen=True)
class Pattern:
    """How a channel of the recording moves.

    Attributes
    ----------
    channel, metric
        The channel, and its entry in the catalogue.
    motion
        Of a counter, by how much it rose since the sample before, at least 0; else its level. Shape (rows,);
        a row without a sample has 0 and the last level.
    present
        Which rows have a sample, shape (rows,).
    base
        First count of a counter, 0 of anything else.
    low, high
        What a level may be: the catalogue's range, and not below 0 or above 100 % where it never was.
    spread
        Standard deviation of a level, in its unit; of a counter that of its rate over a second, as a share of
        its mean, 0 where the rate is a share of time.
    jitter
        Standard deviation of a level's steps from sample to sample, in its unit; 0 of a counter.
    whole
        Whether every level is a whole number.
    """

    channel: Channel
    metric: Metric
    motion: Floats
    present: NDArray[np.bool_]
    base: int
    low: float
    high: float
    spread: float
    jitter: float
    whole: bool

    @property
    def counts(self) -> bool:
        """Whether it is a counter."""
        return self.channel.kind == "counter"

    @property
    def moves(self) -> bool:
        """Whether it ever moved."""
        return bool(self.motion.any()) if self.counts else bool(np.ptp(self.motion))

    @property
    def complete(self) -> bool:
        """Whether every row has a sample."""
        return bool(self.present.all())


@dataclass(frozen=True)
class Donor:
    """A recording that hosts are made from.

    Attributes
    ----------
    host, facts
        Whose it is, and what that host is.
    period_ms
        Time between two rows.
    rows
        Length of every pattern.
    patterns
        In the order of the recording's channels.
    """

    host: str
    facts: Mapping[str, Any]
    period_ms: int
    rows: int
    patterns: tuple[Pattern, ...]

    @property
    def turn(self) -> int:
        """Rows until a pattern that is followed there and back begins anew."""
        return 2 * self.rows - 2

    def rows_at(self, first: int, count: int) -> NDArray[np.int64]:
        """Return the rows of the recording that stand for ``count`` rows from ``first`` on.

        The recording is followed to its end and back again, and so on: so no level jumps where it begins
        anew.
        """
        at = np.arange(first, first + count, dtype=np.int64) % self.turn
        return np.where(at < self.rows, at, self.turn - at)


def donor_of(telemetry: Telemetry) -> Donor:
    """Return the patterns of a recording.

    Parameters
    ----------
    telemetry
        Healthy samples of one host; of several boots the last one counts.

    Raises
    ------
    UsageError
        If there are fewer than `LEAST_ROWS` rows, or no channel has a sample.
    """
    frame = telemetry.frame
    if BOOT_COLUMN in frame.columns:
        frame = frame.filter(pl.col(BOOT_COLUMN) == pl.col(BOOT_COLUMN).last())
    if frame.height < LEAST_ROWS:
        raise UsageError(
            f"{frame.height} samples of {telemetry.host} are too few to make hosts from: "
            f"at least {LEAST_ROWS} are needed"
        )
    catalog = load_catalog()
    patterns = [
        pattern
        for name, channel in telemetry.channels.items()
        if name in telemetry.held and not channel.metric.startswith(_OF_ITSELF)
        if (pattern := _pattern(frame[name], channel, metric_of(channel, catalog))) is not None
    ]
    if not patterns:
        raise UsageError(f"no channel of {telemetry.host} has a sample to make hosts from")
    period_ns = int(np.median(np.diff(frame["ts"].dt.epoch("ns").to_numpy())))
    return Donor(
        host=telemetry.host,
        facts=telemetry.facts,
        period_ms=max(1, round(period_ns / 1e6)),
        rows=frame.height,
        patterns=tuple(patterns),
    )


def _pattern(column: pl.Series, channel: Channel, metric: Metric) -> Pattern | None:
    """Return a channel's pattern; None where it has no sample, or is a counter of fractions."""
    present = column.is_not_null().to_numpy()
    if not present.any():
        return None
    if channel.kind != "counter":
        return _level(column, channel, metric, present)
    return _count(column, channel, metric, present) if column.dtype.is_integer() else None


def _count(column: pl.Series, channel: Channel, metric: Metric, present: NDArray[np.bool_]) -> Pattern | None:
    counts = column.drop_nulls().to_numpy().astype(np.int64)
    rises = np.maximum(np.diff(counts, prepend=counts[0]), 0)  # a reset or a dip is no increase
    if len(rises) > 1:
        rises[0] = rises[1]  # by how much it rose to its first sample is not known
    motion = np.zeros(len(column))
    motion[present] = rises
    shares_time = metric.physical_unit in _TIME_SHARES
    return Pattern(
        channel=channel,
        metric=metric,
        motion=motion,
        present=present,
        base=max(int(counts[0]), 0),
        low=0.0,
        high=np.inf,
        spread=0.0 if shares_time else _variation(motion),
        jitter=0.0,
        whole=True,
    )


def _variation(motion: Floats, rows: int = 10) -> float:
    """Return the standard deviation of sums over some rows as a share of their mean."""
    sums = motion[: len(motion) // rows * rows].reshape(-1, rows).sum(axis=1)
    mean = float(sums.mean())
    return float(sums.std()) / mean if mean > 0 else 0.0


def _level(column: pl.Series, channel: Channel, metric: Metric, present: NDArray[np.bool_]) -> Pattern:
    filled = column.cast(pl.Float64).fill_null(strategy="forward").fill_null(strategy="backward")
    levels = filled.to_numpy().astype(np.float64)
    lowest, highest = float(levels.min()), float(levels.max())
    low = metric.minimum if metric.minimum is not None else (0.0 if lowest >= 0 else -np.inf)
    high = metric.maximum if metric.maximum is not None else np.inf
    if metric.unit == "%" and highest <= 100.0:
        high = min(high, 100.0)
    return Pattern(
        channel=channel,
        metric=metric,
        motion=levels,
        present=present,
        base=0,
        low=low,
        high=high,
        spread=0.0 if channel.kind == "state" else float(levels.std()),
        jitter=float(np.diff(levels[present]).std()) if present.sum() > 1 else 0.0,
        whole=bool((levels == np.round(levels)).all()),
    )
