"""The sampling loop: ticks that do not drift."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from reveal_core.errors import UsageError

MIN_INTERVAL_S = 0.01
LATE_SHARE = 0.5
"""A tick that begins later than this share of the interval after its time counts as late."""
MIN_STEP_NS = 100_000_000
"""A change of the wall clock against the time since boot that is a step: at most half a millisecond a second
is slewed, and reading both takes microseconds.
"""
SAMPLING_NICE = -10
"""Nice value of the sampling thread; its work is some 15 ms a second at 100 ms."""
_LONGEST_SLEEP_S = 0.2


class Clock(Protocol):
    """What the loop asks a clock; tests bring their own."""

    def monotonic_ns(self) -> int:
        """Return a time that never steps, for keeping the beat."""

    def boot_ns(self) -> int:
        """Return the time since boot."""

    def wall_ns(self) -> int:
        """Return UTC since 1970."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class SystemClock:
    """The clocks of Linux: ``CLOCK_MONOTONIC``, ``CLOCK_BOOTTIME`` (which also counts a suspended time) and
    UTC.
    """

    def monotonic_ns(self) -> int:
        """See `Clock.monotonic_ns`."""
        return time.monotonic_ns()

    def boot_ns(self) -> int:
        """See `Clock.boot_ns`."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def wall_ns(self) -> int:
        """See `Clock.wall_ns`."""
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        """See `Clock.sleep`."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Tick:
    """One pass of the sampler.

    ``number`` counts on the grid of the interval, so a lost tick leaves a gap; ``lost`` is how many were
    lost just before this one. ``step_ns`` is by how much the wall clock was set since the last tick, 0 if it
    was not; ``interval_ms`` the time between ticks at present.
    """

    number: int
    wall_ns: int
    boot_ns: int
    late: bool
    lost: int
    step_ns: int = 0
    interval_ms: int = 0


class WallClock:
    """Reads the wall clock and notices when somebody sets it.

    Both clocks are slewed alike by NTP, so their difference moves only when the wall clock is stepped or the
    clocks could not be read at one moment, which a second look at the other clock bounds.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.offset_ns: int | None = None

    def read(self) -> tuple[int, int, int]:
        """Return the wall clock, the time since boot and by how much the wall clock was set, in ns."""
        before = self.clock.boot_ns()
        wall = self.clock.wall_ns()
        unsure = self.clock.boot_ns() - before
        offset = wall - before
        step = 0 if self.offset_ns is None else offset - self.offset_ns
        if abs(step) <= MIN_STEP_NS + unsure:
            step = 0
        self.offset_ns = offset
        return wall, before, step


def ticks(
    clock: Clock,
    interval_s: float,
    count: int | None,
    stop: threading.Event,
    stride: Callable[[], int] = lambda: 1,
) -> Iterator[Tick]:
    """Yield ticks on the grid of an interval until the count is used up or the event is set.

    The grid starts at the first tick and is kept by the monotonic clock, whatever the work between ticks
    took and whatever happens to the wall clock. A tick whose time has passed entirely, because the one
    before took too long or the machine stood still, is lost: it is skipped and counted.

    Parameters
    ----------
    clock, interval_s
        The beat.
    count
        How long the grid is, lost ticks included; None for no end.
    stop
        Ends it. The event is asked, not waited for: a signal handler may set it at any moment without the
        risk of finding its lock taken.
    stride
        Asked after each tick: of the grid only every so many-th is a tick. A stride keeps to its multiples,
        so that what is sampled densely holds what would have been sampled sparsely.
    """
    interval = round(interval_s * 1e9)
    wall_clock = WallClock(clock)
    start = clock.monotonic_ns()
    number, step = 0, 1
    while (count is None or number < count) and not stop.is_set():
        due = start + number * interval
        while (ahead := due - clock.monotonic_ns()) > 0 and not stop.is_set():
            clock.sleep(min(ahead / 1e9, _LONGEST_SLEEP_S))
        if stop.is_set():
            return
        behind = clock.monotonic_ns() - due
        lost = behind // (interval * step)
        if count is not None:
            lost = min(lost, (count - 1 - number) // step)
        number += lost * step
        behind -= lost * interval * step
        wall, boot, moved = wall_clock.read()
        late = behind > LATE_SHARE * interval
        yield Tick(number, wall, boot, late, lost, moved, round(step * interval / 1e6))
        step = stride()
        number = (number // step + 1) * step


@contextmanager
def prompt_scheduling() -> Iterator[int]:
    """Let the calling thread go before others while it samples, where that is permitted; gives its nice
    value.

    A host is worth watching most when its cores are overrun. Linux keeps the nice value per thread, so
    threads that exist already, and everything after, run as before. Without the right (CAP_SYS_NICE)
    nothing changes.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(before, SAMPLING_NICE))
    except PermissionError:
        yield before
        return
    try:
        yield min(before, SAMPLING_NICE)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def check_interval(interval_s: float) -> None:
    """Refuse an interval that cannot be kept.

    Raises
    ------
    UsageError
        If it is shorter than `MIN_INTERVAL_S`.
    """
    if not interval_s >= MIN_INTERVAL_S:
        raise UsageError(f"an interval of {interval_s:g} s is too short: at least {MIN_INTERVAL_S:g} s")
