"""Blocks of delimited text: the fast way and the exact way agree, and nothing is lost in silence."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.collect.columns import MISSING
from reveal_core.errors import UsageError
from reveal_core.importing import streams
from reveal_core.importing.delimited import Delimited
from reveal_core.importing.findings import Findings
from reveal_core.importing.streams import blocks, lines

NUMBERS = st.one_of(
    st.just(""),
    st.just("nan"),
    st.integers(-(10**12), 10**12).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
WHOLE = st.one_of(st.just(""), st.integers(-(2**62), 2**62).map(str))
WORDS = st.from_regex(r"[a-z ]{0,8}", fullmatch=True)


def table(findings: Findings, delimiter: str = ",") -> Delimited:
    return Delimited(["word", "number", "whole"], delimiter, findings, texts=(0,), wholes=(2,))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(WORDS, NUMBERS, WHOLE), min_size=1, max_size=20), st.sampled_from([",", "\t", ";"]))
def test_both_ways_agree(rows: list[tuple[str, str, str]], mark: str) -> None:
    block = "".join(mark.join(row) + "\n" for row in rows).encode()
    findings = Findings()
    fast = table(findings, mark)._fast(block, 2)
    exact = table(findings, mark)._exact(block, 2)
    assert fast.count == exact.count == len(rows)
    assert fast.texts == exact.texts
    np.testing.assert_array_equal(fast.numbers[1], exact.numbers[1])
    np.testing.assert_array_equal(fast.numbers[2], exact.numbers[2])
    assert findings.skipped == []


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_rows_or_told(data: bytes) -> None:
    findings = Findings()
    findings.where = "x"
    parser = table(findings)
    rows = parser.parse(data) if data else None
    if rows is None:
        return
    given_lines = [line for line in data.decode("utf-8", "replace").split("\n") if line.removesuffix("\r")]
    lost = [entry for entry in findings.skipped if entry["reason"].startswith(("rows", "the last row"))]
    assert rows.count <= len(given_lines)
    assert bool(lost) == (rows.count < len(given_lines))
    assert len(rows.line_of()) == rows.count


def test_lines_are_counted_over_blocks_and_empty_lines() -> None:
    findings = Findings()
    findings.where = "t.csv"
    parser = table(findings)
    parser.parse(b"a,1,1\n\nb,2,2\n")
    rows = parser.parse(b"c,3,3\nd,bad,4\ne,5,5.5\n")
    assert list(rows.line_of()) == [5, 6, 7]
    assert [entry["item"] for entry in findings.skipped] == ["t.csv, line 6", "t.csv, line 7"]
    assert np.isnan(rows.numbers[1][1])
    assert rows.numbers[2].tolist() == [3, 4, MISSING]


def test_quotes() -> None:
    findings = Findings()
    rows = table(findings).parse(b'"a, b",1,1\n"broken,2,2\n"c",3,3\n')
    assert rows.texts[0] == ["a, b", "c"]
    assert findings.skipped[0]["reason"] == "rows with broken quotes"


def test_whole_numbers_stay_exact() -> None:
    rows = table(Findings()).parse(b"a,1,9007199254740993\nb,2,12.0\n")
    assert rows.numbers[2].tolist() == [9007199254740993, 12]


@settings(deadline=None)
@given(st.binary(max_size=300), st.integers(1, 40))
def test_blocks_are_the_file_again_and_end_with_lines(data: bytes, size: int) -> None:
    pieces = list(blocks(io.BytesIO(data), size))
    assert b"".join(pieces) == data
    assert all(piece.endswith(b"\n") for piece in pieces[:-1])
    assert sum(len(text) for text, _ in lines(io.BytesIO(b"ab\r\ncd"))) == 4
    assert [whole for _, whole in lines(io.BytesIO(b"ab\r\ncd"))] == [True, False]


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LONGEST_LINE", 100)
    with pytest.raises(UsageError, match="longer than"):
        list(blocks(io.BytesIO(b"x" * 500), 50))
