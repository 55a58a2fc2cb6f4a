"""Sampling at the pace of the host: sparse while it is calm, dense within a second when it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from reveal_core.collect.columns import MISSING, Columns

DENSE_MS = 100
CALM_STRIDE = 6
"""A calm host is sampled at every sixth tick, 600 ms: the publication's slowest setting."""
CALM_AFTER_S = 15.0
"""So long must every signal keep to its usual range before sampling becomes sparse."""
MOVES = 4.0
"""A signal moves when its rate leaves its running mean by so many times its running mean deviation."""
MEMORY_S = 60.0
"""Time constant of the running mean and deviation."""

SIGNALS: Mapping[str, tuple[tuple[str, ...], float]] = {
    "stat": (("stat.ctxt",), 1000.0),
    "stat.processes": (("stat.processes",), 20.0),
    "cpu": (("cpu.user", "cpu.system", "cpu.softirq", "cpu.steal"), 20.0),
    "iowait": (("cpu.iowait",), 20.0),
    "stall": (("psi.cpu_some", "psi.memory_some", "psi.io_some"), 100_000.0),
    "faults": (("vmstat.pgfault",), 10_000.0),
    "network": (("net.rx_packets", "net.tx_packets"), 500.0),
    "retransmits": (("tcp.RetransSegs",), 5.0),
    "disk": (("disk.read_sectors", "disk.write_sectors"), 16_384.0),
}
"""Signal: the counters that it sums over their instances, and the increase per second that is no move.

All are read every 200 ms anyway. The floors are those of the catalogue, in the counters' own units.
"""
SIGNAL_SOURCES = frozenset(("stat", "pressure", "vmstat", "netdev", "protocols", "disks"))
"""The sources that the signals come from. Of other network namespaces, what reaches the host is seen here."""


class Signal:
    """The rate of a sum of counters, and what is usual for it."""

    def __init__(self, metrics: Sequence[str], floor: float) -> None:
        self.metrics = frozenset(metrics)
        self.floor = floor
        self.last: float | None = None
        self.mean: float | None = None
        self.deviation = 0.0
        self.width = -1
        self.places: list[tuple[list[int], int]] = []

    def moves(self, total: int, seconds: float) -> bool:
        """Take the counters' sum and the time since the last one; return whether the rate is unusual."""
        last, self.last = self.last, total
        if last is None or seconds <= 0 or total < last:
            return False
        rate = (total - last) / seconds
        if self.mean is None:
            self.mean = rate
            return False
        off = abs(rate - self.mean)
        moved = off > max(self.floor, MOVES * self.deviation)
        # Weights by time, so that sparse and dense samples forget alike.
        weight = 1 - math.exp(-seconds / MEMORY_S)
        self.mean += weight * (rate - self.mean)
        self.deviation += weight * (off - self.deviation)
        return moved


class AdaptivePace:
    """Says after each tick how many ticks of the grid to go to the next one.

    Parameters
    ----------
    stride
        While the host is calm.
    """

    def __init__(self, stride: int = CALM_STRIDE) -> None:
        self.calm_stride = stride
        self.signals = [Signal(metrics, floor) for metrics, floor in SIGNALS.values()]
        self.moved_ns = 0
        self.last_ns = 0
        self.asked_ns = 0
        self.stride = 1

    def hold(self, seconds: float) -> None:
        """Stay dense for so long from the last look on, whatever the host does; may come from any thread."""
        self.asked_ns = self.last_ns + round(seconds * 1e9)

    def due(self, now_ns: int) -> bool:
        """Return whether it is time for a look, at a time since boot.

        The signals are looked at every 600 ms also while sampling is dense: over a shorter time a rate is
        more ragged, and dense sampling would seem to be a move by itself.
        """
        return not self.last_ns or now_ns - self.last_ns >= (self.calm_stride - 0.5) * DENSE_MS * 1e6

    def look(self, columns: Sequence[Columns], now_ns: int) -> None:
        """Look at what was just sampled, at a time since boot."""
        seconds = (now_ns - self.last_ns) / 1e9 if self.last_ns else 0.0
        self.last_ns = now_ns
        totals = [self._total(signal, columns) for signal in self.signals]
        moved = [signal.moves(total, seconds) for signal, total in zip(self.signals, totals, strict=True)]
        if any(moved) or not self.moved_ns:
            self.moved_ns = now_ns
        lively = now_ns - self.moved_ns < CALM_AFTER_S * 1e9
        self.stride = 1 if lively or now_ns < self.asked_ns else self.calm_stride

    def _total(self, signal: Signal, columns: Sequence[Columns]) -> int:
        """Return a signal's sum; where its counters lie is worked out anew when their number changes."""
        width = sum(len(source.slots) for source in columns)
        if width != signal.width:
            signal.width = width
            signal.places = [
                (source.row, slot)
                for source in columns
                for slot, column in enumerate(source.slots)
                if column is not None and column.channel.metric in signal.metrics
            ]
        return sum(row[slot] for row, slot in signal.places if row[slot] != MISSING)
