"""What a GPU is asked through NVML: tables of calls and of field values, and the metrics they fill.

Numbers are those of NVIDIA's ``nvml.h``: field ids (``NVML_FI_DEV_*``), clock domains, memory locations.
Field ids from 251 on were numbered anew between releases of the library, so none of them is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_LINKS = 36
"""``NVML_NVLINK_MAX_LINKS``."""
ALL_LINKS = 0xFFFFFFFF
"""Scope of an NVLink field that means the sum over the links."""
SIGNED = "i"


@dataclass(frozen=True, slots=True)
class Query:
    """A function of NVML that takes a device and fills memory with numbers.

    Attributes
    ----------
    function
        Its name in the library.
    metrics
        Metric of each number that it gives; None for one that is not wanted.
    arguments
        Numbers that it is called with, after the device.
    outputs
        What the pointers after those point to, one `struct` format each.
    scale
        What the numbers are multiplied with to get the catalogue's unit.
    head
        Numbers that the structure must begin with: its version, and what it is to be about.
    sizes
        The call only tells how many entries it would give: one more pointer is passed, to nothing.
    bits
        Its number is a mask; ``metrics`` name its bits from the lowest, and last what any further bit means.
    instead
        Asked where this one is not supported.
    """

    function: str
    metrics: tuple[str | None, ...]
    arguments: tuple[int, ...] = ()
    outputs: tuple[str, ...] = ("I",)
    scale: float = 1.0
    head: tuple[int, ...] = ()
    sizes: bool = False
    bits: bool = False
    instead: Query | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field value: asked for in one call with others.

    Attributes
    ----------
    number
        Its ``NVML_FI_DEV_*``.
    metric
        What it fills.
    scope
        Which link, where that has to be said.
    scale
        What the number is multiplied with to get the catalogue's unit.
    wide
        Of use only as a 64-bit number: a narrower one wraps between two reads.
    label
        What is added to the GPU's name to get the instance: ``:link3``.
    instead
        Asked where this one is not supported.
    """

    number: int
    metric: str
    scope: int = 0
    scale: float = 1.0
    wide: bool = False
    label: str = ""
    instead: Query | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """What a kind of source asks each time: a GPU, each of its links, and each of its slices.

    Slices and links have metrics of their own: a mean over GPUs must not count a part beside the whole.
    """

    queries: tuple[Query, ...]
    fields: tuple[Field, ...] = ()
    link_fields: tuple[Field, ...] = ()
    link_queries: tuple[Query, ...] = ()
    slice_queries: tuple[Query, ...] = ()
    events: bool = False


REASONS = (
    "gpu.throttle_idle",
    "gpu.throttle_applications_clocks",
    "gpu.throttle_power_cap",
    "gpu.throttle_hw_slowdown",
    "gpu.throttle_sync_boost",
    "gpu.throttle_sw_thermal",
    "gpu.throttle_hw_thermal",
    "gpu.throttle_hw_power_brake",
    "gpu.throttle_display_clocks",
    "gpu.throttle_board_limit",
    "gpu.throttle_reliability",
    "gpu.throttle_other",
)
"""Why clocks are held down, in the order of the bits of ``nvmlClocksEventReasons``."""


def _memory(used: str | None, free: str | None, reserved: str | None, total: str | None) -> Query:
    """Return the question for memory; libraries before R510 do not tell what the driver keeps for itself."""
    older = Query("nvmlDeviceGetMemoryInfo", (total, free, used), outputs=("QQQ",))
    return Query(
        "nvmlDeviceGetMemoryInfo_v2",
        (None, total, reserved, free, used),
        outputs=("I4xQQQQ",),
        head=(0x02000028,),
        instead=older,
    )


def _clock(metric: str, domain: int, function: str = "nvmlDeviceGetClockInfo") -> Query:
    return Query(function, (metric,), (domain,))


def _share(metric: str, engine: str) -> Query:
    """Return the question for an engine's utilisation; it also tells the driver's sampling period."""
    return Query(f"nvmlDeviceGet{engine}Utilization", (metric, None), outputs=("I", "I"))


def _bar1(used: str | None, total: str | None) -> Query:
    return Query("nvmlDeviceGetBAR1MemoryInfo", (total, None, used), outputs=("QQQ",))


def _processes(metric: str, kind: str) -> Query:
    older = Query(f"nvmlDeviceGet{kind}RunningProcesses_v2", (metric,), sizes=True)
    return Query(f"nvmlDeviceGet{kind}RunningProcesses_v3", (metric,), sizes=True, instead=older)


def _sram(metric: str, kind: int, counter: int) -> Query:
    """Return the question for the ECC errors of all on-chip memory (``NVML_MEMORY_LOCATION_SRAM``)."""
    return Query("nvmlDeviceGetMemoryErrorCounter", (metric,), (kind, counter, 7), outputs=("Q",))


