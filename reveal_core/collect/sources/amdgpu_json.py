"""What ``amd-smi`` and ``rocm-smi`` print as JSON, in Reveal's metrics.

Both change their keys between releases of ROCm, and write ``N/A`` for what a GPU does not tell.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

Samples = dict[tuple[str, str], int]
"""A number for each metric and instance."""

SCALES = {
    "gpu.temperature": 1e-3,
    "gpu.junction_temperature": 1e-3,
    "gpu.memory_temperature": 1e-3,
    "gpu.power": 1e-3,
    "gpu.power_limit": 1e-3,
    "gpu.fan_speed": 1e-3,
    "gpu.pcie_speed": 1e-3,
}
"""What a metric's numbers are multiplied with to get its unit; the tools print decimals."""
MIB = 2**20

_ROCM: dict[str, tuple[str, ...]] = {
    "gpu.utilization": ("GPU use (%)",),
    "gpu.memory_utilization": ("GPU Memory Read/Write Activity (%)", "GPU memory use (%)"),
    "gpu.temperature": ("Temperature (Sensor edge) (C)",),
    "gpu.junction_temperature": ("Temperature (Sensor junction) (C)",),
    "gpu.memory_temperature": ("Temperature (Sensor memory) (C)",),
    "gpu.power": ("Current Socket Graphics Package Power (W)", "Average Graphics Package Power (W)"),
    "gpu.power_limit": ("Max Graphics Package Power (W)",),
    "gpu.memory_total": ("VRAM Total Memory (B)",),
    "gpu.memory_used": ("VRAM Total Used Memory (B)",),
    "gpu.bar1_total": ("VIS_VRAM Total Memory (B)",),
    "gpu.bar1_used": ("VIS_VRAM Total Used Memory (B)",),
    "gpu.gtt_used": ("GTT Total Used Memory (B)",),
    "gpu.clock_graphics": ("sclk clock speed:",),
    "gpu.clock_memory": ("mclk clock speed:",),
    "gpu.clock_fabric": ("fclk clock speed:",),
    "gpu.clock_soc": ("socclk clock speed:",),
    "gpu.fan_speed": ("Fan speed (%)",),
    "gpu.pcie_replays": ("PCIe Replay Count",),
    "gpu.voltage": ("Voltage (mV)",),
}
_ROCM_LINK = "pcie clock level"
"""``1 (16.0GT/s x16)``"""

_AMD: dict[str, tuple[tuple[str, ...], float]] = {
    "gpu.utilization": (("usage", "gfx_activity"), 1),
    "gpu.memory_utilization": (("usage", "umc_activity"), 1),
    "gpu.media_utilization": (("usage", "mm_activity"), 1),
    "gpu.power": (("power", "socket_power"), 1),
    "gpu.voltage": (("power", "gfx_voltage"), 1),
    "gpu.clock_graphics": (("clock", "gfx_0", "clk"), 1),
    "gpu.clock_memory": (("clock", "mem_0", "clk"), 1),
    "gpu.clock_video": (("clock", "vclk_0", "clk"), 1),
    "gpu.clock_fabric": (("clock", "fclk_0", "clk"), 1),
    "gpu.clock_soc": (("clock", "socclk_0", "clk"), 1),
    "gpu.temperature": (("temperature", "edge"), 1),
    "gpu.junction_temperature": (("temperature", "hotspot"), 1),
    "gpu.memory_temperature": (("temperature", "mem"), 1),
    "gpu.pcie_width": (("pcie", "width"), 1),
    "gpu.pcie_speed": (("pcie", "speed"), 1),
    "gpu.pcie_replays": (("pcie", "replay_count"), 1),
    "gpu.ecc_volatile_corrected": (("ecc", "total_correctable_count"), 1),
    "gpu.ecc_volatile_uncorrected": (("ecc", "total_uncorrectable_count"), 1),
    "gpu.fan_speed": (("fan", "usage"), 1),
    "gpu.energy": (("energy", "total_energy_consumption"), 1000),
    "gpu.memory_total": (("mem_usage", "total_vram"), MIB),
    "gpu.memory_used": (("mem_usage", "used_vram"), MIB),
    "gpu.memory_free": (("mem_usage", "free_vram"), MIB),
    "gpu.bar1_total": (("mem_usage", "total_visible_vram"), MIB),
    "gpu.bar1_used": (("mem_usage", "used_visible_vram"), MIB),
    "gpu.gtt_used": (("mem_usage", "used_gtt"), MIB),
}
"""Where a metric stands in ``amd-smi metric``, and what it is multiplied with: joules to mJ, MB to bytes."""


