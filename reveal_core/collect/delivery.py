"""Delivery of finished segments, off the sampling thread."""

from __future__ import annotations

import ctypes
import logging
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue

from reveal_core.collect.segments import Batch, encode_batch
from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.segment import Segment

MAX_WAITING = 120
"""Segments kept while they cannot be delivered:

two hours of one a minute, some 50 MB. Beyond, the oldest is given up.
"""

_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None)

log = logging.getLogger(__name__)


def give_back_memory() -> None:
    """Give what was freed back to the system, where the C library can (glibc).

    Encoding a segment takes ten megabytes for a moment; the allocator would keep them for the next one, and
    for good what a crowd of channels once took. It costs a millisecond or two.
    """
    if _TRIM is not None:
        _TRIM(0)


class Delivery:
    """Encodes batches and hands the segments on, in order, in a thread of its own: a slow store makes no tick
    late.

    When ``on_segment`` raises, the segment is kept and offered again with the next one, and once more at
    the end. A `UsageError` is final: trying again would not help, so collecting stops with it.

    Parameters
    ----------
    on_segment
        Called with each segment, one at a time.
    """

    def __init__(self, on_segment: Callable[[Segment], None]) -> None:
        self.on_segment = on_segment
        self.waiting: deque[Segment] = deque()
        self.given_up = 0
        self.fatal: Exception | None = None
        self.error: Exception | None = None
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="reveal-delivery", daemon=True)
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Take a batch to encode and deliver; returns at once."""
        self._queue.put(batch)

    def finish(self) -> None:
        """Wait until everything that can be delivered is.

        Raises
        ------
        Exception
            What ``on_segment`` raised last, if segments are left over; `UnavailableError` in place of an
            error that is not Reveal's own.
        """
        self._queue.put(None)
        self._thread.join()
        if self.fatal is not None:
            raise self.fatal
        if self.error is not None:
            if isinstance(self.error, RevealError):
                raise self.error
            raise UnavailableError(
                f"{len(self.waiting)} segments could not be stored: {type(self.error).__name__}: {self.error}"
            ) from self.error

    def _run(self) -> None:
        try:
            while True:
                batch = self._queue.get()
                last = batch is None
                if batch is not None:
                    self.waiting.append(encode_batch(batch))
                    batch = None  # not to be kept until the next one comes: it is the largest thing there is
                self._deliver()
                give_back_memory()
                if last:
                    return
        except Exception as error:  # noqa: BLE001 - the sampling thread raises it
            self.fatal = error

    def _deliver(self) -> None:
        while self.waiting:
            try:
                self.on_segment(self.waiting[0])
            except UsageError:
                raise
            except Exception as error:  # noqa: BLE001 - kept, and raised at the end if it stays
                log.warning("a segment could not be stored and will be tried again: %s", error)
                self.error = error
                if len(self.waiting) > MAX_WAITING:
                    self.waiting.popleft()
                    self.given_up += 1
                    log.error("gave up the oldest segment: %d wait already", MAX_WAITING)
                return
            self.waiting.popleft()
            self.error = None
