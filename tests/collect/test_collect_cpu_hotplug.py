"""CPUs that are taken off line and brought back: only their own samples go, and counters start again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from collect_parts import open_source, values, write

from reveal_core.catalog import load_catalog
from reveal_core.collect.source import Source
from reveal_core.collect.sources.interrupts import InterruptsSource
from reveal_core.collect.sources.schedstat import SchedstatSource
from reveal_core.collect.sources.softirqs import SoftirqsSource
from reveal_core.collect.sources.softnet import SoftnetSource
from reveal_core.collect.sources.stat import StatSource
from reveal_core.features.rates import LOST, counter_rate

ALL = (0, 1, 2, 3)


def stat(cpus: tuple[int, ...], at: dict[int, int]) -> str:
    """Return /proc/stat; ``at`` gives the count that each CPU has come to."""
    lines = [f"cpu{cpu} {at[cpu]} 0 {at[cpu]} {at[cpu]} 0 0 0 0 0 0" for cpu in cpus]
    total = sum(at[cpu] for cpu in cpus)
    tail = "ctxt 9\nbtime 1\nprocesses 7\nprocs_running 1\nprocs_blocked 0\nsoftirq 1 2 3\n"
    return "\n".join([f"cpu  {total} 0 {total} {total} 0 0 0 0 0 0", *lines, "intr 5 1 2", tail])


def schedstat(cpus: tuple[int, ...], at: dict[int, int]) -> str:
    lines = [f"cpu{cpu} 0 0 0 0 0 0 {at[cpu]} {at[cpu]} {at[cpu]}\ndomain0 3 1 2 3" for cpu in cpus]
    return "\n".join(["version 15", "timestamp 1", *lines, ""])


def table(cpus: tuple[int, ...], rows: tuple[str, ...], at: dict[int, int], end: str) -> str:
    head = "".join(f"{f'CPU{cpu}':>11}" for cpu in cpus)
    lines = [f"{row:>12}:" + "".join(f"{at[cpu]:>11}" for cpu in cpus) + end for row in rows]
    return "\n".join([" " * 12 + head, *lines, ""])


def softirqs(cpus: tuple[int, ...], at: dict[int, int]) -> str:
    return table(cpus, ("HI", "TIMER", "NET_RX"), at, "")


def interrupts(cpus: tuple[int, ...], at: dict[int, int]) -> str:
    device = table(cpus, ("24",), at, "  PCI-MSI 1-edge  eth0-rx-0")
    return device + table(cpus, ("LOC",), at, "  Local timer interrupts").split("\n", 1)[1]


def softnet(cpus: tuple[int, ...], at: dict[int, int]) -> str:
    return "".join(f"{at[cpu]:08x} " + "00000000 " * 11 + f"{cpu:08x}\n" for cpu in cpus)


CASES: list[tuple[type[Source], str, Callable[[tuple[int, ...], dict[int, int]], str], str]] = [
    (StatSource, "proc/stat", stat, "cpu.user"),
    (SchedstatSource, "proc/schedstat", schedstat, "sched.run_time"),
    (SoftirqsSource, "proc/softirqs", softirqs, "softirq.NET_RX"),
    (InterruptsSource, "proc/interrupts", interrupts, "irq.device/eth0-rx-0:"),
    (InterruptsSource, "proc/interrupts", interrupts, "irq.LOC"),
    (InterruptsSource, "proc/interrupts", interrupts, "irq.total"),
    (SoftnetSource, "proc/net/softnet_stat", softnet, "softnet.processed"),
]
LINES = {"irq.total": 2}
"""Lines that a channel sums up."""


def name(metric: str, cpu: int) -> str:
    return f"{metric}cpu{cpu}" if metric.endswith(":") else f"{metric}/cpu{cpu}"


@pytest.mark.parametrize(("kind", "file", "text", "metric"), CASES)
@pytest.mark.parametrize("restarts_at", [0, 3, 5000])
def test_a_cpu_off_and_on_costs_its_own_samples_only(
    tmp_path: Path,
    kind: type[Source],
    file: str,
    text: Callable[[tuple[int, ...], dict[int, int]], str],
    metric: str,
    restarts_at: int,
) -> None:
    at = {cpu: 1000 * (cpu + 1) for cpu in ALL}
    write(tmp_path, file, text(ALL, at))
    source = open_source(kind, tmp_path)
    channels = {channel.name for channel in source.columns.channels}
    slots = len(source.columns.row)
    history: dict[int, list[int | None]] = {cpu: [] for cpu in ALL}

    def tick(cpus: tuple[int, ...]) -> None:
        for cpu in cpus:
            at[cpu] += 10
        write(tmp_path, file, text(cpus, at))
        source.read()
        found = values(source)
        for cpu in ALL:
            history[cpu].append(found.get(name(metric, cpu)))
        gone = [channel for channel in channels - found.keys() if not channel.endswith("cpu2")]
        assert not gone

    for _ in range(3):
        tick(ALL)
    for _ in range(3):
        tick((0, 1, 3))
    at[2] = restarts_at
    for _ in range(3):
        tick(ALL)
    assert {channel.name for channel in source.columns.channels} == channels
    assert len(source.columns.row) == slots  # the slots are the old ones
    assert not source.columns.errors
    source.close()
    assert history[2][3:6] == [None] * 3
    entry = load_catalog()[metric.partition("/")[0]]
    step = 10.0 * LINES.get(metric, 1)
    for cpu in ALL:
        counts = np.array([LOST if value is None else value for value in history[cpu]], dtype=np.int64)
        per_second = counter_rate(counts, np.arange(9.0), entry) / entry.rate_scale
        rates = [None if np.isnan(rate) else rate for rate in per_second]
        if cpu != 2:
            assert rates == [None] + [step] * 8, (cpu, history[cpu])
        else:
            expected = rates[6]
            assert expected is None or 0 <= expected <= 10000
            assert rates[:6] == [None, step, step, None, None, None]
            assert rates[7:] == [step, step]


def test_a_cpu_that_was_off_line_at_the_start_gets_channels_when_it_comes(tmp_path: Path) -> None:
    at = dict.fromkeys(ALL, 100)
    for kind, file, text, metric in CASES:
        write(tmp_path, file, text((0, 1, 3), at))
        source = open_source(kind, tmp_path)
        assert name(metric, 2) not in values(source)
        write(tmp_path, file, text(ALL, at))
        source.read()
        assert values(source)[name(metric, 2)] == 100 * LINES.get(metric, 1), kind.name
        source.close()
