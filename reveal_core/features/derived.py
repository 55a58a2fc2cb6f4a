"""Derived metrics: each written once, as a Polars expression beside its unit and source.

A derived metric is computed per instance from metrics that share the instance; it exists where all its inputs
do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from reveal_core.channels import Channel, channel_name
from reveal_core.telemetry import Series

BUSIEST_CORE = "irq.busiest_core_share"


@dataclass(frozen=True)
class Derived:
    """A metric computed from others on the same instance.

    ``formula`` takes the inputs' expressions in order. ``source`` says where the formula comes from.
    """

    name: str
    subsystem: str
    unit: str
    inputs: tuple[str, ...]
    formula: Callable[..., pl.Expr]
    description: str
    source: str


def share(part: pl.Expr, whole: pl.Expr, least: float = 0.0) -> pl.Expr:
    """Return ``part`` in percent of ``whole``; 0 where the whole is at most ``least``: idleness is no gap."""
    return pl.when(whole > least).then(100.0 * part / whole).otherwise(0.0 * whole).clip(0.0, 100.0)


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return ``part`` over ``whole``; missing where the whole is 0: of nothing there is no ratio."""
    return pl.when(whole > 0).then(part / whole).otherwise(None)


def percent(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return ``part`` in percent of ``whole``, at most 100; missing where the whole is 0."""
    return (100.0 * ratio(part, whole)).clip(0.0, 100.0)


def per_operation(time: pl.Expr, operations: pl.Expr) -> pl.Expr:
    """Return mean time per operation; 0 where nothing was done."""
    return pl.when(operations > 0).then(time / operations).otherwise(0.0 * operations)


DERIVED: tuple[Derived, ...] = (
    Derived(
        "cpu.busy",
        "cpu",
        "%",
        ("cpu.idle", "cpu.iowait"),
        lambda idle, iowait: (100.0 - idle - iowait).clip(0.0, 100.0),
        "time a core was not idle and did not wait for I/O",
        "proc(5), /proc/stat",
    ),
    Derived(
        "tcp.retransmit_share",
        "network",
        "%",
        ("tcp.RetransSegs", "tcp.OutSegs"),
        # RetransSegs are not part of OutSegs (RFC 4022), so the whole is their sum; at least ten segments a
        # second, so that one repeated packet on an idle link does not read as 100 %.
        lambda again, out: share(again, again + out, least=10.0),
        "segments sent again, of all segments sent",
        "RFC 4022",
    ),
    Derived(
        "disk.await",
        "storage",
        "ms",
        ("disk.read_ms", "disk.write_ms", "disk.reads", "disk.writes"),
        lambda read_ms, write_ms, reads, writes: per_operation(read_ms + write_ms, reads + writes),
        "mean time per completed request, queueing included",
        "iostat(1), await",
    ),
    Derived(
        "disk.utilisation",
        "storage",
        "%",
        ("disk.io_ms",),
        lambda io_ms: (io_ms / 10.0).clip(0.0, 100.0),
        "time in which the disk had requests in flight",
        "iostat(1), %util",
    ),
    Derived(
        "disk.flush_await",
        "storage",
        "ms",
        ("disk.flush_ms", "disk.flushes"),
        per_operation,
        "mean time per cache flush",
        "Documentation/admin-guide/iostats.rst",
    ),
    Derived(
        "numa.remote_share",
        "memory",
        "%",
        ("numa.other_node", "numa.local_node"),
        lambda other, local: share(other, other + local, least=100.0),
        "page allocations served to processes of another node",
        "Documentation/admin-guide/numastat.rst",
    ),
    Derived(
        "cgroup.throttled_share",
        "cpu",
        "%",
        ("cgroup.nr_throttled", "cgroup.nr_periods"),
        share,
        "quota periods in which the group was held back",
        "Documentation/scheduler/sched-bwc.rst",
    ),
    Derived(
        "memory.writeback_pressure",
        "storage",
        "%",
        ("meminfo.Dirty", "meminfo.Writeback", "meminfo.MemAvailable"),
        lambda dirty, writeback, available: share(dirty + writeback, available),
        "dirty pages and pages under writeback, of the memory available",
        "Documentation/admin-guide/sysctl/vm.rst, dirty_ratio",
    ),
    Derived(
        "perf.ipc",
        "cpu",
        "instructions/cycle",
        ("perf.instructions", "perf.cycles"),
        ratio,
        "instructions retired per cycle",
        "perf-stat(1), insn per cycle",
    ),
    Derived(
        "perf.branch_miss_rate",
        "cpu",
        "%",
        ("perf.branch_misses", "perf.branches"),
        percent,
        "branches that were predicted wrongly",
        "perf-stat(1), branch-misses of all branches",
    ),
    Derived(
        "perf.cache_miss_rate",
        "memory",
        "%",
        ("perf.cache_misses", "perf.cache_references"),
        percent,
        "cache accesses that missed, at the level that the kernel counts",
        "perf-stat(1), cache-misses of all cache refs",
    ),
    Derived(
        "perf.l3_stall_share",
        "memory",
        "%",
        ("perf.stalls_l3_miss", "perf.cycles"),
        percent,
        "cycles in which nothing ran while a load that missed L3 was under way (Intel)",
        "Intel 64 and IA-32 Optimization Reference Manual, B.1, memory bound",
    ),
    Derived(
        "perf.load_stall_share",
        "memory",
        "%",
        ("perf.load_not_complete", "perf.cycles"),
        percent,
        "cycles without retirement while the oldest operation waited for loaded data (AMD)",
        "tools/perf/pmu-events/arch/x86/amdzen4, backend_bound_memory",
    ),
    Derived(
        "perf.memory_stall_share",
        "memory",
        "%",
        ("perf.stall_backend_mem", "perf.cycles"),
        percent,
        "cycles in which nothing was issued because memory was waited for (ARM)",
        "Arm Neoverse N2 core telemetry specification, topdown backend memory bound",
    ),
    Derived(
        "perf.remote_memory_share",
        "memory",
        "%",
        ("perf.remote_memory", "perf.local_memory"),
        lambda remote, local: percent(remote, remote + local),
        "loads from memory of another node, of all that came from memory",
        "tools/perf/pmu-events/arch/x86/skylakex, mem_load_l3_miss_retired",
    ),
)


def busiest_core_share(series: Series) -> tuple[Channel, pl.Expr] | None:
    """Return the share of all device interrupts that the busiest core takes, in percent; None with one core.

    The publication's third case: interrupts on few cores. Timers and calls between cores do not count, and
    where hardly any device interrupts (below 20 a second) an even share is given, so that idleness is no
    imbalance.
    """
    cores: dict[str, list[str]] = {}
    for channel in series.channels.values():
        if channel.metric == "irq.device":
            cores.setdefault(channel.instance.rpartition(":")[2], []).append(channel.name)
    if len(cores) < 2:
        return None
    first = series.channels[next(iter(cores.values()))[0]]
    channel = replace(
        first, name=BUSIEST_CORE, metric=BUSIEST_CORE, instance="", kind="gauge", unit="%", source="derived"
    )
    sums = [pl.sum_horizontal(names) for names in cores.values()]
    total = pl.sum_horizontal(sums)
    share_of_busiest = 100.0 * pl.max_horizontal(sums) / total
    even = 100.0 / len(cores)
    known = pl.any_horizontal(pl.col(name).is_not_null() for names in cores.values() for name in names)
    value = pl.when(total > 20.0).then(share_of_busiest).otherwise(even)
    return channel, pl.when(known).then(value).alias(BUSIEST_CORE)


def add_derived(series: Series) -> Series:
    """Return the series with every derived metric whose inputs it has, on each instance."""
    instances: dict[str, list[Channel]] = {}
    for channel in series.channels.values():
        instances.setdefault(channel.metric, []).append(channel)
    channels = dict(series.channels)
    expressions: list[pl.Expr] = []
    for derived in DERIVED:
        for first in instances.get(derived.inputs[0], []):
            inputs = [channel_name(metric, first.instance) for metric in derived.inputs]
            if not all(name in series.channels for name in inputs):
                continue
            name = channel_name(derived.name, first.instance)
            channels[name] = replace(
                first,
                name=name,
                metric=derived.name,
                subsystem=derived.subsystem,
                kind="gauge",
                unit=derived.unit,
                source="derived",
            )
            expressions.append(derived.formula(*(pl.col(i) for i in inputs)).alias(name))
    busiest = busiest_core_share(series)
    if busiest is not None:
        channels[BUSIEST_CORE] = busiest[0]
        expressions.append(busiest[1])
    return Series(series.host, series.frame.with_columns(expressions), channels, series.facts)
