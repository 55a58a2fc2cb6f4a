"""Kernel files that are kept open and read whole, cheaply, again and again."""

from __future__ import annotations

import os
from pathlib import Path

PAGE = 4096
"""The kernel fills a page with records of a file before it answers; see `HostFile`."""


class HostFile:
    """A file under the host's root.

    Opening costs more than reading, so the file stays open; after an error it is closed and opened anew at
    the next read, because a file of a group or namespace that came back is another file.

    Parameters
    ----------
    path
        The file.
    whole
        The kernel makes this file in one piece, so a read that leaves room in the buffer has reached its
        end. Files made record by record may answer short where the next record does not fit into the kernel's
        page; they are read until an answer leaves so much of the page free that any record would have fitted.
    size
        First size of the buffer in bytes; it grows with the file.
    record
        The longest record that the file may have. To ask once more than needed is dear: the kernel counts
        everything anew to find that it is at the end.
    """

    __slots__ = ("end", "fd", "path", "record", "size", "whole")

    def __init__(self, path: Path, *, whole: bool = False, size: int = 4096, record: int = 1024) -> None:
        self.path = path
        self.whole = whole
        self.record = record
        self.fd = -1
        self._make_room(size)

    def _make_room(self, size: int) -> None:
        self.size = size
        self.end = size if self.whole else min(size, PAGE - self.record)  # a shorter answer is the last

    def read(self) -> bytes:
        """Return the file's present content.

        Raises
        ------
        OSError
            If it cannot be opened or read.
        """
        try:
            if self.fd < 0:
                self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            data = os.pread(self.fd, self.size, 0)
            if len(data) < self.end:
                return data
            pieces = [data]
            offset = len(data)
            while len(data) >= self.end:
                data = os.pread(self.fd, self.size, offset)
                pieces.append(data)
                offset += len(data)
        except OSError:
            self.close()
            raise
        if offset >= self.size:
            self._make_room(2 * offset)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file; a later read opens it again."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def read_text(path: Path) -> str | None:
    """Return a small file's text without surrounding blanks, or None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n\t")
    except OSError:
        return None


def why_unreadable(path: Path) -> str | None:
    """Return why a file or folder cannot be read in one line, or None if it can."""
    try:
        if path.is_dir():
            os.scandir(path).close()
        else:
            with path.open("rb") as file:
                file.read(1)
    except FileNotFoundError:
        return f"{path} is not there"
    except OSError as error:
        return f"{path}: {(error.strerror or str(error)).lower()}"
    return None