def number(value: Any) -> float | None:
    """Return a number as the tools write it; None for ``N/A`` and everything else that is none.

    >>> number("(1402Mhz)"), number({"value": 22, "unit": "W"}), number("N/A (Secondary die)")
    (1402.0, 22.0, None)
    """
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, str):
        value = value.strip("() ").lower().removesuffix("mhz").removesuffix("gt/s").strip()
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    # All ones in 32 or 64 bits and in a metrics table's 16 stand for none.
    none = not math.isfinite(found) or found in (2.0**16 - 1, 2.0**32 - 1) or abs(found) >= 2.0**53
    return None if none else found


def _put(samples: Samples, metric: str, instance: str, value: Any, factor: float = 1.0) -> None:
    found = number(value)
    if found is not None:
        samples[metric, instance] = round(found * factor / SCALES.get(metric, 1.0))


def rocm_smi(document: Any) -> Samples:
    """Return the samples of each card in what ``rocm-smi --json`` printed.

    Raises
    ------
    ValueError
        If the document is of another form.
    """
    if not isinstance(document, dict):
        raise ValueError("is no list of cards")
    cards = {key: card for key, card in document.items() if key.startswith("card") and isinstance(card, dict)}
    names = _rocm_names(cards)
    samples: Samples = {}
    for key, card in cards.items():
        for metric, labels in _ROCM.items():
            for label in labels:
                _put(samples, metric, names[key], card.get(label))
                if (metric, names[key]) in samples:
                    break
        speed, _, width = str(card.get(_ROCM_LINK, "")).partition("(")[2].rstrip(")").partition(" x")
        _put(samples, "gpu.pcie_speed", names[key], speed)
        _put(samples, "gpu.pcie_width", names[key], width)
    return samples


def _rocm_names(cards: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return a lasting name for each card: of its unique id, serial number or PCI address, the first that it
    has and shares with no other; else what the tool calls it.
    """
    names = {key: f"AMD-{key}" for key in cards}
    for label in ("PCI Bus", "Serial Number", "Unique ID"):
        told = {
            key: str(card.get(label, "")).strip().lower().removeprefix("0x") for key, card in cards.items()
        }
        shared = Counter(told.values())
        for key, value in told.items():
            if value.strip("0") and value != "n/a" and shared[value] == 1:
                names[key] = f"AMD-{value}"
    return names


def _entries(document: Any) -> list[dict[str, Any]]:
    """Return the GPUs of a document of ``amd-smi``; they stand under ``gpu_data`` since ROCm 7."""
    entries = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise ValueError("is no list of GPUs")
    return [entry for entry in entries if isinstance(entry, dict)]


def amd_smi_names(document: Any) -> dict[int, str]:
    """Return a lasting name for each GPU in what ``amd-smi list --json`` printed, from UUID or PCI address.

    Raises
    ------
    ValueError
        If the document is of another form.
    """
    names = {}
    for entry in _entries(document):
        index = entry.get("gpu")
        told = [str(entry.get(key, "")).lower() for key in ("uuid", "bdf")]
        known = [value for value in told if value not in ("", "n/a", "none")]
        if isinstance(index, int) and known:
            names[index] = f"AMD-{known[0]}"
    return names


def amd_smi(document: Any, names: dict[int, str]) -> Samples:
    """Return the samples of each GPU in what ``amd-smi metric --json`` printed.

    Raises
    ------
    ValueError
        If the document is of another form.
    """
    samples: Samples = {}
    for entry in _entries(document):
        index = entry.get("gpu")
        if not isinstance(index, int):
            continue
        instance = names.get(index, f"AMD-card{index}")
        for metric, (path, factor) in _AMD.items():
            value: Any = entry
            for step in path:
                value = value.get(step) if isinstance(value, dict) else None
            _put(samples, metric, instance, value, factor)
    return samples
