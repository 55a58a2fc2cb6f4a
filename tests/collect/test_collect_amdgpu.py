"""AMD GPUs: what the tools of several releases print, torn or whole, and tools that fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from collect_parts import SHARED, open_source, read, values
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.source import Source
from reveal_core.collect.sources.amdgpu import AmdGpuSource, Tool, ToolPart, document
from reveal_core.collect.sources.amdgpu_json import (
    MIB,
    SCALES,
    amd_smi,
    amd_smi_names,
    number,
    rocm_smi,
)

CAPTURES = SHARED / "data/telegraf_samples/rocm_smi_json"

# Read off the captures by eye: cards, and samples of one of them.
GOLDEN: dict[str, tuple[int, str, dict[str, float]]] = {
    "mi100_rocm571.json": (
        6,
        "AMD-0000:1e:00.0",
        {
            "temperature": 31.0,
            "junction_temperature": 34.0,
            "clock_fabric": 1402,
            "power": 39.0,
            "voltage": 662,
        },
    ),
    "mi100_rocm602.json": (
        4,
        "AMD-0000:e3:00.0",
        {"memory_used": 6750208, "clock_memory": 1200, "pcie_speed": 16.0, "pcie_width": 16, "power": 39.0},
    ),
    "rx6700xt_rocm430.json": (
        1,
        "AMD-0000:07:00.0",
        {"power": 6.0, "power_limit": 211.0, "gtt_used": 244150272},
    ),
    "rx6700xt_rocm571.json": (1, "AMD-0000:07:00.0", {"voltage": 862, "memory_used": 1564491776}),
    "rx6700xt_rocm602.json": (1, "AMD-0000:07:00.0", {"clock_graphics": 500, "memory_utilization": 0}),
    "rx6700xt_rocm612.json": (1, "AMD-0000:07:00.0", {"clock_graphics": 0, "memory_utilization": 0}),
    "vega-10-XT.json": (
        1,
        "AMD-0000:04:00.0",
        {"fan_speed": 13.0, "memory_temperature": 92.0, "clock_soc": 960},
    ),
    "vega-20-WKS-GL-XE.json": (
        1,
        "AMD-0000:63:00.0",
        {"clock_graphics": 1725, "memory_total": 34342961152, "bar1_used": 10850304, "fan_speed": 0.0},
    ),
}


def captured(name: str) -> str:
    file = CAPTURES / name
    if not file.exists():
        pytest.skip(f"{file} is not there")
    return file.read_text(encoding="utf-8")


@pytest.mark.shared
@pytest.mark.parametrize("name", GOLDEN)
def test_captures_are_read_as_they_say(name: str) -> None:
    cards, instance, expected = GOLDEN[name]
    samples = rocm_smi(document(captured(name)))
    assert len({instance for _, instance in samples}) == cards
    for metric, value in expected.items():
        key = f"gpu.{metric}"
        assert samples[key, instance] * SCALES.get(key, 1.0) == pytest.approx(value), metric
    catalog = load_catalog()
    for (metric, _), raw in samples.items():
        value, entry = raw * SCALES.get(metric, 1.0), catalog[metric]
        assert metric == "gpu.voltage" or (entry.minimum or 0) <= value <= (entry.maximum or value), metric


@pytest.mark.shared
def test_every_capture_has_its_golden_values() -> None:
    if not CAPTURES.is_dir():
        pytest.skip(f"{CAPTURES} is not there")
    assert {file.name for file in CAPTURES.iterdir()} == GOLDEN.keys()


@pytest.mark.shared
def test_power_of_a_second_die_is_missing_and_not_zero() -> None:
    assert ("gpu.power", "AMD-0000:07:00.0") not in rocm_smi(document(captured("rx6700xt_rocm602.json")))


def card(**keys: str) -> dict[str, str]:
    return {"GPU use (%)": "5", **{key.replace("_", " "): value for key, value in keys.items()}}


@pytest.mark.parametrize(
    ("cards", "names"),
    [
        ([card(Unique_ID="0x8cA1f00d", PCI_Bus="0000:07:00.0")], ["AMD-8ca1f00d"]),
        ([card(Unique_ID="0x0", Serial_Number="692231", PCI_Bus="0000:07:00.0")], ["AMD-692231"]),
        ([card(Unique_ID="N/A", Serial_Number="0", PCI_Bus="0000:07:00.0")], ["AMD-0000:07:00.0"]),
        (
            [card(Unique_ID="0xab"), card(Unique_ID="0xab", PCI_Bus="0000:08:00.0")],
            ["AMD-card0", "AMD-0000:08:00.0"],
        ),
    ],
)
def test_a_card_is_named_by_what_it_alone_has(cards: list[dict[str, str]], names: list[str]) -> None:
    found = rocm_smi({f"card{place}": card for place, card in enumerate(cards)} | {"system": {}})
    assert [instance for _, instance in found] == names


AMD_METRIC = {
    "gpu": 0,
    "usage": {
        "gfx_activity": {"value": 97, "unit": "%"},
        "umc_activity": {"value": 31, "unit": "%"},
        "mm_activity": "N/A",
    },
    "power": {"socket_power": {"value": 612, "unit": "W"}, "gfx_voltage": "N/A"},
    "clock": {
        "gfx_0": {"clk": {"value": 2104, "unit": "MHz"}},
        "mem_0": {"clk": {"value": 1300, "unit": "MHz"}},
        "vclk_0": "N/A",
    },
    "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}, "mem": {"value": 58, "unit": "C"}},
    "pcie": {"width": 16, "speed": {"value": 32, "unit": "GT/s"}, "replay_count": 3},
    "ecc": {"total_correctable_count": 5, "total_uncorrectable_count": 1},
    "fan": {"usage": {"value": 49.8, "unit": "%"}},
    "mem_usage": {"total_vram": {"value": 196592, "unit": "MB"}, "used_vram": {"value": 4096, "unit": "MB"}},
    "energy": {"total_energy_consumption": {"value": 12345.678, "unit": "J"}},
}
AMD_LIST = [{"gpu": 0, "bdf": "0000:05:00.0", "uuid": "8CFF74a1-0000-1000-80ff-0123456789ab"}]
AMD_NAME = "AMD-8cff74a1-0000-1000-80ff-0123456789ab"


@pytest.mark.parametrize("wrap", [lambda entries: entries, lambda entries: {"gpu_data": entries}])
def test_amd_smi_is_read_in_both_forms(wrap: Any) -> None:
    samples = amd_smi(wrap([AMD_METRIC]), amd_smi_names(wrap(AMD_LIST)))
    assert {instance for _, instance in samples} == {AMD_NAME}
    found = {metric: raw * SCALES.get(metric, 1.0) for (metric, _), raw in samples.items()}
    assert found == pytest.approx(
        {
            "gpu.utilization": 97,
            "gpu.memory_utilization": 31,
            "gpu.power": 612,
            "gpu.clock_graphics": 2104,
            "gpu.clock_memory": 1300,
            "gpu.junction_temperature": 71,
            "gpu.memory_temperature": 58,
            "gpu.pcie_width": 16,
            "gpu.pcie_speed": 32,
            "gpu.pcie_replays": 3,
            "gpu.ecc_volatile_corrected": 5,
            "gpu.ecc_volatile_uncorrected": 1,
            "gpu.fan_speed": 49.8,
            "gpu.memory_total": 196592 * MIB,
            "gpu.memory_used": 4096 * MIB,
            "gpu.energy": 12345678,
        }
    )
    assert found.keys() <= load_catalog().keys()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("39.0", 39.0),
        ("(1402Mhz)", 1402.0),
        ("16.0GT/s", 16.0),
        (0, 0.0),
        ({"value": 7, "unit": "%"}, 7.0),
        *(
            (none, None)
            for none in ("N/A", "N/A (Secondary die)", "", "nan", "inf", "0x0", None, True, [], {})
        ),
        *((none, None) for none in ("65535", "4294967295", "18446744073709551615", {"value": "N/A"})),
    ],
)
def test_only_numbers_are_numbers(text: Any, value: float | None) -> None:
    assert number(text) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["card0", "gpu", "gpu_data", "usage", "value", "PCI Bus"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document_gives_samples_or_a_reason(garbage: Any) -> None:
    for parse in (rocm_smi, lambda document: amd_smi(document, {})):
        try:
            samples = parse(garbage)
        except ValueError:
            continue
        assert all(isinstance(raw, int) for raw in samples.values())


@given(st.text(max_size=60))
def test_any_output_gives_a_document_or_a_reason(text: str) -> None:
    try:
        document(text)
    except ValueError:
        return
    assert "{" in text or "[" in text


class StubAmdSource(AmdGpuSource):
    """The source over a tool that a test wrote."""

    def probe(self) -> str | None:
        return None

    def open(self) -> None:
        self.parts.append(ToolPart(Tool(str(self.root / "rocm-smi"), timeout_s=5.0), self.columns))


def tool(folder: Path, script: str, name: str = "rocm-smi") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def prints(folder: Path, told: object, name: str = "rocm-smi") -> Path:
    (folder / f"{name}.json").write_text("WARNING: low power state\n" + json.dumps(told), encoding="utf-8")
    return tool(folder, f"cat {folder}/{name}.json", name)


def test_cards_come_and_go_and_what_they_do_not_tell_is_missing(tmp_path: Path) -> None:
    first = card(PCI_Bus="0000:07:00.0", Voltage_x="1") | {"Average Graphics Package Power (W)": "39.0"}
    prints(tmp_path, {"card0": first, "system": {"Driver version": "6.3.6"}})
    source: Source = open_source(StubAmdSource, tmp_path, 5000)
    assert values(source) == {
        "gpu.utilization/AMD-0000:07:00.0": 5,
        "gpu.power/AMD-0000:07:00.0": 39000,
    }
    prints(tmp_path, {"card0": first | {"GPU use (%)": "N/A"}, "card1": card(PCI_Bus="0000:08:00.0")})
    assert read(source) == {
        "gpu.utilization/AMD-0000:07:00.0": None,
        "gpu.power/AMD-0000:07:00.0": 39000,
        "gpu.utilization/AMD-0000:08:00.0": 5,
    }
    prints(tmp_path, {"card1": card(PCI_Bus="0000:08:00.0")})
    assert read(source) == {"gpu.utilization/AMD-0000:08:00.0": 5}
    for broken in ("echo cannot open /dev/kfd >&2; exit 1", "echo '{\"card1\": '", "exit 0"):
        tool(tmp_path, broken)
        assert read(source) == {"gpu.utilization/AMD-0000:08:00.0": None}
    assert any("cannot open /dev/kfd" in error for error in source.columns.errors)
    prints(tmp_path, {"card1": card(PCI_Bus="0000:08:00.0")})
    assert read(source) == {"gpu.utilization/AMD-0000:08:00.0": 5}
    source.close()


def test_amd_smi_is_asked_for_names_once(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text(json.dumps(AMD_LIST))
    (tmp_path / "metric.json").write_text(json.dumps({"gpu_data": [AMD_METRIC]}))
    program = Tool(str(tool(tmp_path, f"echo $1 >>{tmp_path}/asked; cat {tmp_path}/$1.json", "amd-smi")))
    first = program.read()
    assert first["gpu.utilization", AMD_NAME] == 97
    assert program.read() == first
    assert (tmp_path / "asked").read_text().split() == ["list", "metric", "metric"]


def test_a_tool_that_hangs_is_killed(tmp_path: Path) -> None:
    program = Tool(str(tool(tmp_path, "exec sleep 100")), timeout_s=0.2)
    with pytest.raises(TimeoutError, match=r"no answer within 0.2 s"):
        program.read()


def test_why_there_are_no_amd_gpus_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = Columns("amd_gpu", 5000, load_catalog(), load_left_out())
    assert str(tmp_path) in str(AmdGpuSource(tmp_path, columns).probe())
    live = AmdGpuSource(Path("/"), columns)
    monkeypatch.setattr(AmdGpuSource, "path", lambda self, relative: tmp_path / relative)
    assert "modprobe amdgpu" in str(live.probe())
    (tmp_path / "sys/module/amdgpu").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("reveal_core.collect.sources.amdgpu.FOLDERS", ())
    assert "amd-smi-lib" in str(live.probe())
    prints(tmp_path, {"card0": card()})
    assert live.probe() is None
    live.open()
    assert [part.file.path for part in live.parts] == [str(tmp_path / "rocm-smi")]
