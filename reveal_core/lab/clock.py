"""The wall clock of the machine, set by its distance to the time since boot."""

from __future__ import annotations

import os
import time
from pathlib import Path

_CAP_SYS_TIME = 25


def offset_ns() -> int:
    """Return how far the wall clock is ahead of the time since boot, in ns."""
    return time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def set_offset(offset: int) -> None:
    """Set the wall clock to a distance from the time since boot, in ns; doing so twice changes nothing.

    Raises
    ------
    OSError
        If the right is missing.
    """
    time.clock_settime_ns(time.CLOCK_REALTIME, time.clock_gettime_ns(time.CLOCK_BOOTTIME) + offset)


def why_no_clock() -> str:
    """Return why this process cannot set the wall clock, or ``""`` if it can."""
    if os.geteuid() != 0:
        return "needs root to set the clock"
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    return "" if int(line.split()[1], 16) >> _CAP_SYS_TIME & 1 else "needs CAP_SYS_TIME to set the clock"
