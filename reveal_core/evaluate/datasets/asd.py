"""Application Server Dataset: 45 days of 19 unnamed metrics per server, every five minutes.

Li et al., "Multivariate time series anomaly detection and interpretation using hierarchical inter-metric and
temporal embedding" (InterFusion), KDD 2021.
"""

from __future__ import annotations

from pathlib import Path

from reveal_core.evaluate.datasets.tables import read_split_series
from reveal_core.evaluate.labelled import LabelledSeries

PERIOD_S = 300.0


def read(folder: Path) -> list[LabelledSeries]:
    """Read ``omi-*.parquet`` and ``interpretation.csv`` of a folder; no subsystem is known.

    Raises
    ------
    UsageError
        A file is missing or not as it should be.
    """
    return read_split_series(folder, "omi-", PERIOD_S, {})
