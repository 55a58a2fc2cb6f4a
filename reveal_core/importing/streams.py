"""Files as streams of bytes, whole lines at a time, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from reveal_core.errors import UsageError

BLOCK_BYTES = 8 << 20
LONGEST_LINE = 64 << 20
"""A line longer than this is no line of a log."""
_OPENERS: tuple[tuple[bytes, Any], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, unpacking it where it is compressed (gzip, bzip2, xz), and pass over a byte order mark.

    Raises
    ------
    UsageError
        If it cannot be read, is damaged, or is text in UTF-16.
    """
    try:
        with path.open("rb") as plain:
            head = plain.read(8)
        opener = next((one for magic, one in _OPENERS if head.startswith(magic)), None)
        with opener(path, "rb") if opener is not None else path.open("rb") as file:
            mark = file.read(3)
            if mark[:2] in _WIDE_MARKS:
                raise UsageError(f"{path}: the text is UTF-16; it must be UTF-8")
            if mark != _BYTE_ORDER_MARK:
                file.seek(0)
            yield file
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path} cannot be read: {reason}") from error


def blocks(file: IO[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield a file in pieces of about ``size`` bytes that end with a line; the last may lack its newline.

    Raises
    ------
    UsageError
        If a line is longer than `LONGEST_LINE`.
    """
    rest = b""
    while piece := file.read(size):
        cut = piece.rfind(b"\n") + 1
        if not cut:
            rest += piece
            if len(rest) > LONGEST_LINE:
                raise UsageError(f"a line is longer than {LONGEST_LINE >> 20} MiB: this is no text of lines")
            continue
        yield rest + piece[:cut]
        rest = piece[cut:]
    if rest:
        yield rest


def lines(file: IO[bytes]) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a text without their ends, and whether they had one: the last may be cut off.

    Bytes that are no UTF-8 become replacement marks.
    """
    for block in blocks(file):
        # Not str.splitlines: it also breaks at form feeds and the like, and lines would be counted wrongly.
        *whole, rest = block.decode("utf-8", "replace").split("\n")
        for line in whole:
            yield line.removesuffix("\r"), True
        if rest:
            yield rest, False


def identity_of(path: Path) -> str:
    """Return what tells a file from others: a digest of its first two lines.

    It stays the same when the file is moved, or grows.
    """
    with opened(path) as file:
        head = file.readline(LONGEST_LINE) + file.readline(LONGEST_LINE)
    return hashlib.sha256(head).hexdigest()


def files_in(source: Path, patterns: tuple[str, ...]) -> list[Path]:
    """Return the file itself, or the files of a folder and its folders, by name.

    Raises
    ------
    UsageError
        If there is nothing.
    """
    if source.is_dir():
        found = sorted({path for pattern in patterns for path in source.rglob(pattern) if path.is_file()})
        if not found:
            raise UsageError(f"{source} holds no file like {', '.join(patterns)}")
        return found
    if not source.exists():
        raise UsageError(f"{source} is not there")
    return [source]
