"""Lanes: reads that may hang, each in a thread that can be abandoned.

A driver, a firmware or a file system that stalls keeps whoever asks it waiting, for ever if it is broken. So
parts of a detached source are read by workers, never by the sampling thread, which asks, looks a tick later
what has come, and goes on without what has not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any

from reveal_core.collect.parts import Part

MAX_BACKOFF_S = 60.0
"""A lane that fails or is late again and again is asked at least this often."""
RUN_S, RUN_SHARE = 2.0, 0.3
"""A read that runs longer, or for a larger share of the period, is taken to hang: the worker is left to it,
and another takes over its work.
"""


class Lane:
    """The read of one part: asked for, running, or come back.

    Attributes
    ----------
    part
        What is read.
    outstanding
        Asked for and not come back: it is not asked again meanwhile.
    answer
        What came back, set by the worker and taken by the sampling thread: the data or the error, and the
        microseconds that it took.
    overdue
        It came too late for its tick; what comes then is dropped.
    misses
        Failed or late reads since the last good one.
    not_before
        Number of the tick before which it is not asked again.
    """

    __slots__ = ("answer", "misses", "not_before", "outstanding", "overdue", "part", "worker")

    def __init__(self, part: Part) -> None:
        self.part = part
        self.outstanding = False
        self.answer: tuple[Any, Exception | None, int] | None = None
        self.overdue = False
        self.misses = 0
        self.not_before = 0
        self.worker: Worker | None = None


class Worker:
    """A thread that reads lanes one after another until it is told to stop or hangs in one."""

    def __init__(self, name: str) -> None:
        self.queue: SimpleQueue[Lane | None] = SimpleQueue()
        self.running: tuple[Lane, int] | None = None
        self.abandoned = False
        # A thread that hangs in the kernel must not keep the process from ending.
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def ask(self, lane: Lane) -> None:
        """Read a lane as soon as those before it are done."""
        self.queue.put(lane)

    def stop(self) -> None:
        """End the thread once it has done what it was asked."""
        self.queue.put(None)

    def stuck(self, seconds: float) -> Lane | None:
        """Return the lane that has been read for longer than some seconds, if there is one."""
        running = self.running
        if running is not None and time.monotonic_ns() - running[1] > seconds * 1e9:
            return running[0]
        return None

    def _run(self) -> None:
        while not self.abandoned:
            lane = self.queue.get()
            if lane is None:
                return
            started = time.monotonic_ns()
            self.running = (lane, started)
            data, failure = None, None
            try:
                data = lane.part.file.read()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is that lane's and is told there
                failure = error
            self.running = None
            lane.answer = (data, failure, (time.monotonic_ns() - started) // 1000)


class Lanes:
    """The lanes of one detached source.

    They share one worker, for a thread each would cost a wake-up each; a lane that takes more than its part
    of the time gets a worker of its own, so it cannot keep the others waiting again.

    Parameters
    ----------
    name
        Of the source.
    period_s
        Time between two rounds.
    """

    def __init__(self, name: str, period_s: float) -> None:
        self.name = name
        self.period_s = period_s
        self.run_s = min(RUN_S, RUN_SHARE * period_s)
        self.max_backoff = max(1, round(MAX_BACKOFF_S / period_s))
        self.lanes: dict[Part, Lane] = {}
        self.shared: Worker | None = None
        self.late = 0
        self.took_us = 0

    def ask(self, parts: Sequence[Part], number: int) -> None:
        """Begin a round: ask every part for a read that is not waited for already or backing off.

        Parameters
        ----------
        parts
            What the source has now.
        number
            Of the round.
        """
        for part in self.lanes.keys() - set(parts):
            self._retire(self.lanes.pop(part))
        self.took_us = 0
        for part in parts:
            lane = self.lanes.get(part)
            if lane is None:
                lane = self.lanes[part] = Lane(part)
            if lane.outstanding or number < lane.not_before:
                continue
            lane.outstanding, lane.overdue = True, False
            if lane.worker is not None:
                lane.worker.ask(lane)
            else:
                if self.shared is None:
                    self.shared = Worker(f"reveal-{self.name}")
                self.shared.ask(lane)

    def collect(self, number: int) -> bool:
        """Put what came back into the row; return whether nothing of this round is still awaited."""
        waiting = False
        for lane in self.lanes.values():
            answer = lane.answer
            if answer is not None:
                lane.answer = None
                lane.outstanding = False
                self._take(lane, *answer, number)
            elif lane.outstanding and not lane.overdue:
                waiting = True
        return not waiting

    def close_round(self, number: int) -> None:
        """Leave those that have not come; their samples are missing, and they are asked less often."""
        for lane in self.lanes.values():
            if lane.outstanding and not lane.overdue:
                lane.overdue = True
                self.late += 1
                lane.part.columns.failed(f"{lane.part.file.path}: no answer in time")
                lane.part.forget()
                self._back_off(lane, number)
        self._relieve()

    def hanging(self) -> list[str]:
        """Return what has been asked and has not answered for longer than its time."""
        return [str(lane.part.file.path) for lane in self.lanes.values() if lane.outstanding and lane.overdue]

    @property
    def outstanding(self) -> bool:
        """Whether anything that was asked has not come back."""
        return any(lane.outstanding and lane.answer is None for lane in self.lanes.values())

    def close(self) -> None:
        """Let the workers end; one that hangs is left behind."""
        for lane in self.lanes.values():
            self._retire(lane)
        self.lanes.clear()
        if self.shared is not None:
            self.shared.stop()
            self.shared = None

    def _take(self, lane: Lane, data: Any, failure: Exception | None, took_us: int, number: int) -> None:
        self.took_us += took_us
        sharing = sum(1 for other in self.lanes.values() if other.worker is None)
        if lane.worker is None and took_us * sharing > self.period_s * 1e6:
            lane.worker = Worker(f"reveal-{self.name}-slow")
        if lane.overdue:
            lane.overdue = False  # too old for this tick, but it answers again
            return
        if lane.part.accept(data, failure):
            lane.misses = 0
        else:
            self._back_off(lane, number)

    def _back_off(self, lane: Lane, number: int) -> None:
        lane.not_before = number + min(2**lane.misses, self.max_backoff)
        lane.misses = min(lane.misses + 1, 30)

    def _relieve(self) -> None:
        """Leave the shared worker if it hangs; the lanes behind the one that hangs can be asked anew."""
        worker = self.shared
        if worker is None or (lane := worker.stuck(self.run_s)) is None:
            return
        worker.abandoned = True
        self.shared = None
        for other in self.lanes.values():
            if other.outstanding and other.answer is None and other is not lane and other.worker is None:
                other.outstanding = other.overdue = False

    @staticmethod
    def _retire(lane: Lane) -> None:
        if lane.worker is not None:
            lane.worker.stop()
