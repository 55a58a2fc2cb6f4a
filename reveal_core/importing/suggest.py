"""``--suggest``: a mapping file for a table, from the names of its columns and its first rows."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from reveal_core.catalog import load_catalog
from reveal_core.errors import UsageError
from reveal_core.importing.cells import contents, name_and_unit
from reveal_core.importing.delimited import Delimited, number
from reveal_core.importing.findings import Findings
from reveal_core.importing.mapping import TableMapping
from reveal_core.importing.names import PREFIX, guess_subsystem, known_metric, plain_name
from reveal_core.importing.nvidia_names import nvidia_target
from reveal_core.importing.streams import blocks, opened
from reveal_core.importing.table_columns import HOST_NAMES, TIME_NAMES, find_time, form_of_times
from reveal_core.importing.tabular import SAMPLE_ROWS, header_of

_METRIC_NAMES = ("metric", "name", "channel", "counter", "__name__", "sensor")
_VALUE_NAMES = ("value", "val", "reading", "sample")
_INSTANCE_NAMES = ("instance", "device", "cpu", "core", "gpu", "disk", "iface", "interface", "uuid", "index")
_MANY = 400
"""Columns that are written out one by one."""


@dataclass(frozen=True)
class Sample:
    """The first rows of a table: by column its cells as text, and whether they are numbers."""

    cells: dict[str, list[str]]
    numeric: dict[str, bool]


def suggest(source: Path, kind: str) -> str:
    """Return a mapping file for a table, as TOML with a comment for what was guessed.

    Parameters
    ----------
    source
        A file, or a folder of which the first file is looked at.
    kind
        ``csv`` or ``parquet``.

    Raises
    ------
    UsageError
        If there is no table, or it has no column of times.
    """
    path = source
    if source.is_dir():
        suffixes = (".parquet", ".pq") if kind == "parquet" else (".csv", ".tsv", ".gz", ".xz")
        found = sorted(p for p in source.rglob("*") if p.is_file() and p.suffix in suffixes)
        if not found:
            raise UsageError(f"{source} holds no file of kind {kind}")
        path = found[0]
    if not path.exists():
        raise UsageError(f"{source} is not there")
    sample = _parquet_sample(path) if kind == "parquet" else _text_sample(path)
    return _render(sample, path.name)


def _text_sample(path: Path) -> Sample:
    findings = Findings()
    findings.where = path.name
    with opened(path) as file:
        header = header_of(file.readline(1 << 24).decode("utf-8", "replace").rstrip("\r\n"), findings)
        block = next(blocks(file, 1 << 20), b"")
    table = Delimited(header.names, header.delimiter, findings)
    rows = [
        cells
        for line in block.decode("utf-8", "replace").split("\n")[:SAMPLE_ROWS]
        if (cells := table.split(line.removesuffix("\r"))) is not None and len(cells) == len(header.names)
    ]
    kinds = contents(rows, len(header.names))
    return Sample(
        {name: [row[place].strip() for row in rows] for place, name in enumerate(header.names)},
        {name: kind != "text" for name, kind in zip(header.names, kinds, strict=True)},
    )


def _parquet_sample(path: Path) -> Sample:
    try:
        file = pq.ParquetFile(path)
        batch = next(file.iter_batches(batch_size=SAMPLE_ROWS), None)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} is no Parquet file that can be read: {' '.join(str(error).split())}"
        ) from error
    cells: dict[str, list[str]] = {}
    numeric: dict[str, bool] = {}
    for place, field in enumerate(schema):
        values = batch.column(place).to_pylist() if batch is not None else []
        cells[field.name] = ["" if value is None else str(value) for value in values]
        numeric[field.name] = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    return Sample(cells, numeric)


def _render(sample: Sample, name: str) -> str:
    names = list(sample.cells)
    time = find_time(names, TableMapping())
    form = form_of_times(sample.cells[time][:20])
    text = [
        f"# A mapping for {name}, guessed from names and first rows: check it, above all forms and units.",
        "",
        "[time]",
        f"column = {_quoted(time)}",
        f"format = {_quoted(form)}",
    ]
    if form == "iso" and not any(
        re.search(r"(Z|[+-]\d\d:?\d\d)$", cell) for cell in sample.cells[time] if cell
    ):
        text += ['# zone = "Europe/London"   # of times without one, or give --timezone']
    host = _first(names, HOST_NAMES)
    text += ["", "[host]", f"column = {_quoted(host)}" if host else '# name = "node-17"   # or give --host']
    metric, value = _first(names, _METRIC_NAMES), _first(names, _VALUE_NAMES)
    long = metric is not None and value is not None and not sample.numeric[metric]
    device = _first([n for n in names if n not in (host, metric)], _INSTANCE_NAMES)
    top = []
    if device is not None and (long or _repeats(sample, time, device)):
        top = [f"instance_column = {_quoted(device)}", ""]
    else:
        device = None
    if long:
        text += ["", "[long]", f"metric = {_quoted(metric or '')}", f"value = {_quoted(value or '')}"]
        listed = list(dict.fromkeys(cell for cell in sample.cells[metric or ""] if cell))
        columns = {
            one: [
                c
                for m, c in zip(sample.cells[metric or ""], sample.cells[value or ""], strict=True)
                if m == one
            ]
            for one in listed
        }
    else:
        roles = {time, host, device}
        columns = {one: sample.cells[one] for one in names if one not in roles and sample.numeric[one]}
        ignored = [one for one in names if one not in roles and not sample.numeric[one]]
        if ignored:
            top = [f"ignore = {json.dumps(ignored, ensure_ascii=False)}   # text", *top]
    for one, cells in list(columns.items())[:_MANY]:
        text += ["", *_column(one, cells)]
    if len(columns) > _MANY:
        text += ["", f"# {len(columns) - _MANY} more columns are kept under names of their own."]
    return "\n".join([text[0], "", *top, *text[2:], ""])


def _column(name: str, cells: Sequence[str]) -> list[str]:
    lines = [f"[columns.{_quoted(name)}]"]
    bare, unit = name_and_unit(name)
    gpu = nvidia_target(bare, unit)
    metric = gpu.metric if gpu is not None else _catalogued(bare)
    rising = _rising(cells)
    if metric is not None:
        known = load_catalog().get(metric)
        counter = known is not None and known.kind == "counter"
        form = gpu.form if gpu is not None else ("counter" if counter and rising else "level")
        shown = (
            known.unit if known is not None and form == "counter" else known.physical_unit if known else ""
        )
        lines += [f"metric = {_quoted(metric)}", f'form = "{form}"   # in {shown or "no unit"}']
        if gpu is not None and gpu.scale != 1.0:
            lines.append(f"scale = {gpu.scale!r}")
        elif bare.lower().endswith(("_kb", "_kib")):
            lines.append("scale = 1024.0")
        return lines
    lines += [
        f"metric = {_quoted(f'{PREFIX}.{plain_name(bare)}')}",
        f'form = "{"counter" if rising else "level"}"',
        f"unit = {_quoted(unit)}",
        f'subsystem = "{guess_subsystem(name)}"',
    ]
    return lines


def _rising(cells: Sequence[str]) -> bool:
    """Return whether these look like a cumulative count: whole numbers that never fall, and rise."""
    try:
        values = [value for value in map(number, cells) if value == value]
    except ValueError:
        return False
    steps = [after - before for before, after in pairwise(values)]
    return bool(steps) and min(steps) >= 0 and max(steps) > 0 and all(v == int(v) and v >= 0 for v in values)


@cache
def _by_plain_name() -> dict[str, str]:
    """Return metrics by the part of their name after the family, those that only one metric has."""
    found: dict[str, list[str]] = {}
    for metric in load_catalog():
        for key in (metric, metric.partition(".")[2]):
            found.setdefault(_letters(key), []).append(metric)
    return {key: metrics[0] for key, metrics in found.items() if len(metrics) == 1}


def _catalogued(name: str) -> str | None:
    if known_metric(name):
        return name
    plain = re.sub(r"^node_", "", name)
    for candidate in (plain, re.sub(r"_(total|bytes|kb|kib|pct|percent)$", "", plain, flags=re.IGNORECASE)):
        metric = _by_plain_name().get(_letters(candidate))
        if metric is not None:
            return metric
    return None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _repeats(sample: Sample, time: str, device: str) -> bool:
    """Return whether a time comes again with another device: one row for each."""
    pairs = list(zip(sample.cells[time], sample.cells[device], strict=True))
    return len({moment for moment, _ in pairs}) < len(set(pairs)) and len({one for _, one in pairs}) > 1


def _first(names: Sequence[str], wanted: Sequence[str]) -> str | None:
    lowered = {name.strip().lower(): name for name in reversed(names)}
    return next((lowered[one] for one in wanted if one in lowered and one not in TIME_NAMES), None)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
