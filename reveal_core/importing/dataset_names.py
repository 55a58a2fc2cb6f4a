"""Names of the Reveal telemetry dataset (DOI 10.5281/zenodo.17470313), and what they are in the catalogue.

A column is called ``Family:metric[.instance].host[unit]``: the host has no dot, so the name is read from the
right. One name has no family, those of GPUs have a blank after the colon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reveal_core.collect.sources.meminfo import meminfo_target
from reveal_core.features.rates import CHANGE_SUFFIX
from reveal_core.importing.names import Target, known_metric
from reveal_core.importing.nvidia_names import nvidia_target

_COLUMN = re.compile(r"(?P<body>.*)\.(?P<host>[^.\[\]]+)\[(?P<unit>[^\]]*)\]")
_NUMBERED = ("GPU", "Turbostat")
"""Families whose last part before the host is an instance, a number or ``-`` for the whole machine."""
_NET_FAMILY = "NetworkInterStat_diff"
_CPU = re.compile(r"CPU(\d+)Utilization")
WHOLE = "-"


@dataclass(frozen=True, slots=True)
class DatasetColumn:
    """What a column's name says; ``instance`` and ``family`` may be empty, ``unit`` is as it is written."""

    family: str
    metric: str
    instance: str
    host: str
    unit: str


def parse_column(name: str) -> DatasetColumn | None:
    """Return what a column's name says; None for one that is not of this form.

    >>> parse_column("GPU: power.draw.0.htc-g004[W]")
    DatasetColumn(family='GPU', metric='power.draw', instance='0', host='htc-g004', unit='W')
    >>> parse_column("Storage:time_spent_reading_(ms).htc-g004[ms]").metric
    'time_spent_reading_(ms)'
    """
    found = _COLUMN.fullmatch(name)
    if found is None:
        return None
    family, colon, metric = found["body"].partition(":")
    if not colon:
        family, metric = "", family
    metric, instance = metric.strip(), ""
    if family in _NUMBERED:
        start, dot, last = metric.rpartition(".")
        if dot and (last.isdigit() or last == WHOLE):
            metric, instance = start, last
    elif family == _NET_FAMILY:
        metric, _, instance = metric.partition(".")
    if not metric:
        return None
    return DatasetColumn(family, metric, instance, found["host"], found["unit"])


_PERF = {
    "Branches": "perf.branches",
    "Branch_Misses": "perf.branch_misses",
    "Cache_Misses": "perf.cache_misses",
    "Cache_References": "perf.cache_references",
    "Cycles": "perf.cycles",
    "Instructions": "perf.instructions",
    "Cycle_activity_cycles_l3_miss": "perf.cycles_l3_miss",
    "Cycle_activity_stalls_l3_miss": "perf.stalls_l3_miss",
    "Ls_dispatch_store_dispatch": "perf.ls_dispatch_stores",
    "Ls_dispatch_ld_dispatch": "perf.ls_dispatch_loads",
}
_PERF_SHARES = {
    "IPC": "perf.ipc",
    "BranchUtilization": "perf.branch_miss_rate",
    "CacheUtilization": "perf.cache_miss_rate",
    "StallRatio": "perf.l3_stall_share",
}
_NET = {
    "rx_bytes": "net.rx_bytes",
    "rx_packets": "net.rx_packets",
    "rx_errs": "net.rx_errors",
    "rx_drop": "net.rx_dropped",
    "rx_fifo": "net.rx_fifo_errors",
    "rx_frame": "net.rx_frame_errors",
    "rx_compressed": "net.rx_compressed",
    "rx_multicast": "net.multicast",
    "tx_bytes": "net.tx_bytes",
    "tx_packets": "net.tx_packets",
    "tx_errs": "net.tx_errors",
    "tx_drop": "net.tx_dropped",
    "tx_fifo": "net.tx_fifo_errors",
    "tx_colls": "net.collisions",
    "tx_carrier": "net.tx_carrier_errors",
    "tx_compressed": "net.tx_compressed",
}
_DISK = {
    "reads_completed": "disk.reads",
    "reads_completed_successfully": "disk.reads",
    "reads_merged": "disk.reads_merged",
    "sectors_read": "disk.read_sectors",
    "time_spent_reading": "disk.read_ms",
    "writes_completed": "disk.writes",
    "writes_completed_successfully": "disk.writes",
    "writes_merged": "disk.writes_merged",
    "sectors_written": "disk.write_sectors",
    "time_spent_writing": "disk.write_ms",
    "i_os_currently_in_progress": "disk.in_flight",
    "time_spent_doing_i_os": "disk.io_ms",
    "weighted_time_spent_doing_i_os": "disk.weighted_ms",
    "discards_completed": "disk.discards",
    "discards_completed_successfully": "disk.discards",
    "discards_merged": "disk.discards_merged",
    "sectors_discarded": "disk.discard_sectors",
    "time_spent_discarding": "disk.discard_ms",
    "flush_requests_completed": "disk.flushes",
    "flush_requests_completed_successfully": "disk.flushes",
    "time_spent_flushing": "disk.flush_ms",
}
_RETRANSMITS = {
    "TcpRetransSegs": "tcp.RetransSegs",
    "TcpExtTCPSynRetrans": "tcpext.TCPSynRetrans",
    "TcpExtTCPLostRetransmit": "tcpext.TCPLostRetransmit",
}
_PROTOCOLS = ("TCP", "UDP", "UNIX", "RAW", "DCCP", "SCTP")
_TURBOSTAT_LEVELS = {
    "Avg_MHz": "perf.average_mhz",
    "Busy%": "perf.busy",
    "Bzy_MHz": "perf.busy_mhz",
    **{f"CPU%c{n}": f"perf.core_c{n}" for n in (1, 3, 6, 7)},
    **{f"Pkg%pc{n}": f"perf.package_c{n}" for n in (2, 3, 6, 7, 8, 9)},
    "Pk%pc10": "perf.package_c10",
    "CoreTmp": "thermal.temperature",
    "PkgTmp": "thermal.temperature",
    "PkgWatt": "power.energy",
    "RAMWatt": "power.energy",
}
_TURBOSTAT_COUNTS = {"IRQ": "irq.total", "SMI": "perf.smi"}
_STATES = ("POLL", "C1", "C1E", "C2", "C3", "C6", "C7", "C7s", "C8", "C9", "C10")
_PER_PACKAGE = re.compile(r"P(kg|k%)|RAM|PKG_%|UncMHz")
DISK = "all"
"""Instance of a host's disks, which the dataset does not tell apart."""


