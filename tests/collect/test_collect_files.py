from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.collect.files import HostFile, why_unreadable


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
