"""What the columns of a text table hold: numbers, numbers with a unit, words for numbers, or text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from reveal_core.importing.delimited import NULLS, number
from reveal_core.importing.findings import Findings
from reveal_core.importing.types import Floats

Content = Literal["number", "united", "text"]

DELIMITERS = (",", "\t", ";", "|")
_UNITED = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z%°/]+\S*)")
_HEADER_UNIT = re.compile(r"^(.*?)\s*[\[(]([^\])]*)[\])]$")


def delimiter_of(header: str) -> str:
    """Return what parts the cells of a header; a comma where nothing does."""
    return max(DELIMITERS, key=lambda mark: (header.count(mark), mark == ","))


def name_and_unit(header: str) -> tuple[str, str]:
    """Return a column's name without the unit that it ends with, and the unit.

    >>> name_and_unit("memory.used [MiB]")
    ('memory.used', 'MiB')
    """
    found = _HEADER_UNIT.match(header.strip())
    return (found[1], found[2]) if found is not None and found[1] else (header.strip(), "")


def cell_number(cell: str, words: Mapping[str, float], no_values: Collection[str]) -> float:
    """Return the number of a cell that may have a unit or be a word; NaN where it says that there is none.

    Raises
    ------
    ValueError
        If it is text.
    """
    bare = cell.strip()
    small = bare.lower()
    if small in words:
        return words[small]
    if small in no_values:
        return float("nan")
    united = _UNITED.fullmatch(bare)
    return float(united[1]) if united is not None else number(bare)


def contents(
    rows: Sequence[Sequence[str]],
    width: int,
    words: Mapping[str, float] | None = None,
    no_values: Collection[str] = (),
) -> list[Content]:
    """Return what each column holds, judged by the first rows: what most of its cells are.

    A column without any value counts as one of numbers: if text comes later, each cell of it is told.
    """
    found: list[Content] = []
    for place in range(width):
        cells = [row[place].strip() for row in rows]
        cells = [cell for cell in cells if cell not in NULLS and cell.lower() not in no_values]
        plain = sum(_is_number(cell) for cell in cells)
        united = sum(_has_number(cell, words or {}, no_values) for cell in cells)
        if plain * 2 >= len(cells) and plain == united:
            found.append("number")
        elif united * 2 >= len(cells):
            found.append("united")
        else:
            found.append("text")
    return found


def _is_number(cell: str) -> bool:
    try:
        number(cell)
    except ValueError:
        return False
    return True


def _has_number(cell: str, words: Mapping[str, float], no_values: Collection[str]) -> bool:
    try:
        cell_number(cell, words, no_values)
    except ValueError:
        return False
    return True


def united_numbers(
    column: str,
    cells: Sequence[str],
    lines: Sequence[int],
    words: Mapping[str, float],
    no_values: Collection[str],
    findings: Findings,
) -> Floats:
    """Return the numbers of cells with units or words; those that are text are told and missing."""
    values = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        try:
            values[row] = cell_number(cell, words, no_values)
        except ValueError:
            findings.skip(f"samples of column {column} that are no number", line=lines[row], detail=cell)
    return values
