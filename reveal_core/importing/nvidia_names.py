"""Names of ``nvidia-smi --query-gpu`` and of the columns of ``nvidia-smi dmon`` and ``dcgmi dmon``.

``nvidia-smi --help-query-gpu`` explains the first, the manual page of nvidia-smi the second, and ``dcgmi dmon
--list`` the third.
"""

from __future__ import annotations

import re

from reveal_core.importing.names import Target, known_metric

MIB, KIB = 2.0**20, 2.0**10

_LEVELS: dict[str, tuple[str, float]] = {
    "utilization.gpu": ("gpu.utilization", 1.0),
    "utilization.memory": ("gpu.memory_utilization", 1.0),
    "utilization.encoder": ("gpu.encoder_utilization", 1.0),
    "utilization.decoder": ("gpu.decoder_utilization", 1.0),
    "utilization.jpeg": ("gpu.jpeg_utilization", 1.0),
    "utilization.ofa": ("gpu.ofa_utilization", 1.0),
    "memory.total": ("gpu.memory_total", MIB),
    "memory.used": ("gpu.memory_used", MIB),
    "memory.free": ("gpu.memory_free", MIB),
    "memory.reserved": ("gpu.memory_reserved", MIB),
    "clocks.current.graphics": ("gpu.clock_graphics", 1.0),
    "clocks.current.sm": ("gpu.clock_sm", 1.0),
    "clocks.current.memory": ("gpu.clock_memory", 1.0),
    "clocks.current.video": ("gpu.clock_video", 1.0),
    "clocks.max.graphics": ("gpu.clock_graphics_max", 1.0),
    "clocks.max.sm": ("gpu.clock_sm_max", 1.0),
    "clocks.max.memory": ("gpu.clock_memory_max", 1.0),
    "pstate": ("gpu.performance_state", 1.0),
    "power.draw": ("gpu.power", 1.0),
    "enforced.power.limit": ("gpu.power_limit", 1.0),
    "power.default_limit": ("gpu.power_limit_default", 1.0),
    "temperature.gpu": ("gpu.temperature", 1.0),
    "temperature.memory": ("gpu.memory_temperature", 1.0),
    "temperature.gpu.tlimit": ("gpu.temperature_margin", 1.0),
    "fan.speed": ("gpu.fan_speed", 1.0),
    "pcie.link.gen.current": ("gpu.pcie_generation", 1.0),
    "pcie.link.gen.max": ("gpu.pcie_generation_max", 1.0),
    "pcie.link.width.current": ("gpu.pcie_width", 1.0),
    "pcie.link.width.max": ("gpu.pcie_width_max", 1.0),
    "persistence_mode": ("gpu.persistence_mode", 1.0),
    "ecc.mode.current": ("gpu.ecc_mode", 1.0),
    "mig.mode.current": ("gpu.mig_mode", 1.0),
    "retired_pages.pending": ("gpu.retired_pages_pending", 1.0),
    "remapped_rows.pending": ("gpu.remapped_rows_pending", 1.0),
    "remapped_rows.failure": ("gpu.remapped_rows_failure", 1.0),
}
_REASONS = {
    "gpu_idle": "gpu.throttle_idle",
    "applications_clocks_setting": "gpu.throttle_applications_clocks",
    "sw_power_cap": "gpu.throttle_power_cap",
    "hw_slowdown": "gpu.throttle_hw_slowdown",
    "hw_thermal_slowdown": "gpu.throttle_hw_thermal",
    "hw_power_brake_slowdown": "gpu.throttle_hw_power_brake",
    "sw_thermal_slowdown": "gpu.throttle_sw_thermal",
    "sync_boost": "gpu.throttle_sync_boost",
}
_REASON_TIMES = {
    "sw_power_cap": "gpu.throttled_power_time",
    "sync_boost": "gpu.throttled_sync_boost_time",
    "sw_thermal_slowdown": "gpu.throttled_thermal_time",
}
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons(_counters)?\.(\w+)")
_COUNTERS = {
    "retired_pages.single_bit_ecc.count": "gpu.retired_pages_corrected",
    "retired_pages.double_bit.count": "gpu.retired_pages_uncorrected",
    "remapped_rows.correctable": "gpu.remapped_rows_corrected",
    "remapped_rows.uncorrectable": "gpu.remapped_rows_uncorrected",
}
_ECC = re.compile(r"ecc\.errors\.(corrected|uncorrected)\.(volatile|aggregate)\.(\w+)")
_ECC_PLACES = {
    "total": "",
    "l1_cache": "_l1",
    "l2_cache": "_l2",
    "dram": "_dram",
    "register_file": "_register_file",
    "texture_memory": "_texture",
    "sram": "_sram",
    "cbu": "_cbu",
}
_SHORT = {"clocks.gr": "graphics", "clocks.sm": "sm", "clocks.mem": "memory", "clocks.video": "video"}
_SCALE_OF_UNIT = {"kib": KIB, "mib": MIB, "gib": 2.0**30, "b": 1.0, "mw": 1e-3, "kw": 1e3}

