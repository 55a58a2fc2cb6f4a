"""Scores at rest: one Parquet file for each model, host and hour."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import polars as pl

from reveal_core.errors import UsageError
from reveal_core.scores import Scores
from storage.backend import Backend
from storage.decode import to_ns
from storage.layout import (
    SCORES,
    date_part,
    floor_hour,
    hour_parts,
    parse_date_part,
    parse_host_part,
    parse_hour_part,
    parse_scores_model,
    scores_folder,
    scores_key,
    to_utc,
)
from storage.quarantine import put_aside

_SCORE = "score/"
_TIME = pl.Datetime("ns", "UTC")


def _decode(data: bytes, columns: Sequence[str] | None = None) -> pl.DataFrame:
    """Return a score file's table, or some columns of it.

    Raises
    ------
    ValueError
        If it is no Parquet file or has no window start.
    """
    try:
        frame = pl.read_parquet(io.BytesIO(data), columns=list(columns) if columns else None)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(" ".join(str(error).split())) from error
    for column in ("start", "end") if columns is None else ("start",):
        if frame.schema.get(column) != _TIME:
            raise ValueError(f"column {column} is {frame.schema.get(column)}, not a time in UTC")
    return frame


def _read(backend: Backend, key: str, columns: Sequence[str] | None = None) -> pl.DataFrame | None:
    data = backend.read(key)
    if data is None:
        return None
    try:
        return _decode(data, columns)
    except ValueError as error:
        put_aside(backend, key, data, str(error))
        return None


def put_scores(backend: Backend, model: str, scores: Scores) -> list[str]:
    """Store the scores of one host's windows; see `storage.store.Store.put_scores`."""
    frame = scores.frame
    for column in ("start", "end"):
        if frame.schema.get(column) != _TIME:
            raise ValueError(f"scores: column {column} is {frame.schema.get(column)}, not {_TIME}")
    keys = []
    for (hour,), rows in frame.group_by(pl.col("start").dt.truncate("1h"), maintain_order=True):
        if not isinstance(hour, datetime):
            raise ValueError("scores: a window has no start")
        key = scores_key(model, scores.host, hour)
        rows = rows.unique("start", keep="last")
        old = _read(backend, key)
        if old is not None:
            rows = pl.concat([old.join(rows, on="start", how="anti"), rows], how="diagonal_relaxed")
        buffer = io.BytesIO()
        rows.sort("start").write_parquet(buffer, compression="zstd")
        backend.write(key, buffer.getvalue())
        keys.append(key)
    return sorted(keys)


def _hours(backend: Backend, model: str, start: datetime, end: datetime) -> list[datetime]:
    """Return the hours of [start, end) of which a model's scores are stored."""
    low, high = floor_hour(start), to_utc(end)
    folder = scores_folder(model)
    days = [d for d in map(parse_date_part, backend.names(folder)) if d and low.date() <= d <= high.date()]
    listed = backend.each(lambda day: backend.names(f"{folder}/{date_part(day)}"), days)
    every = [
        low.replace(year=day.year, month=day.month, day=day.day, hour=hour)
        for day, names in zip(days, listed, strict=True)
        for hour in map(parse_hour_part, names)
        if hour is not None
    ]
    return [hour for hour in every if low <= hour < high]


def _read_range(
    backend: Backend,
    model: str,
    host: str,
    start: datetime,
    end: datetime,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame | None:
    """Return what is stored of windows that begin in [start, end), in no order; None if there are none."""
    keys = [scores_key(model, host, hour) for hour in _hours(backend, model, start, end)]
    frames = [f for f in backend.each(partial(_read, backend, columns=columns), keys) if f is not None]
    if not frames:
        return None
    time = pl.col("start").to_physical()
    frame = pl.concat(frames, how="diagonal_relaxed").filter((time >= to_ns(start)) & (time < to_ns(end)))
    return frame if frame.height else None


def read_past(backend: Backend, name: str, host: str, start: datetime, end: datetime) -> pl.DataFrame:
    """Return what every version of a registered model said of a host; see `storage.store.Store.read_past`."""
    columns = ["start", "coverage", "fused", "threshold"]
    versions = sorted(
        parsed[1]
        for parsed in map(parse_scores_model, backend.names(SCORES))
        if parsed is not None and parsed[0] == name
    )
    found = [
        frame.with_columns(pl.lit(version).alias("version"))
        for version in versions
        if (frame := _read_range(backend, f"{name}@{version}", host, start, end, columns)) is not None
    ]
    if not found:
        schema = dict(zip([*columns, "version"], [_TIME, *[pl.Float64()] * 3, pl.Int32()], strict=True))
        return pl.DataFrame(schema=schema)
    return (
        pl.concat(found, how="vertical_relaxed")
        .unique("start", keep="last", maintain_order=True)
        .sort("start")
    )


def read_scores(backend: Backend, model: str, host: str, start: datetime, end: datetime) -> Scores | None:
    """Return the scores of windows that begin in [start, end); see `storage.store.Store.read_scores`."""
    if to_utc(start) >= to_utc(end):
        raise UsageError(f"the time range from {start.isoformat()} to {end.isoformat()} is empty")
    frame = _read_range(backend, model, host, start, end)
    if frame is None:
        return None
    detectors = tuple(name.removeprefix(_SCORE) for name in frame.columns if name.startswith(_SCORE))
    return Scores(host, frame.sort("start"), detectors)


def read_judged(
    backend: Backend, hosts: Sequence[str], start: datetime, end: datetime
) -> dict[str, pl.DataFrame]:
    """Return what models said of the windows of hosts; see `storage.store.Store.read_judged`."""
    wanted = set(hosts)
    files: list[tuple[str, str, str]] = []
    for name, version in sorted(m for m in map(parse_scores_model, backend.names(SCORES)) if m is not None):
        model = f"{name}@{version}"
        for hour in _hours(backend, model, start, end):
            folder = f"{scores_folder(model)}/{hour_parts(hour)}"
            for file in backend.names(folder):
                host = parse_host_part(file.removesuffix(".parquet"))
                if host is not None and host in wanted:
                    files.append((host, name, f"{folder}/{file}"))
    columns = ("start", "end", "coverage", "fused", "threshold")
    read = backend.each(partial(_read, backend, columns=columns), [key for *_, key in files])
    time = pl.col("start").to_physical()
    found: dict[str, dict[str, list[pl.DataFrame]]] = {}
    for (host, name, _), frame in zip(files, read, strict=True):
        rows = None if frame is None else frame.filter((time >= to_ns(start)) & (time < to_ns(end)))
        if rows is not None and rows.height:
            found.setdefault(host, {}).setdefault(name, []).append(rows)
    return {host: _judged_last(by_name) for host, by_name in found.items()}


def _judged_last(by_name: dict[str, list[pl.DataFrame]]) -> pl.DataFrame:
    """Return the windows of the model that judged the newest; where several versions did, the last speaks."""
    newest = {name: max(_last_start(frame) for frame in frames) for name, frames in by_name.items()}
    name = max(newest, key=lambda name: (newest[name], name))
    frame = pl.concat(by_name[name], how="vertical_relaxed")
    return frame.unique("start", keep="last", maintain_order=True).sort("start")


def _last_start(frame: pl.DataFrame) -> int:
    return int(frame["start"].to_physical().max())  # type: ignore[arg-type]
