"""A gate before the workload's input, closed for stretches by a fault: a data loader that lags behind."""

from __future__ import annotations

import time
from collections.abc import Callable

PERIOD_S = 1.5
"""The gate closes once in so long."""
MOST = 0.95
"""A share of time without input above this would be a job that stands still."""
_STEP_S = 0.05


class InputGate:
    """Holds the input back for a share of each period.

    Parameters
    ----------
    clock
        Seconds on a clock that does not step.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began, self._share = 0.0, 0.0

    def set_share(self, share: float) -> None:
        """Close the gate now, and for this share of each period from now on; 0 opens it for good.

        Raises
        ------
        ValueError
            If the share is not within 0 and `MOST`.
        """
        if not 0 <= share <= MOST:
            raise ValueError(f"input cannot be held back for a share of {share} of the time")
        self._began, self._share = self._clock(), share

    def closed_s(self) -> float:
        """Return for how long the gate stays closed from now on, in seconds; 0 if it is open."""
        into = (self._clock() - self._began) % PERIOD_S
        return max(0.0, self._share * PERIOD_S - into)

    def wait(self) -> None:
        """Wait until the gate is open; it may be opened for good meanwhile."""
        while (left := self.closed_s()) > 0:
            time.sleep(min(left, _STEP_S))
