"""Entering a network namespace; light, so that ranks start fast."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_CLONE_NEWNET = 0x40000000
NAMESPACES = Path("/run/netns")


def enter_namespace(name: str) -> None:
    """Move the calling thread into a network namespace under ``/run/netns``.

    Raises
    ------
    OSError
        If there is none of that name, or the right to enter it is missing.
    """
    descriptor = os.open(NAMESPACES / name, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise OSError(code, f"setns {name}: {os.strerror(code)}")
    finally:
        os.close(descriptor)


def in_namespace(name: str, work: Callable[[], T]) -> T:
    """Run work in a thread of its own inside a network namespace, ``""`` for the present one, and return its result.

    A thread of its own, because a namespace belongs to a thread, and because pyroute2 runs an event loop, which a
    thread can have only one of.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            if name:
                enter_namespace(name)
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=run, name=f"netns {name or 'host'}")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
