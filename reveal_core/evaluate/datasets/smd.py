"""Server Machine Dataset: five weeks of 38 metrics per machine, every minute.

Su et al., "Robust anomaly detection for multivariate time series through stochastic recurrent neural network"
(OmniAnomaly), KDD 2019.
"""

from __future__ import annotations

from pathlib import Path

from reveal_core.evaluate.datasets.tables import read_split_series, read_table
from reveal_core.evaluate.labelled import LabelledSeries

PERIOD_S = 60.0


def read(folder: Path) -> list[LabelledSeries]:
    """Read ``machine-*.parquet``, ``interpretation.csv`` and ``columns.csv`` of a folder.

    Raises
    ------
    UsageError
        A file is missing or not as it should be.
    """
    table = read_table(folder / "columns.csv", ("metric", "subsystem"))
    subsystems = dict(table.select("metric", "subsystem").iter_rows())
    return read_split_series(folder, "machine-", PERIOD_S, subsystems)
