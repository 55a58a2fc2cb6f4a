"""Faults that the recording's machine cannot have, and what each of them does to telemetry.

What moves, and which way, is from the vendors' and the kernel's documents and from the publication's cases;
how far is made up. They are replayed, not real: they show whether a fault that looks like its description
would be found and named.
"""

from __future__ import annotations

from dataclasses import dataclass

from reveal_core.evaluate.replayed_devices import GPUS, NODE

ONE_GPU = GPUS[:1]


@dataclass(frozen=True)
class Effect:
    """What a fault does to a metric's channels.

    Attributes
    ----------
    metric
        Which metric.
    instances
        Which instances; ``()`` for every one that there is.
    factor, add
        The value (the rate of a counter) is multiplied and added to, at size 1.
    to
        Value that it is set to instead; None for none.
    ramp_s
        Time that it takes until the effect is whole.
    """

    metric: str
    instances: tuple[str, ...] = ()
    factor: float = 1.0
    add: float = 0.0
    to: float | None = None
    ramp_s: float = 0.0


@dataclass(frozen=True)
class ReplayedFault:
    """A fault that is written into telemetry.

    Attributes
    ----------
    name, subsystem, title
        What it is called, which subsystem it hits, and what it is.
    causes
        Ids of causes that name it rightly; the first is its own.
    effects
        What it does.
    lost
        Instances whose samples of the metrics ``gpu.*`` go missing, except ``gpu.lost``.
    step_s
        By how much the wall clock is set forward at the onset, and back at the end.
    lenient
        Other subsystems that count as right.
    """

    name: str
    subsystem: str
    title: str
    causes: tuple[str, ...]
    effects: tuple[Effect, ...] = ()
    lost: tuple[str, ...] = ()
    step_s: float = 0.0
    lenient: tuple[str, ...] = ()


def _recorded_reads(factor: float) -> tuple[Effect, ...]:
    """Return the effect of a job that reads less, on what was recorded."""
    names = ("disk.reads", "disk.read_sectors", "disk.read_ms", "vmstat.pgpgin", "cgroup.io_read_bytes")
    return tuple(Effect(name, factor=factor) for name in (*names, "cgroup.io_reads"))