def _threshold(metric: str, number: int) -> Query:
    return Query("nvmlDeviceGetTemperatureThreshold", (metric,), (number,), outputs=(SIGNED,))


def _throughput(metric: str, direction: int) -> Query:
    """Return the question for a PCIe rate, which the driver measures over 20 ms: the last resort."""
    return Query("nvmlDeviceGetPcieThroughput", (metric,), (direction,), scale=1000.0)


FAST = Table(
    queries=(
        Query(
            "nvmlDeviceGetUtilizationRates", ("gpu.utilization", "gpu.memory_utilization"), outputs=("II",)
        ),
        _clock("gpu.clock_sm", 1),
        Query(
            "nvmlDeviceGetCurrentClocksEventReasons",
            REASONS,
            outputs=("Q",),
            bits=True,
            instead=Query("nvmlDeviceGetCurrentClocksThrottleReasons", REASONS, outputs=("Q",), bits=True),
        ),
        _memory("gpu.memory_used", None, None, None),
    ),
    fields=(
        # From Ampere on nvmlDeviceGetPowerUsage gives a mean over a second, which hides what is looked for.
        Field(
            186, "gpu.power", scale=1e-3, instead=Query("nvmlDeviceGetPowerUsage", ("gpu.power",), scale=1e-3)
        ),
    ),
    slice_queries=(_memory("gpu.slice_memory_used", None, None, None),),
)
"""Every 100 ms: what moves with the work."""

DETAIL = Table(
    queries=(
        _share("gpu.encoder_utilization", "Encoder"),
        _share("gpu.decoder_utilization", "Decoder"),
        _share("gpu.jpeg_utilization", "Jpg"),
        _share("gpu.ofa_utilization", "Ofa"),
        _clock("gpu.clock_graphics", 0),
        _clock("gpu.clock_memory", 2),
        _clock("gpu.clock_video", 3),
        _memory(None, "gpu.memory_free", "gpu.memory_reserved", None),
        _bar1("gpu.bar1_used", None),
        Query(
            "nvmlDeviceGetTemperature",
            ("gpu.temperature",),
            (0,),
            instead=Query(
                "nvmlDeviceGetTemperatureV",
                (None, None, "gpu.temperature"),
                outputs=("IIi",),
                head=(0x0100000C, 0),
            ),
        ),
        Query(
            "nvmlDeviceGetMarginTemperature",
            (None, "gpu.temperature_margin"),
            outputs=("Ii",),
            head=(0x01000008,),
        ),
        Query("nvmlDeviceGetFanSpeed", ("gpu.fan_speed",)),
        Query("nvmlDeviceGetPerformanceState", ("gpu.performance_state",)),
        Query("nvmlDeviceGetEnforcedPowerLimit", ("gpu.power_limit",), scale=1e-3),
        Query("nvmlDeviceGetCurrPcieLinkGeneration", ("gpu.pcie_generation",)),
        Query("nvmlDeviceGetCurrPcieLinkWidth", ("gpu.pcie_width",)),
        _processes("gpu.compute_processes", "Compute"),
        _processes("gpu.graphics_processes", "Graphics"),
    ),
    fields=(
        Field(82, "gpu.memory_temperature"),
        Field(
            83,
            "gpu.energy",
            wide=True,
            instead=Query("nvmlDeviceGetTotalEnergyConsumption", ("gpu.energy",), outputs=("Q",)),
        ),
        Field(74, "gpu.throttled_power_time", wide=True),
        Field(75, "gpu.throttled_thermal_time", wide=True),
        Field(76, "gpu.throttled_sync_boost_time", wide=True),
        Field(77, "gpu.throttled_board_limit_time", wide=True),
        Field(78, "gpu.throttled_low_utilization_time", wide=True),
        Field(79, "gpu.throttled_reliability_time", wide=True),
        Field(80, "gpu.below_application_clocks_time", wide=True),
        Field(81, "gpu.below_base_clocks_time", wide=True),
        Field(
            94,
            "gpu.pcie_replays",
            instead=Query("nvmlDeviceGetPcieReplayCounter", ("gpu.pcie_replays",)),
        ),
        Field(197, "gpu.pcie_tx_bytes", wide=True, instead=_throughput("gpu.pcie_tx_throughput", 0)),
        Field(198, "gpu.pcie_rx_bytes", wide=True, instead=_throughput("gpu.pcie_rx_throughput", 1)),
        Field(138, "gpu.nvlink_tx_data", scope=ALL_LINKS, wide=True),
        Field(139, "gpu.nvlink_rx_data", scope=ALL_LINKS, wide=True),
        Field(140, "gpu.nvlink_tx_raw", scope=ALL_LINKS, wide=True),
        Field(141, "gpu.nvlink_rx_raw", scope=ALL_LINKS, wide=True),
        Field(38, "gpu.nvlink_crc_flit_errors"),
        Field(45, "gpu.nvlink_crc_data_errors"),
        Field(52, "gpu.nvlink_replay_errors"),
        Field(59, "gpu.nvlink_recovery_errors"),
        Field(160, "gpu.nvlink_ecc_data_errors"),
    ),
    slice_queries=(
        _memory(None, "gpu.slice_memory_free", "gpu.slice_memory_reserved", None),
        _bar1("gpu.slice_bar1_used", None),
        _processes("gpu.slice_compute_processes", "Compute"),
    ),
    events=True,
)
"""Every second: what moves slowly, what only ever counts, and what takes the driver long to say."""

