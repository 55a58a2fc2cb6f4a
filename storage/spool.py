"""The spool: segments on local disk that wait for a store that is away, and the thread that brings them.

An agent must lose nothing while an object store or the way to it is down, and must not fill the disk either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from reveal_core.errors import RevealError
from reveal_core.segment import Segment
from storage.backend import Backend
from storage.layout import segment_key
from storage.segments import files_of_hour, hosts_of_hour, hours
from storage.store import Store

MAX_BYTES = 1 << 30
"""Bound of the spool: some three days of one host at 250 kB a minute."""
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 60.0

log = logging.getLogger(__name__)


class Spool:
    """A folder of segments in the layout of a store. The oldest are given up when it would grow too large.

    What is in it survives the process: a later one finds it and brings it away.

    Parameters
    ----------
    folder
        Made if it is missing.
    max_bytes
        Its bound.

    Attributes
    ----------
    given_up
        Segments that were given up since this process began.

    Raises
    ------
    UnavailableError
        If the folder cannot be made or written.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.given_up = 0
        self._lock = threading.Lock()
        self._backend = Backend(str(folder))
        self._backend.check(write=True)
        self._sizes: OrderedDict[str, int] = OrderedDict()
        found = [
            name
            for hour in hours(self._backend)
            for host in hosts_of_hour(self._backend, hour)
            for name in files_of_hour(self._backend, hour, host).segments
        ]
        for name in sorted(found):
            self._sizes[name.key] = (folder / name.key).stat().st_size

    def add(self, segment: Segment) -> str:
        """Keep a segment, synced to disk, and return its key.

        Raises
        ------
        UnavailableError
            If it cannot be written.
        """
        key = segment_key(segment.host, segment.start, segment.boot, segment.sequence)
        with self._lock:
            while self._sizes and self.size + len(segment.data) > self.max_bytes:
                oldest, _ = self._sizes.popitem(last=False)
                self._backend.remove(oldest)
                self.given_up += 1
                log.error("the spool %s is full: gave up its oldest segment %s", self.folder, oldest)
        self._backend.write(key, segment.data)
        with self._lock:
            self._sizes[key] = len(segment.data)
        return key

    @property
    def size(self) -> int:
        """Bytes in it."""
        return sum(self._sizes.values())

    def __len__(self) -> int:
        return len(self._sizes)

    def oldest(self) -> tuple[str, bytes] | None:
        """Return key and content of the oldest segment, None if there is none."""
        while True:
            with self._lock:
                key = next(iter(self._sizes), None)
            if key is None:
                return None
            data = self._backend.read(key)
            if data is not None:
                return key, data
            self.remove(key)  # somebody took it away

    def remove(self, key: str) -> None:
        """Forget a segment that is safely elsewhere."""
        with self._lock:
            self._sizes.pop(key, None)
        self._backend.remove(key)


class Uploader:
    """Brings what is in a spool to a store, oldest first, in a thread of its own.

    While the store is away it is tried again after 1, 2, 4 … up to 60 s. Bringing a segment twice is
    harmless, for its key follows from its content's identity; it leaves the spool only once it is there.

    Parameters
    ----------
    spool, store
        From where, to where.
    on_stored
        Called with key and bytes of each segment that is in the store.

    Attributes
    ----------
    stored
        How many segments were brought away.
    problem
        Why the last attempt failed; None when all is well.
    """

    def __init__(self, spool: Spool, store: Store, on_stored: Callable[[str, int], None]) -> None:
        self.spool = spool
        self.store = store
        self.on_stored = on_stored
        self.stored = 0
        self.problem: str | None = None
        self._changed = threading.Condition()
        self._ending = False
        self._over = False
        # A store that never answers must not keep the agent from ending: what it has is on disk.
        threading.Thread(target=self._run, name="reveal-upload", daemon=True).start()

    def notify(self) -> None:
        """Say that something new is in the spool."""
        with self._changed:
            self._changed.notify_all()

    def finish(self, timeout_s: float) -> int:
        """Wait until the spool is empty or time is over; return how many segments stay in it."""
        until = time.monotonic() + timeout_s
        with self._changed:
            self._ending = True
            self._changed.notify_all()
            while len(self.spool) and self.problem is None and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            self._over = True
            self._changed.notify_all()
        return len(self.spool)

    def _run(self) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            with self._changed:
                while not len(self.spool) and not self._over:
                    self._changed.wait()
            if self._over:
                return
            try:
                while not self._over and (found := self.spool.oldest()) is not None:
                    key, data = found
                    self.store.backend.write(key, data)
                    self.stored += 1
                    self.problem = None
                    retry_s = FIRST_RETRY_S
                    self.on_stored(key, len(data))
                    self.spool.remove(key)  # last: whoever sees it empty knows of everything that was stored
                with self._changed:
                    self._changed.notify_all()
            except Exception as error:  # noqa: BLE001 - whatever the store's client raises, it is tried again
                ours = isinstance(error, RevealError)
                problem = str(error) if ours else f"{type(error).__name__}: {error}"
                if self.problem is None:
                    log.warning("segments wait in the spool %s: %s", self.spool.folder, problem)
                with self._changed:
                    self.problem = problem
                    self._changed.notify_all()
                    if not self._ending:
                        self._changed.wait(retry_s)
                        retry_s = min(2 * retry_s, LAST_RETRY_S)
                    else:
                        return
