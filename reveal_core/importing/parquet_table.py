"""One Parquet file as chunks, in batches of a bounded number of values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from reveal_core.collect.columns import MISSING
from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.mapping import TableMapping, table_mapping
from reveal_core.importing.table_columns import check_columns, find_time, form_of_times, times_of
from reveal_core.importing.tables import Part, TableReader
from reveal_core.importing.times import ISO, UNITS_NS, LocalClock, Times
from reveal_core.importing.types import NO_TIME, Chunk, Floats, ImportOptions, Ints, Layout

if TYPE_CHECKING:
    Array = pa.Array[Any]

BATCH_VALUES = 2_000_000
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)


def read_parquet_table(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read one Parquet file, in batches of a bounded number of values."""
    try:
        file = pq.ParquetFile(path)
        schema = file.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise UsageError(
            f"{path} is no Parquet file that can be read: {' '.join(str(error).split())}"
        ) from error
    mapping = table_mapping(options.mapping)
    names = list(dict.fromkeys(schema.names))
    check_columns(names, mapping)
    time = find_time(names, mapping)
    roles = [one for one in (mapping.host.column, mapping.instance_column) if one is not None]
    if mapping.long is not None:
        roles.append(mapping.long.metric)
    values = _number_columns(schema, [time, *roles], mapping, findings)
    reader = TableReader("parquet", _parquet_identity(file, path), mapping, options, findings, file=path.name)
    clock = _ParquetTimes(mapping, options, findings)
    batch = max(1, BATCH_VALUES // max(1, len(values)))
    try:
        for piece in file.iter_batches(batch_size=batch, columns=[time, *roles, *values], use_threads=False):
            texts = {name: _strings(piece.column(name)) for name in roles}
            numbers = {name: _numbers(piece.column(name)) for name in values}
            yield from reader.chunks(Part(clock.ns(piece.column(time)), texts, numbers))
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{path} is damaged: {' '.join(str(error).split())}") from error
    yield from reader.layouts()


def _parquet_identity(file: pq.ParquetFile, path: Path) -> str:
    """Return what tells a table from others: its name and its columns; its first rows are not at its head."""
    return f"{path.name} {','.join(file.schema_arrow.names)}"


def _number_columns(
    schema: pa.Schema, roles: Sequence[str], mapping: TableMapping, findings: Findings
) -> list[str]:
    found = []
    for name in dict.fromkeys(schema.names):
        if name in roles or name in mapping.ignore:
            continue
        if mapping.long is not None and name != mapping.long.value:
            continue
        if schema.names.count(name) > 1:
            findings.skip("columns whose name stands twice", item=f"column {name}")
            continue
        type_ = schema.field(name).type
        if any(check(type_) for check in _NUMERIC):
            found.append(name)
        else:
            findings.skip("columns that hold no numbers", item=f"column {name}", detail=str(type_))
    return found


def _strings(column: Array) -> list[str]:
    return [text or "" for text in column.cast(pa.string()).to_pylist()]


def _numbers(column: Array) -> Floats | Ints:
    if pa.types.is_integer(column.type) and column.type != pa.uint64():
        whole: Ints = column.cast(pa.int64()).fill_null(MISSING).to_numpy(zero_copy_only=False)
        return whole
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    plain: Floats = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return plain


class _ParquetTimes:
    """Times of a Parquet column, whatever its type."""

    def __init__(self, mapping: TableMapping, options: ImportOptions, findings: Findings) -> None:
        self.mapping, self.options, self.findings = mapping, options, findings
        self.texts: Times | None = None
        self.clock: LocalClock | None = None

    def ns(self, column: Array) -> Ints:
        type_ = column.type
        if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
            aware = pa.types.is_timestamp(type_) and type_.tz is not None
            raw = column.cast(pa.timestamp("ns", tz="UTC" if aware else None), safe=False)
            found: Ints = raw.cast(pa.int64()).fill_null(NO_TIME).to_numpy(zero_copy_only=False)
            if column.null_count:
                self.findings.skip("rows without a time", count=column.null_count)
            return found if aware else self._local(found)
        if pa.types.is_integer(type_) or pa.types.is_floating(type_):
            return self._numeric(column)
        texts = _strings(column)
        if self.texts is None:
            self.texts = times_of(self.mapping, self.options, self.findings, form_of_times(texts[:20]))
        return self.texts.ns(texts)

    def _local(self, local: Ints) -> Ints:
        if self.clock is None:
            zone = times_of(self.mapping, self.options, self.findings, ISO).zone
            if zone is None:
                raise UsageError(
                    f"{self.findings.where}: its times have no zone: say which with --timezone "
                    "(for example --timezone Europe/London, or UTC)"
                )
            self.clock = LocalClock(zone, self.findings)
        return self.clock.to_utc(local)

    def _numeric(self, column: Array) -> Ints:
        sample = [str(value) for value in column.slice(0, 20).to_pylist() if value is not None]
        if self.texts is None:
            self.texts = times_of(self.mapping, self.options, self.findings, form_of_times(sample))
        unit = UNITS_NS.get(self.texts.form)
        if unit is None:
            raise UsageError(f"{self.findings.where}: its times are numbers, not text in {self.texts.form}")
        if pa.types.is_integer(column.type) and column.null_count == 0 and len(column):
            numbers: Ints = column.cast(pa.int64()).to_numpy(zero_copy_only=False)
            if max(abs(int(numbers.min())), abs(int(numbers.max()))) * unit < 2**62:
                return self.texts.within(numbers * unit + self.texts.origin_ns)
        return self.texts.ns(["" if value is None else str(value) for value in column.to_pylist()])
