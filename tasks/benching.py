"""What the collector costs on this machine, beside what others cost in the same run."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from reveal_core.collect.agent import open_sources
from reveal_core.collect.loop import Tick
from reveal_core.errors import UnavailableError
from reveal_core.lab.peers import PeerCost, netdata_cost, node_exporter_cost
from reveal_core.lab.wide_host import WideHost
from reveal_core.lab.workload import Workload
from tasks.collecting import collect_apart

PACES = ("100ms", "600ms", "adaptive")
SEGMENT = "60s"


def bench_collector(
    seconds: float, *, workload: bool, peers: bool, folder: str, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Measure the collector at each pace, and its peers, one after another.

    Parameters
    ----------
    seconds
        How long each is watched.
    workload
        Whether the lab's workload runs meanwhile; it takes half a minute to come to rest.
    peers
        Whether the peers are measured too.
    folder
        For what is written; emptied after.

    Returns
    -------
    dict
        ``machine``, ``workload``, ``collector`` by pace, ``wide_host``, ``node_exporter``, ``netdata`` and
        the ratios of their CPU time per sample to ours at 100 ms. CPU time is the system's, of the process
        and its children. What it takes to start stands apart, ours in ``start_cpu_ms`` (without the import of
        modules), and is not in the figures: a collector runs for months.
    """
    found: dict[str, Any] = {
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30),
            "kernel": platform.release(),
        },
        "workload": workload,
        "seconds": seconds,
        "collector": {},
        "notes": [],
    }
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=folder)))
        if workload:
            say("Starting the workload")
            stack.enter_context(Workload(scratch))
        for pace in PACES:
            say(f"Collecting at {pace}")
            found["collector"][pace] = _collector_cost(scratch / pace, pace, seconds)
        say("Sampling a host of 512 CPUs")
        found["wide_host"] = wide_host_cost()
        if peers:
            measures: dict[str, Callable[[], PeerCost]] = {
                "node_exporter": lambda: node_exporter_cost(seconds, 0.1),
                "netdata": lambda: netdata_cost(seconds, scratch / "netdata"),
            }
            for name, measure in measures.items():
                say(f"Running {name}")
                try:
                    found[name] = _peer(measure())
                except UnavailableError as error:
                    found["notes"].append(f"{name} was not measured: {error}")
                    continue
                ours = found["collector"]["100ms"]["cpu_us_per_sample"]
                found[f"{name}_cpu_per_sample_ratio"] = round(found[name]["cpu_us_per_sample"] / ours, 2)
    return found


def _collector_cost(store: Path, pace: str, seconds: float) -> dict[str, Any]:
    result = collect_apart(str(store), host=None, interval=pace, duration=f"{seconds:g}s", segment=SEGMENT)
    samples = 0
    for key in result["segments"]:
        table = pq.read_table(store / key)
        for name in table.column_names[2:]:
            if not name.startswith("reveal."):  # what the collector says of itself is not what it is for
                samples += len(table) - table[name].null_count
    cpu_s = result["cpu_seconds"] - result["start_cpu_seconds"]
    return {
        "channels": result["channels"],
        "samples": samples,
        "start_cpu_ms": round(1000 * result["start_cpu_seconds"]),
        "cpu_percent_of_a_core": round(100 * cpu_s / seconds, 3),
        "cpu_us_per_sample": round(1e6 * cpu_s / samples, 3),
        "bytes_per_sample": round(result["bytes"] / samples, 3),
        "bytes_per_second": round(result["bytes"] / seconds),
        "resident_mib": round(result["rss_bytes"] / 2**20, 1),
        "ticks": result["ticks"],
        "late_ticks": result["late_ticks"],
        "lost_ticks": result["lost_ticks"],
    }


def wide_host_cost(ticks: int = 60, cpus: int = 512, interrupt_lines: int = 2000) -> dict[str, Any]:
    """Return what a tick costs on a very wide host, read from a tree whose files all move between ticks.

    Returns
    -------
    dict
        ``channels``; ``tick_cpu_ms_median`` and ``tick_cpu_ms_max``, of the sampling thread;
        ``tick_wall_ms_max``, which at an interval of 100 ms makes no tick late if it is below 100.
    """
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="wide-", dir=memory if os.access(memory, os.W_OK) else None
    ) as folder:
        host = WideHost(Path(folder), cpus, interrupt_lines)
        frames = [host.frame() for _ in range(4)]
        with closing(open_sources(Path(folder))) as collector:
            cpu, wall = [], []
            start = time.monotonic()
            for number in range(ticks):
                host.show(frames[number % len(frames)])
                time.sleep(max(0.0, start + 0.1 * number - time.monotonic()))
                before, begun = time.thread_time(), time.monotonic()
                collector.sample(Tick(number, time.time_ns(), time.monotonic_ns(), False, 0))
                cpu.append(1000 * (time.thread_time() - before))
                wall.append(1000 * (time.monotonic() - begun))
            channels = len(collector.channels)
    return {
        "cpus": cpus,
        "interrupt_lines": interrupt_lines,
        "channels": channels,
        "tick_cpu_ms_median": round(statistics.median(cpu), 1),
        "tick_cpu_ms_max": round(max(cpu), 1),
        "tick_wall_ms_max": round(max(wall), 1),
    }


def _peer(cost: PeerCost) -> dict[str, Any]:
    return {
        "metrics": cost.metrics,
        "cpu_percent_of_a_core": round(100 * cost.cpu_s / cost.seconds, 3),
        "cpu_us_per_sample": round(1e6 * cost.cpu_s / cost.samples, 3),
        "resident_mib": round(cost.resident_bytes / 2**20, 1),
    }
