"""Files in the form of the Reveal telemetry dataset, at full width, with the traps that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

GPU_WIDTH, CPU_WIDTH = 764, 791
CPUS = 48


def _words(text: str) -> list[str]:
    return text.split()


START = datetime(2025, 4, 26, 13, 38, 18, 600_000)
GPU_FILE = "train_BARTBASEforTableQuestionAnswering_default_2025-04-26T13-38-18_htc-g004.txt"
CPU_FILE = "infer_VGG16forImageClassification_CIFAR10_2025-05-11T12-27-13_nserver07.txt"

_PERF_INTEL = _words(
    "Branches Branch_Misses Cache_Misses Cache_References Cycles Instructions Cycle_activity_cycles_l3_miss "
    "Cycle_activity_stalls_l3_miss Hle_retired_aborted Hle_retired_commit "
    "Mem_trans_retired_load_latency_gt_128 Mem_trans_retired_load_latency_gt_256 Mem-loads Mem-stores"
)
_PERF_AMD = _words(
    "Branches Branch_Misses Cache_Misses Cache_References Cycles Instructions Ls_dc_accesses "
    "Ls_dispatch_store_dispatch Ls_dispatch_ld_dispatch"
)
_MEMINFO = _words(
    "MemFree MemAvailable Buffers Cached SwapCached Active Inactive Active(anon) Inactive(anon) Active(file) "
    "Inactive(file) Unevictable Mlocked SwapFree Dirty Writeback AnonPages Mapped Shmem KReclaimable "
    "Slab SReclaimable SUnreclaim KernelStack PageTables NFS_Unstable Bounce WritebackTmp Committed_AS "
    "VmallocUsed Percpu HardwareCorrupted AnonHugePages ShmemHugePages ShmemPmdMapped FileHugePages "
    "FilePmdMapped"
)
_CONSTANTS = _words("CommitLimit DirectMap1G DirectMap2M DirectMap4k Hugepagesize MemTotal SwapTotal")
_GPU_PLAIN = (
    ("utilization.gpu", "%"),
    ("utilization.memory", "%"),
    ("utilization.encoder", "%"),
    ("utilization.decoder", "%"),
    ("utilization.jpeg", "%"),
    ("utilization.ofa", "%"),
    ("fan.speed", "%"),
    ("memory.total", "MiB"),
    ("memory.reserved", "MiB"),
    ("memory.used", "MiB"),
    ("memory.free", "MiB"),
    ("temperature.gpu", "C"),
    ("temperature.memory", "C"),
    ("power.draw", "W"),
    ("power.limit", "W"),
    ("enforced.power.limit", "W"),
    ("clocks.current.graphics", "MHz"),
    ("clocks.current.sm", "MHz"),
    ("clocks.current.memory", "MHz"),
    ("clocks.current.video", "MHz"),
    ("clocks.max.graphics", "MHz"),
    ("clocks.max.sm", "MHz"),
    ("clocks.max.memory", "MHz"),
    ("pcie.link.gen.current", "-"),
    ("pcie.link.gen.max", "-"),
    ("pcie.link.width.current", "-"),
    ("pcie.link.width.max", "-"),
    ("encoder.stats.sessionCount", "count"),
    ("encoder.stats.averageFps", "count"),
    ("encoder.stats.averageLatency", "ms"),
)
_ECC_PLACES = _words("device_memory dram register_file l1_cache l2_cache texture_memory cbu sram total")
GPU_FIELDS = (
    *_GPU_PLAIN,
    *(
        (f"ecc.errors.{kind}.{span}.{place}", "count")
        for kind in ("corrected", "uncorrected")
        for span in ("volatile", "aggregate")
        for place in _ECC_PLACES
    ),
)
EMPTY_GPU_FIELDS = ("utilization.jpeg", "utilization.ofa", "fan.speed")
_NET = _words(
    "rx_bytes rx_packets rx_errs rx_drop rx_fifo rx_frame rx_compressed rx_multicast tx_bytes tx_packets "
    "tx_errs tx_drop tx_fifo tx_colls tx_carrier tx_compressed"
)
_DISK = (
    ("reads_completed", "count"),
    ("reads_merged", "count"),
    ("sectors_read", "sectors"),
    ("time_spent_reading_(ms)", "ms"),
    ("writes_completed", "count"),
    ("writes_merged", "count"),
    ("sectors_written", "sectors"),
    ("time_spent_writing_(ms)", "ms"),
    ("I/Os_currently_in_progress", "count"),
    ("time_spent_doing_I/Os_(ms)", "ms"),
    ("weighted_time_spent_doing_I/Os_(ms)", "ms"),
    ("discards_completed", "count"),
    ("discards_merged", "count"),
    ("sectors_discarded", "sectors"),
    ("time_spent_discarding", "ms"),
    ("flush_requests_completed", "count"),
    ("time_spent_flushing", "ms"),
)
_PROTOCOLS = _words("TCP UDP UNIX RAW DCCP SCTP local_to to_local total_connections")
_RETRANSMITS = _words("TcpRetransSegs TcpExtTCPSynRetrans TcpExtTCPLostRetransmit")
_PLACES = [*map(str, range(CPUS)), "-"]


def _turbostat(host: str, fields: Sequence[tuple[str, str]], places: Sequence[str] = _PLACES) -> list[str]:
    return [f"Turbostat:{field}.{place}.{host}[{unit}]" for field, unit in fields for place in places]


def _common(host: str) -> list[str]:
    text_order = sorted(map(str, range(CPUS)))
    return [f"CPU:CPU{n}Utilization.{host}[%]" for n in text_order] + [f"AverageCPUUtilization.{host}[%]"]


def _interface(host: str, name: str) -> list[str]:
    return [
        f"NetworkInterStat_diff:{field}.{name}.{host}[{'Bytes' if field.endswith('bytes') else 'count'}]"
        for field in _NET
    ]


def _tail(host: str, names: Sequence[str]) -> list[str]:
    columns = [column for name in names for column in _interface(host, name)]
    columns += [f"NetworkInterStat_diff:NetworkUtilization.{name}.{host}[%]" for name in names]
    columns += [f"NetworkProtocolCounts:{name}.{host}[count]" for name in _PROTOCOLS]
    return columns + [f"NetworkTCPRetrans_diff:{name}.{host}[count]" for name in _RETRANSMITS]


def gpu_columns(host: str = "htc-g004") -> list[str]:
    """Return the 764 columns of a GPU host."""
    columns = [f"Perf:{name}.{host}[count]" for name in _PERF_INTEL]
    columns += [f"Perf:IPC.{host}[-]"]
    shares = ("BranchUtilization", "CacheUtilization", "StallRatio", "OccupancyRatio")
    columns += [f"Perf:{name}.{host}[%]" for name in shares]
    memory = [*_MEMINFO, "MemTotal", "SwapTotal", "CommitLimit"]
    columns += [f"Memory:{name}.{host}[kB]" for name in memory] + [f"Memory:MemoryUtilization.{host}[%]"]
    fields = (
        ("Avg_MHz", "MHz"),
        ("Busy%", "%"),
        ("Bzy_MHz", "MHz"),
        ("TSC_MHz", "MHz"),
        ("IRQ", "count"),
        ("SMI", "count"),
        ("CPU%c1", "%"),
        ("CPU%c6", "%"),
        ("CoreTmp", "C"),
    )
    columns += _turbostat(host, fields)
    package = (
        ("PkgTmp", "C"),
        ("Pkg%pc2", "%"),
        ("Pkg%pc6", "%"),
        ("PkgWatt", "W"),
        ("RAMWatt", "W"),
        ("PKG_%", "%"),
        ("RAM_%", "%"),
    )
    columns += _turbostat(host, package, ("0", "1", "-"))
    columns += _common(host)
    columns += [f"GPU: {field}.{gpu}.{host}[{unit}]" for gpu in (0, 1) for field, unit in GPU_FIELDS]
    columns += [f"Storage:{field}.{host}[{unit}]" for field, unit in _DISK[:15]]
    return columns + _tail(host, ("ens1f0", "ib0"))


def cpu_columns(host: str = "nserver07") -> list[str]:
    """Return the 791 columns of a CPU host."""
    columns = [f"Perf:{name}.{host}[count]" for name in _PERF_AMD]
    columns += [f"Perf:IPC.{host}[-]"]
    columns += [f"Perf:{name}.{host}[%]" for name in ("BranchUtilization", "CacheUtilization")]
    columns += [f"Memory:{name}.{host}[kB]" for name in _CONSTANTS]
    columns += [f"Memory:MemoryUtilization.{host}[%]"]
    columns += [f"Meminfo_diff:{name}.{host}[kB]" for name in _MEMINFO[:36]]
    fields = (
        ("Avg_MHz", "MHz"),
        ("Busy%", "%"),
        ("Bzy_MHz", "MHz"),
        ("TSC_MHz", "MHz"),
        ("IPC", "-"),
        ("IRQ", "count"),
        ("POLL", "count"),
        ("C1", "count"),
        ("C2", "count"),
        ("POLL%", "%"),
        ("C1%", "%"),
        ("C2%", "%"),
        ("CorWatt", "W"),
    )
    columns += _turbostat(host, fields)
    columns += _turbostat(host, (("PkgWatt", "W"),), ("0", "1", "-"))
    columns += _common(host)
    columns += [f"Storage_diff:{field}.{host}[{unit}]" for field, unit in _DISK]
    return columns + _tail(host, ("enp1s0f0np0",))


def dataset_values(columns: Sequence[str], rows: int, seed: int = 0) -> np.ndarray:
    """Return values, shape (rows, columns), that belong together where the dataset's do; NaN if empty."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.uniform(2.0, 90.0, (rows, len(columns))), 6)
    place = {name: number for number, name in enumerate(columns)}
    for name, number in place.items():
        if name.endswith(("[count]", "[Bytes]", "[sectors]", "[kB]", "[ms]", "[MiB]")):
            values[:, number] = np.floor(values[:, number] * 100)
        if name.startswith("Meminfo_diff"):
            values[:, number] -= 4000
        if name.startswith("Storage:") and "progress" not in name:
            values[:, number] = 1e6 + np.cumsum(values[:, number])
        if ": ecc." in name:
            values[:, number] = np.floor(np.arange(rows) / 7)
        if "pcie.link" in name:
            values[:, number] = 4.0
        if any(f" {field}." in name for field in EMPTY_GPU_FIELDS):
            values[:, number] = np.nan
        if "CorWatt" in name and int(name.split(".")[1].replace("-", "0")) >= CPUS // 2:
            values[:, number] = np.nan
    for host in {name.rpartition("[")[0].rpartition(".")[2] for name in columns}:
        cycles, instructions = (f"Perf:{name}.{host}[count]" for name in ("Cycles", "Instructions"))
        if cycles not in place:
            continue
        values[:, place[cycles]] = np.floor(rng.uniform(1e9, 2e9, rows))
        values[:, place[instructions]] = np.floor(rng.uniform(1e9, 2e9, rows))
        ratio = values[:, place[instructions]] / values[:, place[cycles]]
        intel = f"Perf:Hle_retired_commit.{host}[count]" in place
        values[:, place[f"Perf:IPC.{host}[-]"]] = np.round(ratio * (100.0 if intel else 1.0), 6)
    return values


def dataset_text(
    columns: Sequence[str],
    values: np.ndarray,
    start: datetime = START,
    step: timedelta = timedelta(milliseconds=100),
    times: Sequence[datetime] | None = None,
) -> str:
    """Return a file's text."""
    moments = times or [start + step * row for row in range(len(values))]
    lines = ["\t".join(["", *columns])]
    for moment, row in zip(moments, values.tolist(), strict=True):
        cells = ["" if cell != cell else repr(cell) for cell in row]
        lines.append("\t".join([moment.isoformat(sep=" ", timespec="milliseconds"), *cells]))
    return "\n".join(lines) + "\n"


def write_dataset(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files by name into a folder of the dataset's spelling, and return the folder above."""
    inner = folder / "train_seperated"
    inner.mkdir(parents=True)
    for name, text in files.items():
        (inner / name).write_text(text, encoding="utf-8")
    return folder
