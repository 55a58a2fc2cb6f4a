"""Names of metrics as they stand in a sentence, and what an instance of a family of metrics is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from reveal_core.catalog import load_catalog
from reveal_core.windows import COVERAGE, HOST_COVERAGE

TITLES: Mapping[str, str] = MappingProxyType(
    {
        # Derived metrics, which the catalogue of what is collected does not hold.
        "cpu.busy": "CPU busy time",
        "irq.busiest_core_share": "Device interrupts on the busiest core",
        "tcp.retransmit_share": "Share of TCP segments sent again",
        "disk.await": "Time per disk request",
        "disk.utilisation": "Disk utilisation",
        "disk.flush_await": "Time per cache flush",
        "numa.remote_share": "Share of remote page allocations",
        "cgroup.throttled_share": "Share of throttled quota periods",
        "memory.writeback_pressure": "Share of memory awaiting writeback",
        # Descriptions that are clauses.
        "psi.cpu_some": "CPU pressure",
        "psi.memory_some": "Memory pressure",
        "psi.memory_full": "Full memory pressure",
        "psi.io_some": "I/O pressure",
        "psi.io_full": "Full I/O pressure",
        "psi.irq_full": "Interrupt pressure",
        "cgroup.psi_cpu_some": "CPU pressure",
        "cgroup.psi_memory_some": "Memory pressure",
        "cgroup.psi_memory_full": "Full memory pressure",
        "cgroup.psi_io_some": "I/O pressure",
        "cgroup.psi_io_full": "Full I/O pressure",
        # Descriptions that would run long, or read oddly before "rose to".
        "cgroup.memory_failcnt": "Memory limit hits",
        "cgroup.nr_throttled": "Throttled quota periods",
        "cgroup.throttled_time": "Throttled time",
        "cgroup.memory_usage": "Memory use",
        "cgroup.pgfault": "Page faults",
        "cgroup.pgmajfault": "Major page faults",
        "vmstat.pgfault": "Page faults",
        "vmstat.pgmajfault": "Major page faults",
        "sched.run_delay": "Run-queue wait",
        "stat.procs_running": "Runnable tasks",
        "stat.procs_blocked": "Tasks blocked on I/O",
        "stat.processes": "Processes and threads created",
        "stat.intr": "Interrupts",
        "irq.total": "Interrupts",
        "irq.device": "Device interrupts",
        "cpu.iowait": "I/O wait",
        "cpu.idle": "Idle time",
        "cpu.steal": "Stolen time",
        "disk.read_ms": "Read time",
        "disk.write_ms": "Write time",
        "disk.io_ms": "Disk busy time",
        "disk.weighted_ms": "Disk queue time",
        "disk.flushes": "Cache flushes",
        "tcp.RetransSegs": "TCP retransmissions",
        "tcpext.TCPLostRetransmit": "TCP retransmissions lost again",
        "tcpext.TCPFastRetrans": "TCP fast retransmissions",
        "tcpext.TCPSlowStartRetrans": "TCP slow-start retransmissions",
        "tcpext.TCPTimeouts": "TCP retransmission time-outs",
        "meminfo.Hugetlb": "Memory set aside for huge pages",
    }
)

NOUNS: Mapping[str, str] = MappingProxyType(
    {
        "cpu": "core",
        "sched": "core",
        "softirq": "core",
        "softnet": "core",
        "cstate": "core",
        "throttle": "core",
        "gpu": "GPU",
        "numa": "node",
        "hugepages": "node",
        "edac": "memory module",
        "net": "interface",
        "nic": "interface",
        "link": "interface",
        "qdisc": "interface",
        "ib": "port",
        "tcp": "namespace",
        "tcpext": "namespace",
        "udp": "namespace",
        "ip": "namespace",
        "ipext": "namespace",
        "icmp": "namespace",
        "sockstat": "namespace",
        "disk": "disk",
        "nvme": "disk",
        "scsi": "disk",
        "md": "array",
        "fs": "file system",
        "nfs": "mount",
        "lustre": "target",
        "cgroup": "control group",
        "hwmon": "sensor",
        "thermal": "sensor",
    }
)
"""What an instance of a family of metrics is."""

_CHANGE = ".change"
"""Ends the name of a metric that is judged by its change."""


def metric_title(metric: str) -> str:
    """Return what a metric is, in words; its name where neither `TITLES` nor the catalogue knows it."""
    if metric.endswith(_CHANGE):
        return f"Change of {lower_first(metric_title(metric.removesuffix(_CHANGE)))}"
    if metric in TITLES:
        return TITLES[metric]
    if metric == HOST_COVERAGE:
        return "Share of the samples due that the host delivered"
    if metric.startswith(COVERAGE):
        return f"Share of the samples due that source {metric.removeprefix(COVERAGE)} delivered"
    entry = load_catalog().get(metric)
    if entry is None or not entry.description:
        return metric
    text = re.split(r"[;:] | \(", entry.description)[0].rstrip(". ")
    return text[0].upper() + text[1:]


def lower_first(text: str) -> str:
    """Return text that can stand within a sentence; an acronym at its beginning stays as it is."""
    # "CPU quota reached" must not become "cPU quota reached".
    return text if text[1:2].isupper() or text[1:2] == "/" else text[:1].lower() + text[1:]
