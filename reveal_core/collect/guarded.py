"""What a worker may be reading when somebody else closes it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

Data = TypeVar("Data")


class GuardedFile(ABC, Generic[Data]):
    """Something of a device that stays open between reads; closing it never waits for a read that hangs."""

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._let_go = False

    def read(self) -> Data:
        """Return what it says now.

        Raises
        ------
        OSError
            If it says nothing.
        """
        with self._reading:
            try:
                return self._read()
            finally:
                if self._let_go:
                    self._shut()

    def close(self) -> None:
        """Let go of it; a later read opens it again. A read that hangs lets go of it as it comes back."""
        self._let_go = True
        if self._reading.acquire(blocking=False):
            try:
                self._shut()
            finally:
                self._reading.release()

    def _shut(self) -> None:
        self._close()
        self._let_go = False

    @abstractmethod
    def _read(self) -> Data:
        """Open it if it is not open, and return what it says."""

    @abstractmethod
    def _close(self) -> None:
        """Close what is open."""
