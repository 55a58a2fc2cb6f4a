"""Tables of the data sets: read, checked, and refused in one line that names the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from reveal_core.errors import UsageError
from reveal_core.evaluate.labelled import Array, LabelledSeries, Mask, Segment


def read_table(path: Path, columns: Sequence[str], numbers: Iterable[str] = ()) -> pl.DataFrame:
    """Read a parquet or CSV file.

    Parameters
    ----------
    path
        Parquet, or CSV where the name ends so.
    columns
        Columns that it must have; it may have more.
    numbers
        Those of them that must be numbers.

    Raises
    ------
    UsageError
        The file is missing or unreadable, has no rows, lacks a column, or has null or text for a number.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file")
    try:
        table = pl.read_csv(path) if path.suffix == ".csv" else pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UsageError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise UsageError(f"{path}: no column {', '.join(missing)}")
    if table.is_empty():
        raise UsageError(f"{path}: no rows")
    for name in numbers:
        if not table[name].dtype.is_numeric() or table[name].null_count():
            raise UsageError(f"{path}: column {name} is not all numbers")
    return table


def _by_numbers(path: Path) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", path.stem)], path.name


def matching_files(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder that match, numbers in their names in order of size; at least one."""
    found = sorted(folder.glob(pattern), key=_by_numbers)
    if not found:
        raise UsageError(f"{folder}: no file {pattern}")
    return found


def as_array(table: pl.DataFrame, metrics: Sequence[str], path: Path, *, gaps: bool = False) -> Array:
    """Return columns of a table as an array of shape (rows, metrics).

    Parameters
    ----------
    table, metrics
        Table, and the columns to take.
    path
        Its file, for the error.
    gaps
        Whether values may be missing; null becomes NaN. Infinite values are never accepted.
    """
    for name in metrics:
        if not table[name].dtype.is_numeric():
            raise UsageError(f"{path}: column {name} is not all numbers")
    values = table.select(pl.col(metrics).cast(pl.Float64)).to_numpy()
    bad = np.isinf(values) if gaps else ~np.isfinite(values)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise UsageError(
            f"{path}: column {metrics[column]}, row {row}: {values[row, column]} is not a number"
        )
    return np.ascontiguousarray(values)


def as_flags(table: pl.DataFrame, column: str, path: Path) -> Mask:
    """Return a column of zeros and ones as booleans, shape (rows,)."""
    values = table[column]
    if not values.is_in([0, 1]).all():
        raise UsageError(f"{path}: column {column} has other values than 0 and 1")
    flags: Mask = values.to_numpy() == 1
    return flags


def read_split_series(
    folder: Path, prefix: str, period_s: float, subsystems: Mapping[str, str]
) -> list[LabelledSeries]:
    """Read a folder with one parquet file per entity and ``interpretation.csv``, as SMD and ASD are laid out.

    A file has ``split`` (0 train, then 1 test), ``label``, and one column per metric. Segments of entities
    that have no file are left out, for a copy may hold a part of the entities only.

    Parameters
    ----------
    folder
        Where the files are.
    prefix
        How the entities' file names begin.
    period_s
        Seconds between two rows.
    subsystems
        Subsystem by metric. Where it is not empty, every metric has to be in it.

    Raises
    ------
    UsageError
        A file is missing or not as said, in one line that names it.
    """
    interpretation = folder / "interpretation.csv"
    table = read_table(
        interpretation, ("entity", "start", "end_exclusive", "metrics"), ("start", "end_exclusive")
    )
    segments: dict[str, list[Segment]] = {}
    for row in table.sort("start", "end_exclusive", maintain_order=True).iter_rows(named=True):
        metrics = tuple(str(row["metrics"] or "").split(";")) if row["metrics"] else ()
        segment = Segment(int(row["start"]), int(row["end_exclusive"]), metrics)
        segments.setdefault(str(row["entity"]), []).append(segment)
    return [
        _split_entity(path, period_s, subsystems, segments.get(path.stem, []), interpretation)
        for path in matching_files(folder, f"{prefix}*.parquet")
    ]


def _split_entity(
    path: Path,
    period_s: float,
    subsystems: Mapping[str, str],
    segments: Sequence[Segment],
    interpretation: Path,
) -> LabelledSeries:
    table = read_table(path, ("split", "label"), ("split", "label"))
    metrics = tuple(name for name in table.columns if name not in ("split", "label"))
    if not metrics:
        raise UsageError(f"{path}: no column of a metric")
    unknown = [name for name in metrics if name not in subsystems] if subsystems else []
    if unknown:
        raise UsageError(f"{path}: no subsystem is given for {', '.join(unknown)}")
    in_test = as_flags(table, "split", path)
    cut = int((~in_test).sum())
    if in_test[:cut].any() or not 0 < cut < len(in_test):
        raise UsageError(f"{path}: column split is not train rows (0), then test rows (1)")
    values, labels = as_array(table, metrics, path), as_flags(table, "label", path)[cut:]
    for segment in segments:
        where = f"{interpretation}: {path.stem}, rows {segment.start} to {segment.end}"
        if not 0 <= segment.start < segment.end <= len(labels):
            raise UsageError(f"{where}: not within the {len(labels)} rows of the test split")
        strangers = [name for name in segment.metrics if name not in metrics]
        if strangers:
            raise UsageError(f"{where}: no metric {', '.join(strangers)}")
    return LabelledSeries(
        entity=path.stem,
        train=values[:cut],
        test=values[cut:],
        period_s=period_s,
        metrics=metrics,
        subsystems=tuple(subsystems.get(name) for name in metrics),
        labels=labels,
        segments=tuple(segments),
    )
