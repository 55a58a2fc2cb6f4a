"""``reveal import csv`` and ``reveal import parquet``: tables of anybody, with a mapping file or without."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reveal_core.errors import UsageError
from reveal_core.importing.cells import Content, contents, delimiter_of, united_numbers
from reveal_core.importing.delimited import Delimited
from reveal_core.importing.findings import Findings
from reveal_core.importing.mapping import TableMapping, stored_as, table_mapping
from reveal_core.importing.parquet_table import read_parquet_table
from reveal_core.importing.streams import blocks, files_in, identity_of, opened
from reveal_core.importing.table_columns import check_columns, find_time, form_of_times, times_of
from reveal_core.importing.tables import Part, TableReader
from reveal_core.importing.types import Chunk, ImportOptions, Layout

SAMPLE_ROWS = 200
"""Rows that tell what the columns of a text hold."""
TEXT_FILES = ("*.csv", "*.tsv", "*.csv.gz", "*.tsv.gz", "*.csv.xz", "*.tsv.xz")


@dataclass(frozen=True)
class Style:
    """How a kind of table is read.

    Attributes
    ----------
    kind
        Its name.
    mapping
        Makes the mapping from the columns' names and what a person said.
    words, no_values
        Words that are numbers, and what stands for no value, in small letters.
    instance_of
        Makes an instance's name of what its column says.
    """

    kind: str
    mapping: Callable[[Sequence[str], TableMapping], TableMapping] = lambda names, said: said
    words: Mapping[str, float] = field(default_factory=dict)
    no_values: Collection[str] = ()
    instance_of: Callable[[str], str] = str


def read_csv(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a file of delimited text, or those of a folder; see `types.Reader`."""
    return read_files(
        source, TEXT_FILES, findings, lambda path: read_text_table(path, Style("csv"), options, findings)
    )


def read_parquet(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a Parquet file, or those of a folder; see `types.Reader`."""
    return read_files(
        source, ("*.parquet", "*.pq"), findings, lambda path: read_parquet_table(path, options, findings)
    )


def read_files(
    source: Path,
    patterns: tuple[str, ...],
    findings: Findings,
    read: Callable[[Path], Iterator[Chunk | Layout]],
) -> Iterator[Chunk | Layout]:
    """Read a file, or those of a folder that fit a pattern; there, one that cannot be read is left out."""
    for path in files_in(source, patterns):
        findings.where = str(path.relative_to(source)) if source.is_dir() else path.name
        try:
            yield from read(path)
        except UsageError as error:
            if not source.is_dir():
                raise
            findings.skip(str(error))


@dataclass(frozen=True)
class Header:
    """The columns of a text table: names, each once; what parts cells; and places that are left out."""

    names: list[str]
    delimiter: str
    ignored: set[int]


def header_of(line: str, findings: Findings) -> Header:
    """Return what a header says; a name that stands twice is told, and its first column kept.

    Raises
    ------
    UsageError
        If it is none.
    """
    delimiter = delimiter_of(line)
    try:
        cells = next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error as error:
        raise UsageError(f"{findings.where} has a header that cannot be read: {error}") from error
    names: list[str] = []
    ignored: set[int] = set()
    for place, cell in enumerate(cells):
        name = cell.strip().removeprefix("#").strip() if place == 0 else cell.strip()
        name = name or f"column {place + 1}"
        if name in names:
            findings.skip("columns that the header names twice; the first is kept", item=f"column {name}")
            ignored.add(place)
            name = f"{name} ({place + 1})"
        names.append(name)
    if not names:
        raise UsageError(f"{findings.where} is empty")
    if all(_is_value(name) for name in names):
        raise UsageError(f"{findings.where} has no header: its first line is {line[:60]!r}")
    return Header(names, delimiter, ignored)


def _is_value(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_text_table(
    path: Path, style: Style, options: ImportOptions, findings: Findings
) -> Iterator[Chunk | Layout]:
    """Read one file of delimited text."""
    with opened(path) as file:
        header = header_of(file.readline(1 << 24).decode("utf-8", "replace").rstrip("\r\n"), findings)
        mapping = style.mapping(header.names, table_mapping(options.mapping))
        check_columns(header.names, mapping)
        time = find_time(header.names, mapping)
        table: Delimited | None = None
        for block in blocks(file):
            if table is None:
                table, kinds, form = _text_columns(header, block, mapping, time, style, findings)
                times = times_of(mapping, options, findings, form)
                reader = TableReader(
                    style.kind,
                    identity_of(path),
                    mapping,
                    options,
                    findings,
                    file=path.name,
                    instance_of=style.instance_of,
                )
            rows = table.parse(block)
            lines = rows.line_of()
            texts = {header.names[place]: values for place, values in rows.texts.items()}
            ts = times.ns(texts.pop(time), lines)
            numbers = {header.names[place]: values for place, values in rows.numbers.items()}
            for name, kind in kinds.items():
                if kind == "united":
                    numbers[name] = united_numbers(
                        name, texts.pop(name), lines, style.words, style.no_values, findings
                    )
            yield from reader.chunks(Part(ts, texts, numbers))
        if table is None:
            findings.skip("a table without rows")
        else:
            yield from reader.layouts()


def _text_columns(
    header: Header, block: bytes, mapping: TableMapping, time: str, style: Style, findings: Findings
) -> tuple[Delimited, dict[str, Content], str]:
    """Return the parser, what the wanted columns hold, and what the times look like."""
    names = header.names
    probe = Delimited(names, header.delimiter, findings)
    sample: list[list[str]] = []
    for line in block.decode("utf-8", "replace").split("\n"):
        cells = probe.split(line.removesuffix("\r"))
        if cells is not None and len(cells) == len(names):
            sample.append(cells)
        if len(sample) >= SAMPLE_ROWS:
            break
    found = contents(sample, len(names), style.words, style.no_values)
    roles = {time, mapping.host.column, mapping.instance_column}
    if mapping.long is not None:
        roles.add(mapping.long.metric)
    kinds: dict[str, Content] = {}
    texts, wholes, ignored = set(), set(), set(header.ignored)
    for place, (name, content) in enumerate(zip(names, found, strict=True)):
        if place in ignored:
            continue
        if name in roles:
            texts.add(place)
            continue
        if name in mapping.ignore or (mapping.long is not None and name != mapping.long.value):
            ignored.add(place)
            continue
        if content == "text":
            first = next((row[place] for row in sample if row[place].strip()), "")
            findings.skip("columns of text, which holds no samples", item=f"column {name}", detail=first)
            ignored.add(place)
            continue
        # Where words stand for numbers, any cell of a column of numbers may be one.
        kinds[name] = "united" if style.no_values else content
        if kinds[name] == "united":
            texts.add(place)
        elif (
            mapping.long is None
            and _is_counter(style.kind, name, mapping)
            and not any("." in row[place] for row in sample)
        ):
            wholes.add(place)
    at = names.index(time)
    table = Delimited(names, header.delimiter, findings, texts=texts, wholes=wholes, ignored=ignored)
    return table, kinds, form_of_times([row[at] for row in sample[:20]])


def _is_counter(kind: str, name: str, mapping: TableMapping) -> bool:
    bare = name.partition("/")[0] if name not in mapping.columns else name
    return stored_as(kind, bare, mapping.columns.get(name))[1] == "counter"