WORDS = {
    "active": 1.0,
    "not active": 0.0,
    "enabled": 1.0,
    "disabled": 0.0,
    "yes": 1.0,
    "no": 0.0,
    **{f"p{n}": float(n) for n in range(16)},
}
"""Words that stand for numbers in nvidia-smi's tables, in small letters."""
NO_VALUES = (
    "[n/a]",
    "n/a",
    "[not supported]",
    "[unknown error]",
    "[requested functionality has been deprecated]",
)
"""What nvidia-smi writes where it has no value, in small letters."""


def nvidia_target(field: str, unit: str = "") -> Target | None:
    """Return what a field of ``--query-gpu`` is in the catalogue; None for one that it lacks.

    Parameters
    ----------
    field
        Its name, without a unit.
    unit
        As the header gives it (``MiB``, ``W``, ``us``); what the manual says if it gives none.

    Examples
    --------
    >>> nvidia_target("memory.used", "MiB")
    Target(metric='gpu.memory_used', form='level', scale=1048576.0)
    """
    name = f"clocks.current.{_SHORT[field]}" if field in _SHORT else field
    name = name.replace("clocks.mem", "clocks.memory") if name == "clocks.max.mem" else name
    if name in _LEVELS:
        metric, scale = _LEVELS[name]
        return Target(metric, "level", _SCALE_OF_UNIT.get(unit.lower(), scale))
    if name in _COUNTERS:
        return Target(_COUNTERS[name], "counter")
    reason = _REASON.fullmatch(name)
    if reason is not None:
        if reason[1]:
            metric_name = _REASON_TIMES.get(reason[2])
            return Target(metric_name, "counter", 1000.0) if metric_name else None
        metric_name = _REASONS.get(reason[2])
        return Target(metric_name) if metric_name else None
    ecc = _ECC.fullmatch(name)
    if ecc is not None and ecc[3] in _ECC_PLACES:
        errors = f"gpu.ecc_{ecc[2]}_{ecc[1]}{_ECC_PLACES[ecc[3]]}"
        return Target(errors, "counter") if known_metric(errors) else None
    return None


DMON: dict[str, Target] = {
    # nvidia-smi dmon
    "pwr": Target("gpu.power"),
    "gtemp": Target("gpu.temperature"),
    "temp": Target("gpu.temperature"),
    "mtemp": Target("gpu.memory_temperature"),
    "sm": Target("gpu.utilization"),
    "mem": Target("gpu.memory_utilization"),
    "enc": Target("gpu.encoder_utilization"),
    "dec": Target("gpu.decoder_utilization"),
    "jpg": Target("gpu.jpeg_utilization"),
    "ofa": Target("gpu.ofa_utilization"),
    "mclk": Target("gpu.clock_memory"),
    "pclk": Target("gpu.clock_graphics"),
    "fb": Target("gpu.memory_used", scale=MIB),
    "bar1": Target("gpu.bar1_used", scale=MIB),
    "rxpci": Target("gpu.pcie_rx_throughput", scale=1e6),
    "txpci": Target("gpu.pcie_tx_throughput", scale=1e6),
    # dcgmi dmon: short names of fields
    "GPUTL": Target("gpu.utilization"),
    "MCUTL": Target("gpu.memory_utilization"),
    "ENCUTL": Target("gpu.encoder_utilization"),
    "DECUTL": Target("gpu.decoder_utilization"),
    "POWER": Target("gpu.power"),
    "TMPTR": Target("gpu.temperature"),
    "MMTMP": Target("gpu.memory_temperature"),
    "SMCLK": Target("gpu.clock_sm"),
    "MMCLK": Target("gpu.clock_memory"),
    "FBUSD": Target("gpu.memory_used", scale=MIB),
    "FBFRE": Target("gpu.memory_free", scale=MIB),
    "FBTTL": Target("gpu.memory_total", scale=MIB),
    "TOTEC": Target("gpu.energy", "counter"),
}
"""Columns of both kinds of dmon that the catalogue has."""