_LOCATIONS = (("l1", 0), ("l2", 2), ("dram", 4), ("register_file", 6), ("texture", 8))

HEALTH = Table(
    queries=(
        _memory(None, None, None, "gpu.memory_total"),
        _bar1(None, "gpu.bar1_total"),
        _clock("gpu.clock_graphics_max", 0, "nvmlDeviceGetMaxClockInfo"),
        _clock("gpu.clock_sm_max", 1, "nvmlDeviceGetMaxClockInfo"),
        _clock("gpu.clock_memory_max", 2, "nvmlDeviceGetMaxClockInfo"),
        _clock("gpu.clock_video_max", 3, "nvmlDeviceGetMaxClockInfo"),
        Query("nvmlDeviceGetMaxPcieLinkGeneration", ("gpu.pcie_generation_max",)),
        Query("nvmlDeviceGetMaxPcieLinkWidth", ("gpu.pcie_width_max",)),
        _threshold("gpu.temperature_shutdown", 0),
        _threshold("gpu.temperature_slowdown", 1),
        _threshold("gpu.memory_temperature_max", 2),
        _threshold("gpu.temperature_max", 3),
        Query("nvmlDeviceGetPersistenceMode", ("gpu.persistence_mode",)),
        Query("nvmlDeviceGetComputeMode", ("gpu.compute_mode",)),
        Query("nvmlDeviceGetMigMode", ("gpu.mig_mode", None), outputs=("I", "I")),
        _sram("gpu.ecc_volatile_corrected_sram", 0, 0),
        _sram("gpu.ecc_volatile_uncorrected_sram", 1, 0),
        _sram("gpu.ecc_aggregate_corrected_sram", 0, 1),
        _sram("gpu.ecc_aggregate_uncorrected_sram", 1, 1),
    ),
    fields=(
        Field(1, "gpu.ecc_mode"),
        Field(3, "gpu.ecc_volatile_corrected"),
        Field(4, "gpu.ecc_volatile_uncorrected"),
        Field(5, "gpu.ecc_aggregate_corrected"),
        Field(6, "gpu.ecc_aggregate_uncorrected"),
        *(Field(7 + n, f"gpu.ecc_volatile_corrected_{where}") for where, n in _LOCATIONS),
        *(Field(8 + n, f"gpu.ecc_volatile_uncorrected_{where}") for where, n in _LOCATIONS),
        Field(17, "gpu.ecc_volatile_uncorrected_cbu"),
        *(Field(18 + n, f"gpu.ecc_aggregate_corrected_{where}") for where, n in _LOCATIONS),
        *(Field(19 + n, f"gpu.ecc_aggregate_uncorrected_{where}") for where, n in _LOCATIONS),
        Field(28, "gpu.ecc_aggregate_uncorrected_cbu"),
        Field(29, "gpu.retired_pages_corrected"),
        Field(30, "gpu.retired_pages_uncorrected"),
        Field(31, "gpu.retired_pages_pending"),
        Field(142, "gpu.remapped_rows_corrected"),
        Field(143, "gpu.remapped_rows_uncorrected"),
        Field(144, "gpu.remapped_rows_pending"),
        Field(145, "gpu.remapped_rows_failure"),
        Field(189, "gpu.power_limit_default", scale=1e-3),
        Field(193, "gpu.temperature_shutdown_margin"),
        Field(194, "gpu.temperature_slowdown_margin"),
        Field(195, "gpu.memory_temperature_max_margin"),
        Field(196, "gpu.temperature_max_margin"),
    ),
    link_fields=(
        Field(138, "gpu.nvlink_link_tx_data", wide=True),
        Field(139, "gpu.nvlink_link_rx_data", wide=True),
        Field(161, "gpu.nvlink_link_replay_errors"),
        Field(162, "gpu.nvlink_link_recovery_errors"),
        Field(163, "gpu.nvlink_link_crc_errors"),
    ),
    link_queries=(Query("nvmlDeviceGetNvLinkState", ("gpu.nvlink_link_active",)),),
    slice_queries=(
        _memory(None, None, None, "gpu.slice_memory_total"),
        _bar1(None, "gpu.slice_bar1_total"),
        _sram("gpu.slice_ecc_volatile_uncorrected_sram", 1, 0),
    ),
)
"""Every five seconds: limits, modes, and the tallies of what is broken."""
