"""The open sources of a host, and the segment that is being built of what they say."""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.channels import Channel
from reveal_core.collect.columns import Columns
from reveal_core.collect.loop import Tick
from reveal_core.collect.opened import OpenSource, wrap
from reveal_core.collect.segments import Batch
from reveal_core.collect.selfmetrics import SelfMetrics
from reveal_core.collect.source import Source
from reveal_core.collect.sources import SOURCES
from reveal_core.errors import UsageError

START_S = 5.0
"""How long the sources that may hang have to answer before sampling begins without them; later they are still
taken up.
"""
LOOK_S = 60.0
"""How often sources that are not here are looked for: a driver may be loaded, a device plugged in, later."""


@dataclass(frozen=True)
class SourceStatus:
    """Whether a source is here.

    Attributes
    ----------
    source, available
        Its name, and whether it is sampled.
    reason
        Why not; None if it is.
    channels
        How many channels it has now.
    notes
        What is odd about it: names that the catalogue does not know, errors so far.
    """

    source: str
    available: bool
    reason: str | None
    channels: int
    notes: tuple[str, ...] = ()


def begin(source: Source) -> str | None:
    """Find, open and read a source for the first time; return why that cannot be, None if it went well."""
    try:
        reason = source.probe()
        if reason is None:
            source.open()
            source.read()
    except Exception as error:  # noqa: BLE001 - a broken source must not keep the others from being read
        source.close()
        reason = f"{type(error).__name__}: {error}"
    return reason


class Start:
    """The first look at a source, in a thread of its own: it may hang, or try out a tool for a while.

    Attributes
    ----------
    source
        Being looked at.
    done
        Set when that is over.
    reason
        Why it is not here; None if it is.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.done = threading.Event()
        self.reason: str | None = f"does not answer within {START_S:g} s"
        threading.Thread(target=self._run, name=f"reveal-start-{source.name}", daemon=True).start()

    def _run(self) -> None:
        self.reason = begin(self.source)
        self.done.set()


class Collector:
    """Open sources and the segment being built of them.

    Parameters
    ----------
    root
        Where the host's files begin.
    tick_ms
        Sampling interval; a source's period is its own, rounded up to a multiple of this.
    names
        Sources to use; None for all.
    sparse_every
        As in `SelfMetrics`.

    Raises
    ------
    UsageError
        If a source is not known, or the root is no folder.
    """

    def __init__(
        self,
        root: Path,
        tick_ms: int,
        names: tuple[str, ...] | None = None,
        sparse_every: int | None = None,
    ) -> None:
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder: --root names where the host's proc and sys are")
        known = [source.name for source in SOURCES]
        for name in names or ():
            if name not in known:
                raise UsageError(f"there is no source {name!r}: known are {', '.join(known)}")
        self.root = root
        self.tick_ms = tick_ms
        self.kinds = [kind for kind in SOURCES if names is None or kind.name in names]
        self.own = SelfMetrics(tick_ms, sparse_every)
        self.opened: list[OpenSource] = []
        self.absent: dict[str, str] = {}
        self.starting: dict[str, Start] = {}
        self.looked_at = time.monotonic()
        self.ts = array("q")
        self.mono = array("q")
        for kind in self.kinds:
            source = self._make(kind)
            if kind.detached:
                self.starting[kind.name] = Start(source)
            else:
                self._settle(source, begin(source))
        until = self.looked_at + START_S
        for start in self.starting.values():
            start.done.wait(max(0.0, until - time.monotonic()))
        self.adopt()

    def _make(self, kind: type[Source]) -> Source:
        every = max(1, math.ceil(kind.period_ms / self.tick_ms))
        columns = Columns(kind.name, every * self.tick_ms, load_catalog(), load_left_out())
        return kind(self.root, columns)

    def look(self) -> None:
        """Look for the sources that are not here, if it is time; `adopt` takes up those that are, later.

        None of it happens in the sampling thread: even to find nothing may take longer than a tick.
        """
        if time.monotonic() < self.looked_at + LOOK_S:
            return
        self.looked_at = time.monotonic()
        for kind in self.kinds:
            if kind.name in self.absent and kind.name not in self.starting:
                self.starting[kind.name] = Start(self._make(kind))

    def adopt(self) -> None:
        """Take up the sources whose first look is over."""
        for name, start in list(self.starting.items()):
            if start.done.is_set():
                del self.starting[name]
                self._settle(start.source, start.reason)
            else:
                self.absent[name] = str(start.reason)

    def _settle(self, source: Source, reason: str | None) -> None:
        name = source.name
        if reason is not None:
            self.absent[name] = reason
            return
        self.absent.pop(name, None)
        order = [kind.name for kind in self.kinds]
        every = max(1, math.ceil(source.period_ms / self.tick_ms))
        source.columns.set_period(every * self.tick_ms)
        coverage = load_catalog()["reveal.coverage"].channel(name, "reveal", source.columns.period_ms)
        self.opened.append(wrap(source, order.index(name), every, self.tick_ms, coverage))
        self.opened.sort(key=lambda opened: order.index(opened.source.name))

    @property
    def sources(self) -> list[SourceStatus]:
        """Every source, in reading order: those that are here and those that are not, with the reason."""
        found = {name: SourceStatus(name, False, reason, 0) for name, reason in self.absent.items()}
        for opened in self.opened:
            columns = opened.source.columns
            notes = [f"not in the catalogue: {', '.join(sorted(columns.unknown))}"] if columns.unknown else []
            notes += [f"{error} ({count} times)" for error, count in columns.errors.most_common(5)]
            notes += [*opened.source.notes, *opened.notes]
            name = opened.source.name
            found[name] = SourceStatus(name, True, None, len(columns.channels), tuple(notes))
        return [found[kind.name] for kind in self.kinds if kind.name in found]

    @property
    def channels(self) -> list[Channel]:
        """The channels that are there now, the collector's own included."""
        channels = [channel for opened in self.opened for channel in opened.source.columns.channels]
        return channels + self.own.channels + [opened.coverage for opened in self.opened]

    @property
    def samples(self) -> int:
        """How many samples were read."""
        return sum(opened.samples for opened in self.opened)

    def sample(self, tick: Tick) -> None:
        """Read every source that is due."""
        row = len(self.ts)
        self.ts.append(tick.wall_ns)
        self.mono.append(tick.boot_ns)
        for opened in self.opened:
            opened.sample(tick.number, row)
        self.own.record(tick, row, self.opened)

    def latest(self, names: Container[str]) -> list[Columns]:
        """Return the columns of some sources, with what was read of them parsed: their rows hold the latest
        samples.
        """
        chosen = [opened for opened in self.opened if opened.source.name in names]
        for opened in chosen:
            opened.settle()
        return [opened.source.columns for opened in chosen]

    def cut(self, host: str, boot: str, sequence: int, facts: dict[str, Any]) -> Batch:
        """Return what was sampled since the last cut, and begin anew."""
        collector = {
            "tick_ms": self.tick_ms,
            "late_ticks": self.own.late_ticks,
            "lost_ticks": self.own.lost_ticks,
            "mono_clock": "CLOCK_BOOTTIME",
            "unavailable": dict(self.absent),
        }
        for opened in self.opened:
            facts = {**facts, **opened.source.facts}
        blocks = [*(opened.cut() for opened in self.opened), *self.own.cut()]
        batch = Batch(host, boot, sequence, {**facts, "collector": collector}, self.ts, self.mono, blocks)
        self.ts, self.mono = array("q"), array("q")
        self.adopt()
        self.look()
        return batch

    def close(self) -> None:
        """Close every source."""
        for opened in self.opened:
            opened.close()
