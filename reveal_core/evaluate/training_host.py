"""A made-up host that trains: GPUs, two NUMA nodes, InfiniBand, hardware counters; faults at known times.

Its signals move as the publication says theirs did, so it shows whether a case is named by its signature. How
large a real fault is, and what else moves with it, it cannot show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
from numpy.typing import NDArray

from reveal_core.catalog import load_catalog
from reveal_core.telemetry import Telemetry

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
PERIOD_S = 0.1
CORES = tuple(f"cpu{n}" for n in range(8))
GPUS = tuple(f"GPU-{n}" for n in range(4))
NODES = ("node0", "node1")
_SOURCES = {"gpu": "gpu", "ib": "infiniband", "numa": "numa", "perf": "perf", "link": "link"}
GIB = float(1 << 30)

Array = NDArray[np.float64]
Change = Callable[[Array, Array], Array]
"""What a fault does to a channel: from its values and the seconds since the fault's onset, while it is on."""


def times(factor: float) -> Change:
    """Return the change to so many times as much."""
    return lambda values, _since: values * factor


def plus(amount: float) -> Change:
    """Return the change to so much more."""
    return lambda values, _since: values + amount


def set_to(amount: float) -> Change:
    """Return the change to one value."""
    return lambda values, _since: np.full_like(values, amount)


def later(seconds: float, change: Change) -> Change:
    """Return the same change some time after the onset."""
    return lambda values, since: np.where(since >= seconds, change(values, since), values)


def bursts(period_s: float) -> Change:
    """Return the change to as much as before, all of it in the first fifth of each period."""
    return lambda values, since: np.where(since % period_s < 0.2 * period_s, 5.0 * values, 0.0)


def of(metric: str, instances: Sequence[str], change: Change) -> dict[str, Change]:
    """Return a change of a metric on some instances, by channel."""
    return {f"{metric}/{instance}": change for instance in instances}


def _work(t: Array, evaluates: bool) -> tuple[Array, Array]:
    """Return how much is computed and exchanged, around 1: steps of 2 s, and evaluation without exchange."""
    evaluating = (t % 30.0 > 24.0) & evaluates
    compute = np.where(evaluating, 0.85, 1.0 + 0.1 * np.sin(np.pi * t))
    exchange = np.where(evaluating, 0.05, 1.0 + 0.2 * np.cos(np.pi * t))
    return compute, exchange


