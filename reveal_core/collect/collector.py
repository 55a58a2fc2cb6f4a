"""The open sources of a host, and the segment that is being built of what they say."""

from __future__ import annotations

import math
import time
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.channels import Channel
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.loop import Tick
from reveal_core.collect.segments import Batch, Block
from reveal_core.collect.source import Source
from reveal_core.collect.sources import SOURCES
from reveal_core.errors import UsageError


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


class OpenSource:
    """A source that is sampled: how often, and what it said in the present segment."""

    def __init__(self, source: Source, every: int, phase: int, period_ms: int) -> None:
        self.source = source
        self.every = every
        self.due = 0
        self.phase = phase
        catalog = load_catalog()
        self.coverage = catalog["reveal.coverage"].channel(source.name, "reveal", period_ms)
        self.block = self.new_block()

    def new_block(self) -> Block:
        """Return an empty block for the next segment."""
        return Block(coverage=self.coverage)

    def sample(self, tick: int, row: int) -> None:
        """Read the source into a row of the segment, if it is due."""
        columns = self.source.columns
        try:
            samples = self.source.read()
        except Exception as error:  # noqa: BLE001 - a broken source must not cost the others their samples
            columns.errors[f"{type(error).__name__}: {error}"] += 1
            for part in self.source.parts:
                part.forget()
            columns.blank(range(len(columns.row)))
            samples = columns.row
        self.block.append(row, samples)
        # Slow sources are spread over the ticks after the first, so that no tick carries them all.
        self.due = (tick + self.phase) // self.every * self.every + self.every - self.phase


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

    Raises
    ------
    UsageError
        If a source is not known, or the root is no folder.
    """

    def __init__(self, root: Path, tick_ms: int, names: tuple[str, ...] | None = None) -> None:
        if not root.is_dir():
            raise UsageError(f"{root} is not a folder: --root names where the host's proc and sys are")
        known = [source.name for source in SOURCES]
        for name in names or ():
            if name not in known:
                raise UsageError(f"there is no source {name!r}: known are {', '.join(known)}")
        self.root = root
        self.tick_ms = tick_ms
        self.opened: list[OpenSource] = []
        self.absent: list[SourceStatus] = []
        catalog, left_out = load_catalog(), load_left_out()
        for number, kind in enumerate(SOURCES):
            if names is not None and kind.name not in names:
                continue
            every = max(1, math.ceil(kind.period_ms / tick_ms))
            columns = Columns(kind.name, every * tick_ms, catalog, left_out)
            source = kind(root, columns)
            reason = begin(source)
            if reason is None:
                self.opened.append(OpenSource(source, every, number % every, every * tick_ms))
            else:
                self.absent.append(SourceStatus(kind.name, False, reason, 0))
        self.self_columns = Columns("reveal", tick_ms, catalog, left_out)
        self.self_block = Block()
        self.late_slot = self.self_columns.add("reveal.late_ticks")
        self.lost_slot = self.self_columns.add("reveal.lost_ticks")
        self.time_slots = [
            self.self_columns.add("reveal.read_time", opened.source.name, period_ms=opened.coverage.period_ms)
            for opened in self.opened
        ]
        self.late_ticks = 0
        self.lost_ticks = 0
        self.ts = array("q")
        self.mono = array("q")
        self.samples = 0

    @property
    def sources(self) -> list[SourceStatus]:
        """Every source, in reading order: those that are here and those that are not, with the reason."""
        found = {status.source: status for status in self.absent}
        for opened in self.opened:
            columns = opened.source.columns
            notes = [f"not in the catalogue: {', '.join(sorted(columns.unknown))}"] if columns.unknown else []
            notes += [f"{error} ({count} times)" for error, count in columns.errors.most_common(5)]
            notes += opened.source.notes
            name = opened.source.name
            found[name] = SourceStatus(name, True, None, len(columns.channels), tuple(notes))
        return [found[kind.name] for kind in SOURCES if kind.name in found]

    @property
    def channels(self) -> list[Channel]:
        """The channels that are there now, the collector's own included."""
        channels = [channel for opened in self.opened for channel in opened.source.columns.channels]
        return channels + self.self_columns.channels + [opened.coverage for opened in self.opened]

    def sample(self, tick: Tick) -> None:
        """Read every source that is due."""
        row = len(self.ts)
        self.ts.append(tick.wall_ns)
        self.mono.append(tick.boot_ns)
        self.late_ticks += tick.late
        self.lost_ticks += tick.lost
        own = self.self_columns.row
        for opened, slot in zip(self.opened, self.time_slots, strict=True):
            taken = MISSING
            if tick.number >= opened.due:
                started = time.perf_counter_ns()
                opened.sample(tick.number, row)
                taken = (time.perf_counter_ns() - started) // 1000
                self.samples += len(opened.source.columns.row)
            if slot is not None:
                own[slot] = taken
        if self.late_slot is not None and self.lost_slot is not None:
            own[self.late_slot] = self.late_ticks
            own[self.lost_slot] = self.lost_ticks
        self.self_block.append(row, own)

    def cut(self, host: str, boot: str, sequence: int, facts: dict[str, Any]) -> Batch:
        """Return what was sampled since the last cut, and begin anew."""
        collector = {
            "tick_ms": self.tick_ms,
            "late_ticks": self.late_ticks,
            "lost_ticks": self.lost_ticks,
            "mono_clock": "CLOCK_BOOTTIME",
            "unavailable": {status.source: status.reason for status in self.absent},
        }
        blocks = []
        for opened in self.opened:
            opened.block.seal(opened.source.columns)
            blocks.append(opened.block)
            opened.block = opened.new_block()
        self.self_block.seal(self.self_columns)
        blocks.append(self.self_block)
        self.self_block = Block()
        batch = Batch(host, boot, sequence, {**facts, "collector": collector}, self.ts, self.mono, blocks)
        self.ts, self.mono = array("q"), array("q")
        return batch

    def close(self) -> None:
        """Close every source."""
        for opened in self.opened:
            opened.source.close()
