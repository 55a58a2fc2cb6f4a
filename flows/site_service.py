"""A process of a site that is kept up, as systemd or a container engine would keep it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from flows.demo_parts import Companion
from reveal_core.errors import UnavailableError

Say = Callable[[str], None]

MOST_ENDS, WITHIN_S = 5, 60.0
"""A service that ends more often than this in so short a time will not come up by being started again."""


class Service:
    """A process with a log, started again when it ends by itself.

    Parameters
    ----------
    command, log
        What to run, and the file that takes what it says; its stem is the service's name.
    environment
        Variables to set beside the inherited ones.
    again
        Whether it is started again; what keeps everything in memory is not.
    """

    def __init__(
        self, command: list[str], log: Path, environment: Mapping[str, str], *, again: bool = True
    ) -> None:
        self.name = log.stem
        self._start = lambda: Companion(command, log, environment)
        self._again = again
        self._ends: list[float] = []
        self.companion = self._start()

    def look(self, say: Say) -> None:
        """Start it again if it has ended.

        Parameters
        ----------
        say
            Told so.

        Raises
        ------
        UnavailableError
            If it has ended and is not to be started again, or ends again and again.
        """
        try:
            self.companion.check()
        except UnavailableError as error:
            self._kill()
            now = time.monotonic()
            self._ends = [*(end for end in self._ends if now - end < WITHIN_S), now]
            if not self._again or len(self._ends) > MOST_ENDS:
                raise
            say(f"{error}; it is started again")
            self.companion = self._start()

    def stop(self) -> None:
        """End it and what it has started, which some servers leave behind."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.companion.process.pid, signal.SIGTERM)
        self.companion.stop()
        self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.companion.process.pid, signal.SIGKILL)
