"""Folders of small files that hold one value each, as sysfs has them, read together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from reveal_core.collect.columns import MISSING
from reveal_core.collect.guarded import GuardedFile

SIZE = 64
"""Longest value in bytes; what is longer is no number."""
LARGEST = 2**63 - 1
"""Largest count that a sample can hold."""

Values = tuple[bytes | None, ...]


class ValueFiles(GuardedFile[Values]):
    """Some files of one folder that are kept open and read one after another.

    A file that cannot be read costs only its own value. It is closed then and opened anew at the next read,
    because after a driver came back it is another file.

    Parameters
    ----------
    path
        The folder; names the files in errors.
    names
        The files, relative to the folder.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        super().__init__()
        self.path = path
        self.names = tuple(names)
        self._fds = [-1] * len(self.names)

    def _read(self) -> Values:
        """Return what each file holds; None for one that cannot be read. Raises `OSError` if none can."""
        try:
            return tuple([os.pread(fd, SIZE, 0) for fd in self._fds])
        except OSError:
            pass  # one of them: find out which, and do without it
        values: list[bytes | None] = []
        failure: OSError | None = None
        for place, name in enumerate(self.names):
            try:
                if self._fds[place] < 0:
                    self._fds[place] = os.open(self.path / name, os.O_RDONLY | os.O_CLOEXEC)
                values.append(os.pread(self._fds[place], SIZE, 0))
            except OSError as error:
                failure = error
                values.append(None)
                if self._fds[place] >= 0:
                    os.close(self._fds[place])
                    self._fds[place] = -1
        if failure is not None and not any(value is not None for value in values):
            raise failure
        return tuple(values)

    def _close(self) -> None:
        for place, fd in enumerate(self._fds):
            if fd >= 0:
                os.close(fd)
                self._fds[place] = -1


def count(value: bytes | None) -> int:
    """Return a count, or `MISSING` for what is none: unreadable, ``N/A``, negative, all ones.

    >>> count(b"12\\n"), count(b"N/A (no PMA)\\n") == MISSING, count(b"18446744073709551615") == MISSING
    (12, True, True)
    """
    if value is None:
        return MISSING
    digits = value.strip()
    if not digits.isdigit():
        return MISSING
    number = int(digits)
    return number if number < LARGEST else MISSING
