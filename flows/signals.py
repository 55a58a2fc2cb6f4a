"""What signals ask of a command that runs until it is told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Asked:
    """What signals have asked for.

    Attributes
    ----------
    stop
        The run is to end.
    reload
        It is to begin anew with new settings.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.reload = False
        self.ending = False

    def again(self) -> None:
        """Begin anew, unless somebody has asked to end meanwhile."""
        self.reload = False
        self.stop.clear()
        if self.ending:
            self.stop.set()


@contextmanager
def signals(reload: bool = False) -> Iterator[Asked]:
    """Let the first SIGINT or SIGTERM ask for an end in good order, a second kill; SIGHUP for new settings.

    Parameters
    ----------
    reload
        Whether SIGHUP is listened to.
    """
    asked = Asked()
    ending = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in (*ending, signal.SIGHUP)}

    def ask_to_stop(number: int, _frame: Any) -> None:
        asked.ending, asked.reload = True, False
        asked.stop.set()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(number, signal.SIG_DFL)

    def ask_to_reload(_number: int, _frame: Any) -> None:
        asked.reload = True
        asked.stop.set()

    try:
        for number in ending:
            signal.signal(number, ask_to_stop)
        if reload:
            signal.signal(signal.SIGHUP, ask_to_reload)
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
