"""How faults show in the kernel's own figures, and which of its settings must be as before afterwards."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from lab_parts import protocol_counter, vmstat

from reveal_core.lab.cgroups import find_cgroup
from reveal_core.lab.faults.storage import block_device
from reveal_core.lab.namespaces import in_namespace
from reveal_core.lab.netlink import add_drop_rule, add_rate_limit, delete_rate_limit, delete_table
from reveal_core.lab.state import WorkloadState

CONNTRACK = Path("/proc/sys/net/netfilter")
Read = Callable[[WorkloadState], float]
ANYWHERE = ("cpu-contention", "page-fault-storm", "memory-bandwidth-contention", "writeback-storm")
"""Faults that need neither root nor a workload."""


def stat(field: str) -> int:
    """Return a counter of ``/proc/stat``."""
    lines = Path("/proc/stat").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field} ")).split()[1])


def softirqs(name: str) -> int:
    """Return a counter of ``/proc/softirqs``, of all cores."""
    lines = Path("/proc/softirqs").read_text().splitlines()
    words = next(line for line in lines if line.strip().startswith(f"{name}:")).split()
    return sum(map(int, words[1:]))


def disk(state: WorkloadState, field: int) -> int:
    """Return a field of ``/proc/diskstats`` of the disk that the workload's files are on."""
    device = block_device(state.files)
    for line in Path("/proc/diskstats").read_text().splitlines():
        words = line.split()
        if f"{words[0]}:{words[1]}" == device:
            return int(words[field])
    raise KeyError(device)


def stopped(state: WorkloadState) -> float:
    """Return 1 if the second rank is stopped."""
    text = Path(f"/proc/{state.ranks[1].pid}/stat").read_text()
    return float(text.rpartition(")")[2].split()[0] == "T")


def affinities(state: WorkloadState) -> list[tuple[int, ...]]:
    """Return the cores that each rank may run on."""
    return [tuple(sorted(os.sched_getaffinity(rank.pid))) for rank in state.ranks]


def standing_still(state: WorkloadState) -> float:
    """Return 1 if no step ends within a time that is long for a step."""
    before = state.steps()
    time.sleep(0.6)
    return float(state.steps() == before)


def memory(state: WorkloadState, version1: str, version2: str) -> int:
    """Return a figure of the neighbour's memory."""
    return int(find_cgroup(state.neighbour).file("memory", version1, version2).read_text())


def neighbour_failures(state: WorkloadState) -> int:
    """Return how often the neighbour met its memory limit."""
    group = find_cgroup(state.neighbour)
    if group.version == 1:
        return memory(state, "memory.failcnt", "")
    text = (group.folders["memory"] / "memory.events").read_text()
    return int(dict(line.split() for line in text.splitlines())["max"])


def read_limits(state: WorkloadState) -> str:
    """Return the limits on the job's reads."""
    return find_cgroup(state.job).file("blkio", "blkio.throttle.read_bps_device", "io.max").read_text()


def conntrack(*names: str) -> int:
    """Return the sum of counters of ``/proc/net/stat/nf_conntrack``, of all cores."""
    head, *rows = Path("/proc/net/stat/nf_conntrack").read_text().splitlines()
    places = [head.split().index(name) for name in names]
    return sum(int(row.split()[place], 16) for row in rows for place in places)


def inside(protocol: str, field: str) -> Read:
    """Return what reads a counter of the second rank's network namespace."""
    return lambda state: protocol_counter(state.ranks[1].pid, protocol, field)


EFFECTS: dict[str, tuple[Read, float]] = {
    "straggler-process": (stopped, 0.5),
    "ranks-on-one-core": (lambda state: float(max(map(len, affinities(state))) == 1), 0.5),
    "process-storm": (lambda _: stat("processes"), 200),
    "switch-storm": (lambda _: stat("ctxt"), 20_000),
    "neighbour-reclaim": (neighbour_failures, 200),
    "memory-leak": (lambda state: memory(state, "memory.usage_in_bytes", "memory.current"), 16 << 20),
    "memory-compaction": (lambda _: vmstat("compact_free_scanned"), 1000),
    "bandwidth-cap": (lambda _: softirqs("NET_TX"), 50),
    "link-flap": (
        lambda state: int(Path("/sys/class/net", state.links[0], "carrier_changes").read_text()),
        1,
    ),
    "packet-storm": (inside("Udp", "InDatagrams"), 5000),
    "socket-exhaustion": (inside("Tcp", "CurrEstab"), 500),
    "listen-overflow": (inside("TcpExt", "ListenOverflows"), 20),
    "conntrack-overflow": (lambda _: conntrack("drop", "early_drop"), 20),
    "disk-saturation": (lambda state: disk(state, 3), 500),
    "slow-reads": (lambda state: float(block_device(state.files) in read_limits(state)), 0.5),
    "data-loader-stall": (standing_still, 0.5),
    "sync-writes": (lambda state: disk(state, 18), 40),
}
"""For each fault: a figure of the kernel's, and by how much more it must rise."""


def kernel_settings(state: WorkloadState) -> dict[str, object]:
    """Return what faults change and must leave as it was."""
    found: dict[str, object] = {"stopped": stopped(state), "read limits": read_limits(state)}
    found["affinities"] = affinities(state)
    for name in (state.job, state.neighbour):
        group = find_cgroup(name)
        found[f"{name} memory"] = group.file("memory", "memory.limit_in_bytes", "memory.max").read_text()
        found[f"{name} share"] = group.file("cpu", "cpu.shares", "cpu.weight").read_text()
        members = group.file("cpu", "cgroup.procs", "cgroup.procs").read_text().split()
        found[f"{name} members"] = sorted(members)
    for name in ("nf_conntrack_max", "nf_conntrack_count"):
        found[name] = (CONNTRACK / name).read_text() if (CONNTRACK / name).exists() else ""
    found["carrier"] = Path("/sys/class/net", state.links[0], "carrier").read_text()
    for namespace, link in zip(("", state.namespace), state.links, strict=True):
        found[f"limit of {link}"] = in_namespace(namespace, lambda link=link: _has(_limit, link))
    for table in ("untracked", "tracking"):
        found[table] = _has(_table, f"{state.namespace}-{table}")
    return found


def _has(make: Callable[[str], None], name: str) -> bool:
    """Return whether something is there, by trying to make it anew."""
    try:
        make(name)
    except FileExistsError:
        return True
    return False


def _limit(link: str) -> None:
    add_rate_limit(link, 1 << 30, 1 << 20, 1 << 20)
    delete_rate_limit(link)


def _table(table: str) -> None:
    add_drop_rule(table, "nowhere", 0.0)
    delete_table(table)
