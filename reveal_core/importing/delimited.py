"""Blocks of delimited text as arrays: fast where a block is well formed, exact about what is not."""

from __future__ import annotations

import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from reveal_core.collect.columns import MISSING
from reveal_core.importing.findings import Findings
from reveal_core.importing.types import Floats, Ints

NULLS = ("", "nan", "NaN", "NAN", "NA", "N/A", "n/a", "[N/A]", "null", "NULL", "None", "-")
"""Cells that say that there is no value."""
_NULLS = frozenset(NULLS)


@dataclass(frozen=True)
class Rows:
    """The good rows of a block.

    Attributes
    ----------
    count
        How many.
    lines
        Their lines in the file; None where all lines of the block are good rows in order.
    first_line
        Line of the block's first row.
    texts
        Cells of the columns that are read as text, by place.
    numbers
        Float64 with NaN for a missing cell, or int64 with `MISSING`, by place.
    """

    count: int
    lines: list[int] | None
    first_line: int
    texts: dict[int, list[str]]
    numbers: dict[int, Floats | Ints]

    def line_of(self) -> Sequence[int]:
        """Return the line of each row."""
        return self.lines if self.lines is not None else range(self.first_line, self.first_line + self.count)


class Delimited:
    """Parses blocks of one table.

    A block that is well formed is parsed by Arrow at once. One that is not is parsed cell by cell, so that
    each row and cell that is left out can be told with its line.

    Parameters
    ----------
    width
        Number of columns.
    delimiter
        One character.
    texts, wholes, ignored
        Places of the columns that are text, whole numbers, or not wanted; all others are numbers.
    names
        Of the columns, for messages.
    quoted
        Whether cells may stand in double quotes.
    """

    def __init__(
        self,
        names: Sequence[str],
        delimiter: str,
        findings: Findings,
        *,
        texts: Collection[int] = (),
        wholes: Collection[int] = (),
        ignored: Collection[int] = (),
        quoted: bool = True,
    ) -> None:
        self.names = list(names)
        self.delimiter = delimiter
        self.findings = findings
        self.texts = frozenset(texts)
        self.wholes = frozenset(wholes)
        self.wanted = [place for place in range(len(names)) if place not in ignored]
        self.quoted = quoted
        self.line = 2
        """Line of the next block; the first follows the header."""
        keys = [str(place) for place in range(len(names))]
        self._read: dict[str, Any] = {"use_threads": False, "column_names": keys}
        self._parse = arrow_csv.ParseOptions(delimiter=delimiter, quote_char='"' if quoted else False)
        self._convert = arrow_csv.ConvertOptions(
            column_types={keys[place]: self._type(place) for place in self.wanted},
            include_columns=[keys[place] for place in self.wanted],
            null_values=list(NULLS),
            strings_can_be_null=False,
        )

    def _type(self, place: int) -> pa.DataType:
        if place in self.texts:
            return pa.string()
        return pa.int64() if place in self.wholes else pa.float64()

    def parse(self, block: bytes) -> Rows:
        """Return the rows of the next block; what is wrong with others is told to the findings."""
        first = self.line
        self.line += block.count(b"\n") + (not block.endswith(b"\n"))
        if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):  # one alone ends Arrow's lines
            return self._exact(block, first)
        try:
            return self._fast(block, first)
        except pa.ArrowInvalid:
            return self._exact(block, first)

    def _fast(self, block: bytes, first: int) -> Rows:
        # One chunk for all: what does not fit would be parsed in pieces, and put together again.
        read = arrow_csv.ReadOptions(**self._read, block_size=len(block) + 1)
        source: Any = pa.BufferReader(block)  # read in place, where a Python file would copy
        table = arrow_csv.read_csv(
            source,
            read_options=read,
            parse_options=self._parse,
            convert_options=self._convert,
        )
        texts: dict[int, list[str]] = {}
        numbers: dict[int, Floats | Ints] = {}
        for place, column in zip(self.wanted, table.columns, strict=True):
            if place in self.texts:
                texts[place] = [str(cell) for cell in column.to_pylist()]
            elif place in self.wholes:
                numbers[place] = column.fill_null(pa.scalar(MISSING, pa.int64())).to_numpy()
            else:
                numbers[place] = column.to_numpy()
        expected = self.line - first
        if table.num_rows != expected:  # empty lines, or newlines within quotes: lines must be counted anew
            return self._exact(block, first)
        return Rows(table.num_rows, None, first, texts, numbers)

    def _exact(self, block: bytes, first: int) -> Rows:
        pieces = block.decode("utf-8", "replace").split("\n")
        ended = not pieces[-1]
        if ended:
            pieces.pop()
        lines: list[int] = []
        cells: list[list[str]] = []
        for line, text in enumerate(pieces, first):
            bare = text.removesuffix("\r")
            if not bare:
                continue
            row = self.split(bare)
            if row is None:
                self.findings.skip("rows with broken quotes", line=line)
            elif len(row) != len(self.names):
                cut = len(row) < len(self.names) and not ended and line == first + len(pieces) - 1
                reason = (
                    "the last row: the file ends within it"
                    if cut
                    else (f"rows that do not have the header's {len(self.names)} columns")
                )
                self.findings.skip(reason, line=line, detail=f"{len(row)} columns")
            else:
                lines.append(line)
                cells.append(row)
        texts: dict[int, list[str]] = {}
        numbers: dict[int, Floats | Ints] = {}
        for place in self.wanted:
            column = [row[place] for row in cells]
            if place in self.texts:
                texts[place] = column
            elif place in self.wholes:
                numbers[place] = self._whole(place, column, lines)
            else:
                numbers[place] = self._float(place, column, lines)
        return Rows(len(cells), lines, first, texts, numbers)

    def split(self, line: str) -> list[str] | None:
        """Return the cells of a line; None where its quotes are broken."""
        if not self.quoted or '"' not in line:
            return line.split(self.delimiter)
        try:
            return next(csv.reader([line], delimiter=self.delimiter, strict=True))
        except (csv.Error, StopIteration):
            return None

    def _float(self, place: int, column: list[str], lines: list[int]) -> Floats:
        values = np.full(len(column), np.nan)
        for row, cell in enumerate(column):
            try:
                values[row] = number(cell)
            except ValueError:
                self._no_number(place, cell, lines[row])
        return values

    def _whole(self, place: int, column: list[str], lines: list[int]) -> Ints:
        values = np.full(len(column), MISSING, dtype=np.int64)
        for row, cell in enumerate(column):
            bare = cell.strip()
            try:
                if bare not in _NULLS:
                    values[row] = int(bare) if bare.lstrip("+-").isdigit() else whole_number(number(bare))
            except (ValueError, OverflowError):
                self._no_number(place, cell, lines[row])
        return values

    def _no_number(self, place: int, cell: str, line: int) -> None:
        self.findings.skip(
            f"samples of column {self.names[place]} that are no number", line=line, detail=cell
        )


def number(cell: str) -> float:
    """Return a cell's number, NaN for one that says that there is no value.

    Raises
    ------
    ValueError
        If it is something else.
    """
    bare = cell.strip()
    if bare in _NULLS:
        return float("nan")
    if "_" in bare:  # Python's own way of writing numbers, which no log has
        raise ValueError(f"{bare!r} is no number")
    return float(bare)


def whole_number(value: float) -> int:
    """Return a count that a log wrote as a fraction (``1234.0``); `MISSING` for none.

    Raises
    ------
    ValueError, OverflowError
        If it is no whole number.
    """
    if value != value:
        return MISSING
    if value != int(value):
        raise ValueError(f"{value} is no whole number")
    return int(value)