REPLAYED: tuple[ReplayedFault, ...] = (
    ReplayedFault(
        "remote-numa-memory",
        "memory",
        "Memory on another NUMA node",
        ("remote-numa-memory",),
        (
            Effect("numa.other_node", add=4000.0),
            Effect("numa.numa_miss", (NODE,), add=1500.0),
            Effect("numa.numa_foreign", ("node0",), add=1500.0),
            Effect("numa.local_node", (NODE,), factor=0.4),
            Effect("perf.instructions", factor=0.7),
            Effect("perf.stalls_l3_miss", factor=3.0),
            Effect("perf.remote_memory", add=1.5e7),
            Effect("perf.local_memory", factor=0.5),
        ),
    ),
    ReplayedFault(
        "gpu-power-capped",
        "gpu",
        "GPU clocks held down by a power limit",
        ("gpu-power-capped",),
        (
            Effect("gpu.power_limit", to=400.0),
            Effect("gpu.throttle_power_cap", to=1.0),
            Effect("gpu.throttled_power_time", add=6e8),
            Effect("gpu.clock_sm", factor=0.8),
            Effect("gpu.power", factor=0.74),
            Effect("gpu.energy", factor=0.74),
        ),
    ),
    ReplayedFault(
        "gpu-too-hot",
        "gpu",
        "GPU clocks held down by heat",
        ("gpu-thermal-throttling",),
        (
            Effect("gpu.temperature", ONE_GPU, add=24.0, ramp_s=8.0),
            Effect("gpu.memory_temperature", ONE_GPU, add=22.0, ramp_s=8.0),
            Effect("gpu.throttle_sw_thermal", ONE_GPU, to=1.0),
            Effect("gpu.throttled_thermal_time", ONE_GPU, add=7e8),
            Effect("gpu.clock_sm", ONE_GPU, factor=0.65),
            Effect("gpu.power", ONE_GPU, factor=0.75),
            Effect("gpu.energy", ONE_GPU, factor=0.75),
        ),
    ),
    ReplayedFault(
        "pcie-narrow",
        "gpu",
        "A PCIe link that lost lanes",
        ("pcie-degraded",),
        (
            Effect("gpu.pcie_width", ONE_GPU, to=4.0),
            Effect("gpu.pcie_tx_bytes", ONE_GPU, factor=0.4),
            Effect("gpu.pcie_rx_bytes", ONE_GPU, factor=0.4),
            Effect("gpu.utilization", factor=0.8),
            Effect("gpu.power", factor=0.85),
        ),
    ),
    ReplayedFault(
        "nvlink-errors",
        "gpu",
        "NVLink errors",
        ("nvlink-errors",),
        (
            Effect("gpu.nvlink_crc_flit_errors", ONE_GPU, add=400.0),
            Effect("gpu.nvlink_replay_errors", ONE_GPU, add=150.0),
            Effect("gpu.nvlink_recovery_errors", ONE_GPU, add=1.0),
            Effect("gpu.nvlink_tx_data", factor=0.8),
            Effect("gpu.nvlink_rx_data", factor=0.8),
        ),
    ),
    ReplayedFault(
        "gpu-ecc-errors",
        "gpu",
        "Memory errors of a GPU that are not corrected",
        ("gpu-ecc-errors",),
        (
            Effect("gpu.ecc_volatile_uncorrected", ONE_GPU, add=1.0),
            Effect("gpu.ecc_aggregate_uncorrected", ONE_GPU, add=1.0),
            Effect("gpu.xid_errors", ONE_GPU, add=1.0),
            Effect("gpu.xid_last", ONE_GPU, to=94.0),
            Effect("gpu.remapped_rows_pending", ONE_GPU, to=1.0),
        ),
    ),
    ReplayedFault(
        "gpu-ecc-corrected",
        "gpu",
        "Memory errors of a GPU that are corrected: nothing is lost yet",
        ("gpu-ecc-corrected",),
        (
            Effect("gpu.ecc_volatile_corrected", ONE_GPU, add=0.4),
            Effect("gpu.ecc_aggregate_corrected", ONE_GPU, add=0.4),
        ),
    ),
    ReplayedFault(
        "gpu-xid",
        "gpu",
        "A GPU whose driver announces an error (Xid 119)",
        ("gpu-xid",),
        (
            Effect("gpu.xid_errors", ONE_GPU, add=1.0),
            Effect("gpu.xid_last", ONE_GPU, to=119.0),
            Effect("gpu.utilization", ONE_GPU, factor=0.6),
        ),
    ),
    ReplayedFault(
        "gpu-lost",
        "gpu",
        "A GPU that the driver lost",
        ("gpu-lost",),
        (Effect("gpu.lost", ONE_GPU, to=1.0),),
        lost=ONE_GPU,
    ),
    ReplayedFault(
        "gpu-hanging",
        "gpu",
        "GPUs that hang in a collective operation",
        ("gpu-hanging",),
        (
            Effect("gpu.utilization", to=100.0),
            Effect("gpu.memory_utilization", factor=0.02),
            Effect("gpu.power", factor=0.4),
            Effect("gpu.energy", factor=0.4),
            Effect("gpu.pcie_tx_bytes", factor=0.02),
            Effect("gpu.pcie_rx_bytes", factor=0.02),
            Effect("gpu.nvlink_tx_data", factor=0.01),
            Effect("gpu.nvlink_rx_data", factor=0.01),
        ),
    ),
    ReplayedFault(
        "gpu-starving",
        "storage",
        "GPUs that wait for their input",
        ("data-loader-stall",),
        (
            Effect("gpu.utilization", factor=0.35),
            Effect("gpu.memory_utilization", factor=0.35),
            Effect("gpu.power", factor=0.5),
            Effect("gpu.energy", factor=0.5),
            Effect("gpu.pcie_rx_bytes", factor=0.3),
            *_recorded_reads(0.3),
        ),
        lenient=("gpu",),
    ),
    ReplayedFault(
        "clock-step", "cpu", "The wall clock is set forward and back", ("clock-step",), step_s=1.53
    ),
)
"""Every fault that is replayed."""
