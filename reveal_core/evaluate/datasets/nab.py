"""Numenta Anomaly Benchmark: single series of servers with windows around known anomalies.

Lavin and Ahmad, "Evaluating real-time anomaly detection algorithms: the Numenta Anomaly Benchmark", ICMLA
2015.

Choices:

- The train split is NAB's probationary part, in which detectors may learn and nothing is scored: the first
  15 % of the rows, at most those of 5000 rows (750).
- Rows are taken as recorded, as NAB does. Missing rows are not filled, and a clock that goes back one hour
  is not mended; the interval is the median one.
- The two temperature series are left out: they are of a plant and of an office, not of servers.
- Metrics of a segment are left empty: with one metric there is nothing to attribute.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from reveal_core.errors import UsageError
from reveal_core.evaluate.datasets.tables import as_array, as_flags, read_table
from reveal_core.evaluate.labelled import LabelledSeries, Mask, Segment

PROBATION = 0.15
PROBATION_MOST_ROWS = 5000
"""Rows of a longer series that count towards the probationary part."""
NOT_SERVERS = frozenset(
    {
        "realKnownCause/ambient_temperature_system_failure",
        "realKnownCause/machine_temperature_system_failure",
    }
)
SUBSYSTEM_WORDS = {
    "cpu_utilization": "cpu",
    "disk_write": "storage",
    "network_in": "network",
    "networkin": "network",
    "request_count": "network",
}
"""Subsystem by a part of the series' name, lower case; requests come over the network."""


def read(folder: Path) -> list[LabelledSeries]:
    """Read ``nab.parquet`` and ``windows.csv`` of a folder, one `LabelledSeries` per series of a server.

    Raises
    ------
    UsageError
        A file is missing or not as it should be.
    """
    path, windows_path = folder / "nab.parquet", folder / "windows.csv"
    table = read_table(path, ("series", "timestamp", "value", "label"), ("value", "label"))
    if not table["timestamp"].dtype.is_temporal() or table["timestamp"].null_count():
        raise UsageError(f"{path}: column timestamp is not all times")
    windows = read_table(windows_path, ("series", "start", "end"))
    try:
        windows = windows.with_columns(pl.col("start", "end").str.to_datetime("%Y-%m-%d %H:%M:%S%.f"))
    except pl.exceptions.PolarsError as error:
        raise UsageError(f"{windows_path}: a start or end is not a time") from error
    return [
        _series(str(name), rows, windows.filter(pl.col("series") == name), path, windows_path)
        for (name,), rows in table.group_by("series", maintain_order=True)
        if name not in NOT_SERVERS
    ]


def _series(
    name: str, rows: pl.DataFrame, windows: pl.DataFrame, path: Path, windows_path: Path
) -> LabelledSeries:
    probation = int(PROBATION * min(rows.height, PROBATION_MOST_ROWS))
    if probation == 0:
        raise UsageError(f"{path}: {name} has {rows.height} rows, too few for a probationary part")
    labels, times = as_flags(rows, "label", path), rows["timestamp"].cast(pl.Datetime("us")).to_numpy()
    segments = []
    inside_any: Mask = np.zeros(len(labels), dtype=bool)
    for start, end in windows.select("start", "end").sort("start").iter_rows():
        inside = (times >= np.datetime64(start)) & (times <= np.datetime64(end))
        found = np.flatnonzero(inside)
        if found.size == 0 or found[0] < probation:
            raise UsageError(f"{windows_path}: {name}: no scored row, or one of the first 15 %, from {start}")
        inside_any |= inside
        segments.append(Segment(int(found[0]) - probation, int(found[-1]) + 1 - probation))
    if (inside_any != labels).any():
        row = int(np.flatnonzero(inside_any != labels)[0])
        raise UsageError(f"{path}: {name}: the label of row {row} does not agree with {windows_path.name}")
    values = as_array(rows, ("value",), path)
    period_s = float(np.median(np.diff(times) / np.timedelta64(1, "s")))
    subsystem = next((s for word, s in SUBSYSTEM_WORDS.items() if word in name.lower()), None)
    return LabelledSeries(
        entity=name,
        train=values[:probation],
        test=values[probation:],
        period_s=period_s,
        metrics=("value",),
        subsystems=(subsystem,),
        labels=labels[probation:],
        segments=tuple(segments),
    )