def levels(t: Array, evaluates: bool = True) -> dict[str, Array]:
    """Return what is healthy: rates per second of counters in their stored unit, levels of gauges."""
    compute, exchange = _work(t, evaluates)
    flat = np.ones_like(t)
    found: dict[str, Array] = {}
    for number, core in enumerate(CORES):
        busy = compute * (42.0 + number)
        found[f"cpu.user/{core}"] = busy
        found[f"cpu.system/{core}"] = 4.0 * exchange
        found[f"cpu.idle/{core}"] = 100.0 - busy - 8.0 * flat
        found[f"cpu.iowait/{core}"] = 1.0 * flat
        found[f"cpu.softirq/{core}"] = 1.5 * exchange
        found[f"irq.device/mlx5_0:{core}"] = 600.0 * exchange
        found[f"irq.total/{core}"] = 2000.0 + 900.0 * exchange
        found[f"softirq.NET_RX/{core}"] = 900.0 * exchange
        found[f"sched.run_delay/{core}"] = 2e7 * compute
    for gpu in GPUS:
        found[f"gpu.utilization/{gpu}"] = 95.0 * np.minimum(compute, 1.0)
        found[f"gpu.memory_utilization/{gpu}"] = 60.0 * compute
        found[f"gpu.power/{gpu}"] = 100.0 + 260.0 * compute
        found[f"gpu.clock_sm/{gpu}"] = 1700.0 * flat
        found[f"gpu.memory_used/{gpu}"] = 60.0 * GIB * flat
        found[f"gpu.xid_errors/{gpu}"] = 0.0 * flat
        found[f"gpu.pcie_rx_bytes/{gpu}"] = 4e9 * compute
    for node in NODES:
        found[f"numa.local_node/{node}"] = 40_000.0 * compute
        found[f"numa.other_node/{node}"] = 40.0 * compute
        found[f"numa.numa_miss/{node}"] = 0.0 * flat
        found[f"numa.HugePages_Total/{node}"] = 0.0 * flat
        found[f"numa.HugePages_Free/{node}"] = 0.0 * flat
        found[f"numa.MemFree/{node}"] = 90.0 * GIB + 0.01 * GIB * compute
        found[f"perf.instructions/{node}"] = 8e10 * compute
        found[f"perf.cycles/{node}"] = 6e10 * compute
        found[f"perf.stalls_l3_miss/{node}"] = 6e9 * compute
        found[f"perf.remote_memory/{node}"] = 2e6 * compute
        found[f"perf.local_memory/{node}"] = 2e8 * compute
    found["ib.port_xmit_data/mlx5_0:1"] = 3e8 * exchange
    found["ib.port_rcv_data/mlx5_0:1"] = 3e8 * exchange
    found["ib.symbol_error/mlx5_0:1"] = 0.0 * flat
    found["tcp.OutSegs/host"] = 20_000.0 * exchange
    found["tcp.InSegs/host"] = 20_000.0 * exchange
    # the job's own retransmissions, at each step: what it loses by itself is no fault
    found["tcp.RetransSegs/host"] = np.where(t % 2.0 < 0.3, 60.0, 5.0)
    for metric in ("TCPLostRetransmit", "TCPTimeouts", "TCPSackRecovery", "TCPOFOQueue"):
        found[f"tcpext.{metric}/host"] = 0.0 * flat
    found["net.tx_bytes/eth0"] = 3e7 * exchange
    found["net.rx_bytes/eth0"] = 3e7 * exchange
    found["disk.reads/nvme0n1"] = 900.0 * compute
    found["disk.read_sectors/nvme0n1"] = 400_000.0 * compute
    found["disk.write_sectors/nvme0n1"] = np.where(t % 20.0 < 2.0, 600_000.0, 2_000.0)
    found["stat.ctxt"] = 20_000.0 * exchange
    found["stat.processes"] = 3.0 * flat
    found["psi.cpu_some"] = 2e4 * compute
    found["psi.io_some"] = 1e4 * compute
    found["vmstat.pgfault"] = 9_000.0 * compute
    found["meminfo.MemFree"] = 180.0 * GIB + 0.02 * GIB * compute
    found["meminfo.Hugetlb"] = 0.0 * flat
    return found


def training_host(
    seconds: float,
    seed: int = 0,
    fault: Mapping[str, Change] | None = None,
    span: tuple[float, float] = (0.0, 0.0),
    evaluates: bool = True,
) -> Telemetry:
    """Return telemetry of the host.

    Parameters
    ----------
    seconds
        How long; it begins at `START`.
    seed
        Of its noise.
    fault
        What changes, by channel.
    span
        From when to when the fault is on, in seconds.
    evaluates
        Whether the job evaluates its model now and then, which looks different from training.

    Raises
    ------
    ValueError
        If the host has no such channel.
    """
    rng = np.random.default_rng(seed)
    t: Array = np.arange(round(seconds / PERIOD_S), dtype=np.float64) * PERIOD_S
    on = (t >= span[0]) & (t < span[1])
    catalog = load_catalog()
    columns = [
        pl.Series("ts", [START + timedelta(seconds=x) for x in t], dtype=pl.Datetime("ns", "UTC")),
        pl.Series("mono", (t * 1e9).astype(np.int64)),
    ]
    channels = {}
    changes = dict(fault or {})
    for name, values in levels(t, evaluates).items():
        metric, _, instance = name.partition("/")
        change = changes.pop(name, None)
        if change is not None:
            values = np.where(on, change(values, t - span[0]), values)
        family = metric.partition(".")[0]
        channels[name] = catalog[metric].channel(instance, _SOURCES.get(family, "other"), 100)
        noisy = values * (1.0 + 0.02 * rng.standard_normal(t.size))
        if catalog[metric].kind == "counter":
            columns.append(pl.Series(name, np.cumsum(noisy * PERIOD_S).astype(np.int64) + 1000))
        else:
            columns.append(pl.Series(name, noisy, dtype=pl.Float32))
    if changes:
        raise ValueError(f"the host has no {sorted(changes)}")
    return Telemetry("trainer", pl.DataFrame(columns), channels)
