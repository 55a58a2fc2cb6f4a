"""A day of an MPI job on 32 nodes of one cluster, with hardware counters, every minute.

The data are not labelled. That nodes 7 and 8 of job_a are slow was seen in them: all day they lie 9 to 12 %
below the median in memory bandwidth and flops, all others within 4 %.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from reveal_core.errors import UsageError
from reveal_core.evaluate.datasets.tables import as_array, matching_files, read_table
from reveal_core.evaluate.labelled import PeerJob

PERIOD_S = 60.0
WORK = ("ipc", "mem_bw", "flops_any")
"""Work done: instructions per cycle, bytes and operations per second.

Clock and load are what a node is given, power and memory what it needs; the flops of one precision are a part
of all flops and would count twice.
"""
SLOW_NODES = {"job_a": frozenset({"7", "8"})}


def read(folder: Path) -> list[PeerJob]:
    """Read ``job_*.parquet`` of a folder: one row per minute and node, NaN where a sample is missing.

    Rows that are not there become NaN, as samples that are missing.

    Raises
    ------
    UsageError
        A file is missing or not as it should be.
    """
    return [_job(path) for path in matching_files(folder, "job_*.parquet")]


def _job(path: Path) -> PeerJob:
    table = read_table(path, ("minute", "node"), ("minute", "node"))
    metrics = tuple(name for name in table.columns if name not in ("minute", "node"))
    if not metrics:
        raise UsageError(f"{path}: no column of a metric")
    work = tuple(name for name in WORK if name in metrics)
    if not work:
        raise UsageError(f"{path}: no column of work done: {', '.join(WORK)}")
    if table.select(pl.struct("minute", "node").is_duplicated().any()).item():
        raise UsageError(f"{path}: two rows of the same minute and node")
    nodes, place = np.unique(table["node"].to_numpy(), return_inverse=True)
    minutes = table["minute"].to_numpy().astype(np.int64)
    minutes -= minutes.min()
    values = np.full((int(minutes.max()) + 1, len(nodes), len(metrics)), np.nan)
    values[minutes, place] = as_array(table, metrics, path, gaps=True)
    return PeerJob(
        job=path.stem,
        nodes=tuple(str(node) for node in nodes),
        metrics=metrics,
        period_s=PERIOD_S,
        values=values,
        slow=SLOW_NODES.get(path.stem, frozenset()),
        work=work,
    )