def is_package_field(field: str) -> bool:
    """Return whether a field of turbostat is a package's, which stands on one row of each package."""
    return _PER_PACKAGE.match(field) is not None


def turbostat_target(field: str, instance: str) -> tuple[Target | None, str]:
    """Return what a field of turbostat is in the catalogue, None for one that it lacks, and the instance.

    Parameters
    ----------
    field
        Name in turbostat's header.
    instance
        Number of the CPU, or of the package where the field is the package's; `WHOLE` for the whole machine.
    """
    package = is_package_field(field)
    if instance == WHOLE:
        place, part = "", ""
    else:
        place, part = f"socket{instance}" if package else f"cpu{instance}", f"-{instance}"
    if field in _TURBOSTAT_LEVELS:
        named = {
            "CoreTmp": f"core {place}".strip(),
            "PkgTmp": place or "package",
            "PkgWatt": f"package{part}",
            "RAMWatt": f"dram{part}",
        }
        return Target(_TURBOSTAT_LEVELS[field]), named.get(field, place)
    if field in _TURBOSTAT_COUNTS:
        return Target(_TURBOSTAT_COUNTS[field], "interval"), place
    if field in _STATES:
        return Target(f"cstate.{field}_usage", "interval"), place
    if field.endswith("%") and field[:-1] in _STATES:
        return Target(f"cstate.{field[:-1]}"), place
    return None, place


def dataset_target(column: DatasetColumn) -> tuple[Target | None, str]:
    """Return what a column is in the catalogue, None for one that it lacks, and the channel's instance."""
    family, metric = column.family, column.metric
    if family == "Perf":
        if metric in _PERF:
            return Target(_PERF[metric], "interval"), ""
        return (Target(_PERF_SHARES[metric]) if metric in _PERF_SHARES else None), ""
    if family in ("Memory", "Meminfo_diff"):
        name, scale = meminfo_target("meminfo", metric.encode())
        changed = family == "Meminfo_diff"
        if not known_metric(name):
            return None, ""
        return Target(name + CHANGE_SUFFIX if changed else name, "count" if changed else "level", scale), ""
    if family == "Turbostat":
        return turbostat_target(metric, column.instance)
    if family == "CPU":
        cpu = _CPU.fullmatch(metric)
        return (Target("cpu.busy"), f"cpu{cpu[1]}") if cpu else (None, "")
    if family == "GPU":
        return nvidia_target(metric, column.unit), f"gpu{column.instance}"
    if family in ("Storage", "Storage_diff"):
        plain = re.sub(r"[^a-z]+", "_", metric.replace("(ms)", "").lower()).strip("_")
        name = _DISK.get(plain, "")
        form = "level" if name == "disk.in_flight" else "count"
        return (Target(name, form), DISK) if name else (None, DISK)
    if family == _NET_FAMILY:
        return (Target(_NET[metric], "count") if metric in _NET else None), column.instance
    if family == "NetworkProtocolCounts":
        return (Target("sockets.in_use"), metric) if metric in _PROTOCOLS else (None, "")
    if family == "NetworkTCPRetrans_diff":
        return (Target(_RETRANSMITS[metric], "count") if metric in _RETRANSMITS else None), "host"
    return None, column.instance
