"""The interval of telemetry: one that followed the host is made even, and what a long one hides is told."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import polars as pl

from reveal_core.channels import Channel
from reveal_core.telemetry import BOOT_COLUMN, SPARSE_GRID, Telemetry

PACE_METRICS = (SPARSE_GRID, "reveal.interval")
"""They tell how the host was sampled, which is over once it is brought to one interval."""
COARSE_S = 1.0
"""Samples that are further apart hide what an agent would see."""
LEAST_SAMPLES = 3
"""A window with fewer samples has no spread worth the name."""


def is_adaptive(telemetry: Telemetry) -> bool:
    """Return whether the sampling interval followed what the host did."""
    return SPARSE_GRID in telemetry.frame.columns


def even_pace(telemetry: Telemetry) -> Telemetry:
    """Return telemetry at the sparse interval throughout, where its interval changed as time went on.

    A rate over 100 ms is more ragged than one over 600 ms, so a window of dense samples would look strange by
    its spread alone. What was sampled densely is therefore thinned to the ticks that sparse sampling would
    have made: each keeps its own samples, and of channels that were read between two of them the latest.
    Counters lose nothing by it. Telemetry with one interval is returned as it is.
    """
    if not is_adaptive(telemetry):
        return telemetry
    time = [name for name in ("ts", "mono", BOOT_COLUMN) if name in telemetry.frame.columns]
    keys = ["__step", *([BOOT_COLUMN] if BOOT_COLUMN in time else [])]
    ordered = telemetry.frame.sort([*keys[1:], "mono"])
    kept = pl.col(SPARSE_GRID) != 0  # null where a segment was sampled at one interval: every row is kept
    marked = ordered.with_columns(kept.fill_null(True).alias("__kept"))
    # A row belongs to the next one that is kept: what was read since the last one is told there.
    marked = marked.with_columns(
        pl.col("__kept").cast(pl.Int64).cum_sum(reverse=True).alias("__step"),
    )
    thinned = (
        marked.group_by(keys, maintain_order=True)
        .agg(
            pl.col("__kept").last(),
            *(pl.col(name).last() for name in time if name != BOOT_COLUMN),
            *(pl.col(n).drop_nulls().last() for n in telemetry.frame.columns if n not in time),
        )
        .filter("__kept")
    )
    channels = {
        name: replace(channel, period_ms=max(channel.period_ms, _sparse_ms(telemetry)))
        for name, channel in telemetry.channels.items()
        if channel.metric not in PACE_METRICS
    }
    columns = [name for name in telemetry.frame.columns if name in channels or name in time]
    return replace(telemetry, frame=thinned.select(columns).sort("ts"), channels=channels)


def _sparse_ms(telemetry: Telemetry) -> int:
    calm = telemetry.facts.get("calm_ms")
    return int(calm) if isinstance(calm, (int, float)) else 1


def coarse_notes(channels: Iterable[Channel], window_s: float) -> list[str]:
    """Return what cannot be seen in telemetry whose samples are far apart.

    Parameters
    ----------
    channels
        Of the telemetry; the fastest of them counts, as it does for windows.
    window_s
        Length of the windows.
    """
    period_s = min((c.period_ms for c in channels if c.period_ms > 0), default=0) / 1000.0
    if period_s <= COARSE_S:
        return []
    notes = [
        f"Samples come every {period_s:g} s: what is shorter shows as a mean (a second at 100 % as "
        f"{100 / period_s:.2g} %), and which signal moved first within {period_s:g} s is not known."
    ]
    if window_s < LEAST_SAMPLES * period_s:
        notes.append(
            f"Windows of {window_s:g} s hold fewer than {LEAST_SAMPLES} of them, too few for any spread: "
            f"set window_s = {LEAST_SAMPLES * period_s:g} and stride_s = {period_s:g} and fit again."
        )
    return notes
