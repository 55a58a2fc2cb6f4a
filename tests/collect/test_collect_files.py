from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.collect.files import PAGE, HostFile, why_unreadable


@given(content=st.binary(max_size=300), size=st.integers(1, 64), whole=st.booleans())
def test_a_file_is_read_whole_whatever_the_buffer(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, size: int, whole: bool
) -> None:
    path = tmp_path_factory.mktemp("file") / "content"
    path.write_bytes(content)
    file = HostFile(path, whole=whole, size=size)
    assert file.read() == content
    assert file.read() == content
    file.close()


@given(
    lengths=st.lists(st.integers(1, 64), max_size=200),
    size=st.integers(1, 9000),
    record=st.sampled_from([64, 1024]),
)
def test_a_file_that_the_kernel_makes_record_by_record_is_read_whole(
    lengths: list[int], size: int, record: int
) -> None:
    """The kernel answers with as many whole records as fit into a page, or with as much as was asked for."""
    records = [bytes([65 + number % 26]) * length for number, length in enumerate(lengths)]
    content = b"".join(records)
    ends = list(accumulate(lengths))
    asked: list[int] = []

    def pread(_fd: int, wanted: int, offset: int) -> bytes:
        asked.append(offset)
        # What is left of a record that was cut, and then a page of further ones.
        begun = next((end for end in ends if end >= offset), offset)
        end = max((e for e in ends if e <= begun + PAGE), default=offset)
        return content[offset : min(end, offset + wanted)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", pread)
        file = HostFile(Path(os.devnull), size=size, record=record)
        assert file.read() == content
        assert file.read() == content
        file.close()
    if len(content) < min(size, PAGE - record):
        assert asked == [0, 0]


def test_a_file_that_grows_is_read_to_its_new_end(tmp_path: Path) -> None:
    path = tmp_path / "content"
    path.write_bytes(b"short")
    file = HostFile(path, size=8)
    assert file.read() == b"short"
    path.write_bytes(b"x" * 1000)
    assert file.read() == b"x" * 1000
    file.close()


def test_a_file_that_went_away_and_came_back_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "content"
    file = HostFile(path)
    with pytest.raises(FileNotFoundError):
        file.read()
    path.write_bytes(b"here")
    assert file.read() == b"here"
    file.close()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        file.read()


def test_reasons_are_one_line(tmp_path: Path) -> None:
    assert why_unreadable(tmp_path) is None
    assert why_unreadable(tmp_path / "nothing") == f"{tmp_path / 'nothing'} is not there"
    assert why_unreadable(Path("/proc/self/mem")) is not None  # its first page is not mapped
