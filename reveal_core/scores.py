"""Scores of windows: what detection hands to attribution and reports."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class Scores:
    """One row per window of one host.

    ``frame`` columns: ``start`` and ``end`` (``Datetime("ns", "UTC")``), ``coverage`` (share of expected
    samples, 0 to 1), ``score/<detector>`` (higher is stranger), ``p/<detector>`` (calibrated tail
    probability), ``fused``, ``probability``, ``threshold``, ``severity`` (detectors beyond their own
    threshold), ``anomalous`` (Boolean).
    """

    host: str
    frame: pl.DataFrame
    detectors: tuple[str, ...]


def empty_scores(host: str) -> Scores:
    """Return the scores of a host of which no window was judged."""
    time = pl.Datetime("ns", "UTC")
    schema = {
        "start": time,
        "end": time,
        "coverage": pl.Float64(),
        "fused": pl.Float64(),
        "probability": pl.Float64(),
        "threshold": pl.Float64(),
        "severity": pl.Int64(),
        "anomalous": pl.Boolean(),
    }
    return Scores(host, pl.DataFrame(schema=schema), ())
