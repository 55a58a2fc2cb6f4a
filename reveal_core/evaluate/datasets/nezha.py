"""Nezha: microservices on Kubernetes with injected faults, resource figures per pod, every minute.

Yu et al., "Nezha: interpretable fine-grained root causes analysis for microservices on multi-modal
observability data", ESEC/FSE 2023.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from reveal_core.errors import UsageError
from reveal_core.evaluate.datasets.tables import as_array, matching_files, read_table
from reveal_core.evaluate.labelled import FaultDay, PodFault, TimedSeries

SUBSYSTEMS = {"cpu": "cpu", "network": "network", "none": None}
"""What the fault list may say; ``none`` is a fault in the code."""


def read(folder: Path) -> list[FaultDay]:
    """Read ``<day>_metrics.parquet``, ``<day>_faults.csv`` and, where it is, ``<day>_edge_latency.parquet``.

    Rows of one pod or edge with the same time are kept as one, the first.

    Raises
    ------
    UsageError
        A file is missing or not as it should be.
    """
    return [
        _day(folder, path.name.removesuffix("_metrics.parquet"))
        for path in matching_files(folder, "*_metrics.parquet")
    ]


def _day(folder: Path, day: str) -> FaultDay:
    path = folder / f"{day}_metrics.parquet"
    table = read_table(path, ("pod", "ts"), ("ts",))
    metrics = tuple(name for name in table.columns if name not in ("pod", "ts"))
    if not metrics:
        raise UsageError(f"{path}: no column of a metric")
    pods = _timed(table, "pod", metrics, path)
    edge_path = folder / f"{day}_edge_latency.parquet"
    edges: tuple[TimedSeries, ...] = ()
    if edge_path.exists():
        latency = read_table(edge_path, ("ts", "edge", "lat_p50_s", "side"), ("ts",))
        named = latency.with_columns(pl.format("{}/{}", "edge", "side").alias("name"))
        edges = _timed(named, "name", ("lat_p50_s",), edge_path)
    return FaultDay(day, metrics, pods, edges, _faults(folder / f"{day}_faults.csv", pods))


def _timed(table: pl.DataFrame, by: str, metrics: tuple[str, ...], path: Path) -> tuple[TimedSeries, ...]:
    once = table.unique((by, "ts"), keep="first", maintain_order=True).sort(by, "ts")
    return tuple(
        TimedSeries(
            str(name), rows["ts"].cast(pl.Float64).to_numpy(), as_array(rows, metrics, path, gaps=True)
        )
        for (name,), rows in once.group_by(by, maintain_order=True)
    )


def _faults(path: Path, pods: tuple[TimedSeries, ...]) -> tuple[PodFault, ...]:
    table = read_table(path, ("inject_ts", "pod", "fault", "subsystem"), ("inject_ts",))
    spans = {series.name: series.times_s for series in pods}
    faults = []
    for row in table.sort("inject_ts").iter_rows(named=True):
        fault = f"{path}: the fault at {row['inject_ts']}"
        if row["subsystem"] not in SUBSYSTEMS:
            raise UsageError(f"{fault}: subsystem {row['subsystem']} is none of {', '.join(SUBSYSTEMS)}")
        if row["pod"] not in spans:
            raise UsageError(f"{fault}: no pod {row['pod']} in {path.name.replace('_faults.csv', '')}")
        times = spans[row["pod"]]
        if not times[0] <= row["inject_ts"] <= times[-1]:
            raise UsageError(f"{fault}: outside the recorded times of its pod")
        faults.append(
            PodFault(float(row["inject_ts"]), row["pod"], row["fault"], SUBSYSTEMS[row["subsystem"]])
        )
    return tuple(faults)
