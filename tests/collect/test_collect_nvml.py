"""NVIDIA GPUs through the real nvidia-ml-py over a stand-in library: values, blanks, and GPUs that fail."""

from __future__ import annotations

import json
import math
import random
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from collect_parts import REPOSITORY, SHARED, open_source, read, values, write
from hypothesis import given
from hypothesis import strategies as st
from nvml_stub import MIB, NvmlStub, mig_slice, name, stub_nvml, uuid

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.segments import encode_column
from reveal_core.collect.source import Source
from reveal_core.collect.sources import nvml, nvml_gpu, nvml_session
from reveal_core.collect.sources.nvml import (
    DEVICES,
    NvmlDetailSource,
    NvmlHealthSource,
    NvmlSource,
    gpu_facts,
)
from reveal_core.collect.sources.nvml_calls import field_value, unpack_bits
from reveal_core.collect.sources.nvml_session import clean

LIVE = Path("/")
BLANKS = (
    *(0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFF, 0x7FFFFFFFFFFFFFFF),
    *(0x7FFFFFF0, 0x7FFFFFF1, 0x7FFFFFF2, 0x7FFFFFF3),
    *(0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF1, 0x7FFFFFFFFFFFFFF2, 0x7FFFFFFFFFFFFFF3),
    *(140737488355328, 140737488355329, 140737488355330, 140737488355331),
)
"""Not available, in 32 and 64 bits with and without sign; then blank, not found, not supported and not
permitted as int32, int64 and double.
"""
KINDS: tuple[type[Source], ...] = (NvmlSource, NvmlDetailSource, NvmlHealthSource)


@pytest.fixture
def stub(tmp_path: Path) -> Iterator[NvmlStub]:
    with stub_nvml(tmp_path, gpus=2) as stub:
        yield stub


def of(samples: dict[str, int | None], gpu: int) -> dict[str, int | None]:
    """Return the samples of one GPU, without what belongs to its slices or links, by metric."""
    ending = f"/{name(gpu)}"
    return {key.removesuffix(ending): value for key, value in samples.items() if key.endswith(ending)}


def physical(source: Source) -> dict[str, float | None]:
    """Return what would be stored, in the catalogue's units."""
    stored = {}
    for slot, column in enumerate(source.columns.slots):
        if column is not None and slot not in source.columns.gone:
            array = encode_column(column, np.array([source.columns.row[slot]], dtype=np.int64))
            stored[column.channel.name] = array[0].as_py()
    return stored


def test_a_busy_gpu_is_read_as_it_says(stub: NvmlStub) -> None:
    stub.set(1, "UtilizationRates", 37, 5)
    stub.set(1, "CurrentClocksEventReasons", 0x4 | 0x40)
    source = open_source(NvmlSource, LIVE)
    first, second = of(values(source), 0), of(values(source), 1)
    assert first["gpu.utilization"] == 100
    assert first["gpu.clock_sm"] == 1980
    assert first["gpu.memory_used"] == 19818 * MIB
    assert (second["gpu.utilization"], second["gpu.memory_utilization"]) == (37, 5)
    held = {metric for metric, value in second.items() if metric.startswith("gpu.throttle") and value}
    assert held == {"gpu.throttle_power_cap", "gpu.throttle_hw_thermal"}
    assert physical(source)[f"gpu.power/{name(0)}"] == pytest.approx(588.39)
    assert len(first) == 18
    assert not source.columns.errors
    source.close()


@pytest.mark.parametrize(
    ("kind", "channels"), [(NvmlSource, 36), (NvmlDetailSource, 82), (NvmlHealthSource, 282)]
)
def test_every_channel_is_in_the_catalogue_and_in_its_range(
    stub: NvmlStub, kind: type[Source], channels: int
) -> None:
    source = open_source(kind, LIVE)
    found = physical(source)
    assert len(found) == channels
    assert not source.columns.unknown
    missing = {key for key, value in found.items() if value is None}
    assert missing == ({f"gpu.xid_last/{name(gpu)}" for gpu in (0, 1)} if kind is NvmlDetailSource else set())
    source.close()


def test_what_moves_slowly_or_counts(stub: NvmlStub) -> None:
    detail, health = open_source(NvmlDetailSource, LIVE), open_source(NvmlHealthSource, LIVE)
    slow, stored = of(values(detail), 0), physical(detail)
    assert (slow["gpu.temperature"], slow["gpu.memory_temperature"]) == (59, 55)
    assert slow["gpu.temperature_margin"] == 26
    assert (slow["gpu.clock_graphics"], slow["gpu.clock_memory"]) == (1980, 2619)
    assert (slow["gpu.compute_processes"], slow["gpu.graphics_processes"]) == (3, 0)
    assert (slow["gpu.pcie_generation"], slow["gpu.pcie_width"], slow["gpu.pcie_replays"]) == (5, 16, 9)
    assert slow["gpu.nvlink_tx_data"] == 90000
    assert slow["gpu.energy"] == 123456789
    assert stored[f"gpu.power_limit/{name(0)}"] == 700.0
    samples = values(health)
    assert of(samples, 0)["gpu.temperature_slowdown_margin"] == -2
    assert samples[f"gpu.nvlink_link_active/{name(0)}:link17"] == 1
    assert samples[f"gpu.nvlink_link_rx_data/{name(1)}:link0"] == 5000
    assert of(samples, 0)["gpu.memory_total"] == 81559 * MIB
    detail.close()
    health.close()


def capture(state: str) -> dict[str, float]:
    """Return nvidia-smi's values of a real H100, by metric, in base units."""
    file = SHARED / f"data/nvidia_smi/linux-x86_64__nvidia-h100-80gb-hbm3__590.48.01__{state}.metrics"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    found = re.findall(r"^nvidia_smi_(\w+)\{[^}]*\} (\S+)$", file.read_text(), re.MULTILINE)
    return {key: float(value) for key, value in found}


@pytest.mark.shared
@pytest.mark.parametrize("state", ["idle", "load"])
def test_samples_equal_what_nvidia_smi_told_of_a_real_gpu(stub: NvmlStub, state: str) -> None:
    real = capture(state)
    stub.set(
        0, "UtilizationRates", *(round(100 * real[f"utilization_{what}_ratio"]) for what in ("gpu", "memory"))
    )
    for domain, what in enumerate(("graphics", "sm", "memory", "video")):
        stub.set(0, f"ClockInfo.{domain}", round(real[f"clocks_current_{what}_clock_hz"] / 1e6))
    stub.set(
        0,
        "MemoryInfo",
        *(round(real[f"memory_{what}_bytes"]) for what in ("total", "reserved", "free", "used")),
    )
    stub.set(0, "CurrentClocksEventReasons", int(real["clocks_event_reasons_active"]))
    stub.set(0, "Field.186", f"ui:{round(real['power_draw_instant_watts'] * 1000)}")
    stub.set(0, "Temperature.0", int(real["temperature_gpu"]))
    fast, detail = open_source(NvmlSource, LIVE), open_source(NvmlDetailSource, LIVE)
    stored = {**physical(fast), **physical(detail)}
    expected = {
        "utilization": 100 * real["utilization_gpu_ratio"],
        "memory_utilization": 100 * real["utilization_memory_ratio"],
        "clock_sm": real["clocks_current_sm_clock_hz"] / 1e6,
        "clock_video": real["clocks_current_video_clock_hz"] / 1e6,
        "memory_used": real["memory_used_bytes"],
        "memory_free": real["memory_free_bytes"],
        "memory_reserved": real["memory_reserved_bytes"],
        "throttle_idle": real["clocks_event_reasons_gpu_idle"],
        "throttle_power_cap": real["clocks_event_reasons_sw_power_cap"],
        "power": real["power_draw_instant_watts"],
        "temperature": real["temperature_gpu"],
    }
    for metric, value in expected.items():
        assert stored[f"gpu.{metric}/{name(0)}"] == pytest.approx(value, rel=1e-6), metric
    fast.close()
    detail.close()


@pytest.mark.parametrize("blank", BLANKS, ids=hex)
def test_no_blank_of_the_vendors_becomes_a_number(stub: NvmlStub, blank: int) -> None:
    stub.set(0, "MemoryInfo", blank, blank, blank, blank)
    stub.set(0, "CurrentClocksEventReasons", blank)
    stub.set(0, "Field.83", f"ull:{blank}")
    stub.set(0, "Field.186", f"d:{blank}")
    stub.set(0, "Field.138.4294967295", f"sll:{blank if blank < 2**63 else -1}")
    if blank < 2**32:
        stub.set(0, "UtilizationRates", blank, blank)
        stub.set(0, "Temperature.0", blank)
        stub.set(0, "Field.82", f"ui:{blank}")
    fast, detail = open_source(NvmlSource, LIVE), open_source(NvmlDetailSource, LIVE)
    found, slow = of(physical(fast), 0), of(physical(detail), 0)
    for metric in ("gpu.memory_used", "gpu.throttle_idle", "gpu.throttle_other", "gpu.power"):
        assert found[metric] is None, metric
    for metric in ("gpu.memory_free", "gpu.memory_reserved", "gpu.energy", "gpu.nvlink_tx_data"):
        assert slow[metric] is None, metric
    if blank < 2**32:
        assert found["gpu.utilization"] is found["gpu.memory_utilization"] is None
        assert slow["gpu.temperature"] is slow["gpu.memory_temperature"] is None
    assert found["gpu.clock_sm"] == 1980
    fast.close()
    detail.close()


@pytest.mark.parametrize(
    ("key", "answer", "metric"),
    [
        ("UtilizationRates", "101 250", "gpu.utilization"),
        ("UtilizationRates", "100 101", "gpu.memory_utilization"),
        ("ClockInfo.1", "50000", "gpu.clock_sm"),
        ("Field.186", "ui:99999999", "gpu.power"),
        ("Field.186", "d:nan", "gpu.power"),
        ("Field.186", "d:inf", "gpu.power"),
        ("Field.186", "si:-5", "gpu.power"),
        ("MemoryInfo", f"1 1 1 {2**60}", "gpu.memory_used"),
    ],
)
def test_what_cannot_be_true_is_missing(stub: NvmlStub, key: str, answer: str, metric: str) -> None:
    stub.set(0, key, answer)
    source = open_source(NvmlSource, LIVE)
    assert of(physical(source), 0)[metric] is None
    assert of(physical(source), 1)[metric] is not None
    source.close()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_a_driver_answers_is_in_range_or_missing(stub: NvmlStub, seed: int) -> None:
    """Codes of all kinds and numbers of all sizes, anew at each of several reads."""
    rng = random.Random(seed)
    catalog = load_catalog()
    sources = [open_source(kind, LIVE) for kind in KINDS]
    usual = [of(values(source), 1) for source in sources]
    identity = {"UUID", "Name", "PciInfo", "SupportedEventTypes"}
    keys = [key for gpu, key in stub.answers if gpu == "*" and key not in identity]
    for _ in range(4):
        for key in rng.sample(keys, 60):
            kind = rng.choice(
                ["", "ui:", "ul:", "ull:", "sll:", "si:", "us:"] if key.startswith("Field") else [""]
            )
            size = rng.choice([1, 8, 31, 32, 62, 63, 64])
            number = rng.choice([rng.getrandbits(size), -rng.getrandbits(8), *BLANKS])
            answer = rng.choice(
                [f"{kind}{number} {number} {number} {number}", f"error {rng.randrange(1, 40)}"]
            )
            if answer not in {f"error {code}" for code in nvml_session.DOWN}:
                stub.answers["0", key] = answer
        stub.write()
        for source, other in zip(sources, usual, strict=True):
            assert of(read(source), 1) == other
            for channel, value in physical(source).items():
                metric = catalog[channel.split("/")[0]]
                low = metric.minimum if metric.minimum is not None else 0
                assert value is None or low <= value <= (metric.maximum or 2**63), channel
    for source in sources:
        source.close()


@given(st.integers(0, 2**64 - 1))
def test_only_blanks_and_what_exceeds_63_bits_are_cleaned(value: int) -> None:
    assert clean(value) == (MISSING if value in BLANKS or value >= 2**63 else value)


@given(st.integers(-1, 9), st.integers(0, 2**64 - 1))
def test_eight_bytes_of_any_type_give_their_number_or_none(kind: int, raw: int) -> None:
    """Against the struct module's own reading of the same bytes."""
    found = field_value(kind, raw)
    form = {0: "d", 1: "I", 2: "Q", 3: "Q", 4: "q", 5: "i", 6: "H"}.get(kind)
    if form is None:
        assert found == MISSING
        return
    (value,) = struct.unpack_from(form, struct.pack("Q", raw))
    if found == MISSING:
        assert not math.isfinite(value) or abs(value) >= 2**62 or round(value) in {*BLANKS, -1, 0xFFFF}
    else:
        assert found == round(value)
        assert found not in BLANKS


@given(st.integers(0, 2**62), st.integers(2, 20))
def test_bits_of_a_mask_add_up_to_it(mask: int, count: int) -> None:
    bits = unpack_bits(mask, count)
    assert sum(bit << place for place, bit in enumerate(bits[:-1])) == mask % 2 ** (count - 1)
    assert bits[-1] == (mask >= 2 ** (count - 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_gpu_costs_only_its_own_samples(stub: NvmlStub, kind: type[Source]) -> None:
    source = open_source(kind, LIVE)
    healthy = values(source)
    stub.set(1, "lost")
    without = read(source)
    assert of(without, 0) == of(healthy, 0)
    lost = of(without, 1)
    assert lost.keys() == of(healthy, 1).keys()
    assert lost.pop("gpu.lost", 1) == 1
    assert lost.pop("gpu.xid_errors", 0) == 0
    assert set(lost.values()) == {None}
    assert list(source.columns.errors) == [f"{name(1)}: NVML: gpu is lost"]
    read(source)
    assert sum(source.columns.errors.values()) == 1
    stub.clear(1)
    assert read(source) == healthy
    source.close()


def test_a_gpu_lost_before_it_was_ever_read_is_taken_up_when_it_is_there(stub: NvmlStub) -> None:
    stub.set(1, "lost")
    source = open_source(NvmlSource, LIVE)
    assert len(of(values(source), 0)) == 18
    assert not of(values(source), 1)
    assert list(source.columns.errors) == ["GPU 1: NVML: gpu is lost"]
    stub.clear(1)
    assert len(of(read(source), 1)) == 18
    source.close()


def test_a_call_that_never_returns_keeps_only_its_own_gpu_waiting(
    stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(NvmlSource, LIVE)
    monkeypatch.setattr(nvml, "FIRST_S", 0.3)
    stub.set(0, "UtilizationRates", 12, 3)
    stub.set(1, "UtilizationRates", "hang")
    for error in ("does not answer", "an earlier call has not returned"):
        found = read(source)
        assert of(found, 0)["gpu.utilization"] == 12
        assert set(of(found, 1).values()) == {None}
        assert source.columns.errors[f"{name(1)}: {error}"] == 1
    source.close()  # neither waits for it nor takes NVML from under it
    assert of(read(source), 0)["gpu.utilization"] == 12


def test_a_gpu_that_hangs_from_the_start_costs_no_other(
    stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "FIRST_S", 0.3)
    stub.set(1, "hang")
    for kind in KINDS:
        source = open_source(kind, LIVE)
        assert None not in (of(values(source), 0) | {"gpu.xid_last": 0}).values()
        assert list(source.columns.errors) == ["GPU 1: does not answer"]
        source.close()


def test_what_is_not_supported_is_asked_once(stub: NvmlStub) -> None:
    stub.set(0, "UtilizationRates", "unsupported")
    stub.set(0, "Field.186", "unsupported")
    stub.set(0, "PowerUsage", "unsupported")
    source = open_source(NvmlSource, LIVE)
    lacking = {"gpu.utilization", "gpu.memory_utilization", "gpu.power"}
    assert of(values(source), 1).keys() - of(values(source), 0).keys() == lacking
    for key in ("UtilizationRates", "Field.186", "PowerUsage"):
        stub.clear(0, key)
    assert not lacking & of(read(source), 0).keys()
    assert not source.columns.errors
    source.close()


def test_what_stands_in_for_an_unsupported_field_is_asked(stub: NvmlStub) -> None:
    stub.set(0, "Field.186", "unsupported")
    stub.set(0, "Field.197", "ui:4000000000")  # 32 bits wrap too fast to be of use
    stub.set(0, "Field.198", "unsupported")
    fast, detail = open_source(NvmlSource, LIVE), open_source(NvmlDetailSource, LIVE)
    assert of(physical(fast), 0)["gpu.power"] == pytest.approx(629.45)
    found = of(physical(detail), 0)
    assert (found["gpu.pcie_tx_throughput"], found["gpu.pcie_rx_throughput"]) == (3092000.0, 6346000.0)
    assert "gpu.pcie_tx_bytes" not in found
    assert "gpu.pcie_tx_bytes" in of(physical(detail), 1)
    fast.close()
    detail.close()


def test_a_field_that_spoils_the_whole_call_is_found_and_left_out(stub: NvmlStub) -> None:
    usual = open_source(NvmlDetailSource, LIVE)
    stub.set(0, "Field.160", "error 2")
    stub.set(0, "Field.83", "error 2")
    source = open_source(NvmlDetailSource, LIVE)
    found = of(values(source), 0)
    assert of(values(usual), 0).keys() - found.keys() == {"gpu.nvlink_ecc_data_errors"}
    assert found["gpu.energy"] == 123456789  # by nvmlDeviceGetTotalEnergyConsumption
    assert found["gpu.nvlink_rx_raw"] == 117000
    assert of(read(source), 0) == found
    usual.close()
    source.close()


@pytest.mark.parametrize("error", [8, 10, 11, 14, 17, 19, 20, 21, 999])
def test_an_error_that_may_pass_makes_one_sample_missing(stub: NvmlStub, error: int) -> None:
    source = open_source(NvmlSource, LIVE)
    stub.set(0, "ClockInfo.1", f"error {error}")
    stub.set(0, "Field.186", f"error {error}")
    found = of(read(source), 0)
    assert [metric for metric, value in found.items() if value is None] == ["gpu.clock_sm", "gpu.power"]
    stub.clear(0, "ClockInfo.1")
    stub.clear(0, "Field.186")
    assert None not in of(read(source), 0).values()
    source.close()


def test_xid_errors_are_counted_and_the_last_is_told(stub: NvmlStub) -> None:
    source = open_source(NvmlDetailSource, LIVE)
    stub.set(0, "Xid", 63, 48)
    found = of(read(source), 0)
    assert (found["gpu.xid_errors"], found["gpu.xid_last"]) == (2, 48)
    stub.set(0, "Xid", 63, 48, 79)
    stub.set(0, "ClockInfo.3", "lost")
    found = of(read(source), 0)
    assert (found["gpu.xid_errors"], found["gpu.xid_last"]) == (3, 79)
    assert found["gpu.temperature"] is None
    assert of(read(source), 1)["gpu.xid_errors"] == 0
    source.close()


def test_a_gpu_without_events_has_no_xid_channels(stub: NvmlStub) -> None:
    stub.set(0, "SupportedEventTypes", 0)
    stub.set(1, "SupportedEventTypes", "unsupported")
    source = open_source(NvmlDetailSource, LIVE)
    assert not [channel for channel in values(source) if "xid" in channel]
    source.close()


def test_slices_stand_beside_their_gpu(stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_gpu, "SLICES_S", 0.0)
    stub.slice_up(0, [mig_slice(2, 40, 26 * MIB), mig_slice(9, 10, 9 * MIB)])
    fast, health = open_source(NvmlSource, LIVE), open_source(NvmlHealthSource, LIVE)
    first, second = f"{name(0)}:gi2:ci0", f"{name(0)}:gi9:ci0"
    found = values(fast)
    assert found[f"gpu.slice_memory_used/{first}"] == 26 * MIB
    assert found[f"gpu.slice_memory_used/{second}"] == 9 * MIB
    assert of(found, 0)["gpu.memory_used"] == 19818 * MIB
    assert "gpu.utilization" not in of(found, 0)
    assert {key.split("/")[0] for key in found if key.endswith(first)} == {"gpu.slice_memory_used"}
    assert physical(health)[f"gpu.slice_memory_total/{first}"] == 40 * 1024 * MIB
    assert of(values(health), 0)["gpu.mig_mode"] == 1
    stub.slice_up(0, [mig_slice(2, 40, 27 * MIB)])
    found = read(fast)
    assert f"gpu.slice_memory_used/{second}" not in found
    assert found[f"gpu.slice_memory_used/{first}"] == 27 * MIB
    stub.slice_up(0, [])
    found = read(fast)
    assert f"gpu.slice_memory_used/{first}" not in found
    assert of(found, 0)["gpu.utilization"] == 100
    fast.close()
    health.close()


def test_gpus_whose_short_names_are_the_same_stay_apart(stub: NvmlStub) -> None:
    stub.set(1, "UUID", uuid(0)[:-4] + "ffff")
    stub.set(1, "UtilizationRates", 7, 7)
    source = open_source(NvmlSource, LIVE)
    found = values(source)
    source.close()
    uses = {uuid(0): 100, f"{uuid(0)[:-4]}ffff": 7}
    named = {
        key.partition("/")[2]: value for key, value in found.items() if key.startswith("gpu.utilization/")
    }
    # GPUs are found side by side: which of them is first, and gets the short name, is not said.
    (whole,) = uses.keys() & named.keys()
    (other,) = uses.keys() - {whole}
    assert (named[whole], named[name(0)]) == (uses[whole], uses[other])


def test_nvml_is_begun_anew_after_the_driver_was_reloaded(
    stub: NvmlStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.set(0, "Field.186", "unsupported")
    stub.set(0, "PowerUsage", "unsupported")
    sources = [open_source(kind, LIVE) for kind in KINDS]
    healthy = [values(source) for source in sources]
    stub.reload_driver()
    stub.init_error = 9
    stub.clear(0, "Field.186")
    for source, before in zip(sources, healthy, strict=True):
        found = read(source)
        assert found.keys() == before.keys()
        assert set(found.values()) == {None}
        assert any("uninitialized" in error for error in source.columns.errors)
        read(source)
    monkeypatch.setattr(nvml_session, "RETRY_S", 0.0)
    for source in sources:
        assert set(read(source).values()) == {None}
    stub.init_error = 0
    stub.write()
    found = read(sources[0])
    assert found.keys() - healthy[0].keys() == {f"gpu.power/{name(0)}"}  # asked anew
    assert None not in found.values()
    assert [read(source) for source in sources[1:]] == healthy[1:]
    for source in sources:
        source.close()


def test_a_gpu_that_is_plugged_in_is_found(
    stub: NvmlStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_session, "RETRY_S", 0.0)
    monkeypatch.setattr(nvml, "COUNT_S", 0.0)
    monkeypatch.setattr(NvmlSource, "path", lambda self, relative: tmp_path / relative)
    for address in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / DEVICES / address).mkdir(parents=True)
    source = open_source(NvmlSource, LIVE)
    assert not of(values(source), 2)
    stub.count = 3
    stub.write()
    read(source)
    assert not of(values(source), 2)  # NVML does not see it before it is begun anew
    (tmp_path / DEVICES / "0000:03:00.0").mkdir()
    for _ in range(4):
        read(source)
    assert [len(of(values(source), gpu)) for gpu in range(3)] == [18, 18, 18]
    stub.count = 1
    (tmp_path / DEVICES / "0000:03:00.0").rmdir()
    stub.reload_driver()
    for _ in range(4):
        read(source)
    assert [len(of(values(source), gpu)) for gpu in range(3)] == [18, 0, 0]
    source.close()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (9, "modprobe nvidia"),
        (18, "reboot"),
        (4, "/dev/nvidiactl"),
        (12, "libnvidia-ml"),
        (999, "unknown error"),
    ],
)
def test_why_there_are_no_gpus_is_told_in_one_line(stub: NvmlStub, code: int, told: str) -> None:
    stub.init_error = code
    stub.write()
    for kind in KINDS:
        reason = kind(LIVE, Columns(kind.name, 100, load_catalog(), load_left_out())).probe()
        assert reason is not None
        assert told in reason
        assert "\n" not in reason
    assert gpu_facts() == []


def test_a_host_without_the_library_is_told_so_and_loads_no_binding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", str(tmp_path / "libnvidia-ml.so.1"))
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it would fail
    reason = NvmlSource(LIVE, Columns("gpu", 100, load_catalog(), load_left_out())).probe()
    assert reason is not None
    assert reason.startswith("libnvidia-ml.so.1 is not there")
    assert gpu_facts() == []


def test_a_driver_without_gpus_and_a_captured_tree_are_told_too(stub: NvmlStub, tmp_path: Path) -> None:
    stub.count = 0
    stub.write()
    columns = Columns("gpu", 100, load_catalog(), load_left_out())
    assert NvmlSource(LIVE, columns).probe() == "the NVIDIA driver has no GPU"
    write(tmp_path, "proc/sys/kernel/random/boot_id", "the boot of another host\n")
    assert str(tmp_path) in str(NvmlSource(tmp_path, columns).probe())


def test_a_root_that_is_this_host_mounted_elsewhere_has_its_gpus(stub: NvmlStub, tmp_path: Path) -> None:
    boot = "proc/sys/kernel/random/boot_id"
    write(tmp_path, boot, (LIVE / boot).read_text())
    source = open_source(NvmlSource, tmp_path)
    assert len(values(source)) == 36
    source.close()
    write(tmp_path, boot, "another boot\n")
    assert NvmlSource(tmp_path, source.columns).probe() is not None


def test_facts_tell_which_gpu_is_which(stub: NvmlStub) -> None:
    stub.set(1, "lost")
    facts = gpu_facts()
    assert facts == [
        {
            "index": 0,
            "name": name(0),
            "uuid": uuid(0),
            "pci_address": "00000000:01:00.0",
            "product": "NVIDIA H100 80GB HBM3",
            "memory_bytes": 81559 * MIB,
            "driver_version": "590.48.01",
        }
    ]


OTHER_PROCESS = """
import json, sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
from collect_parts import open_source, values
from reveal_core.collect.sources.nvml import NvmlDetailSource, NvmlHealthSource, NvmlSource
samples = {}
for kind in (NvmlSource, NvmlDetailSource, NvmlHealthSource):
    source = open_source(kind, Path("/"))
    samples |= values(source)
    assert not source.columns.errors, source.columns.errors
    source.close()
print(json.dumps(samples))
"""


def test_an_older_library_is_asked_in_its_own_words(tmp_path: Path) -> None:
    """In a process of its own, as it would be installed: found by the loader, with functions lacking."""
    with stub_nvml(tmp_path, gpus=1, load=False, old=True) as stub:
        command = [sys.executable, "-c", OTHER_PROCESS, str(REPOSITORY), str(REPOSITORY / "tests/collect")]
        done = subprocess.run(
            command, env=stub.env(), capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    found = of(json.loads(done.stdout), 0)
    assert found["gpu.memory_used"] == 19818 * MIB  # by nvmlDeviceGetMemoryInfo
    assert found["gpu.throttle_idle"] == 0  # by nvmlDeviceGetCurrentClocksThrottleReasons
    assert found["gpu.power"] == 629450  # by nvmlDeviceGetPowerUsage, for there are no field values
    assert found["gpu.energy"] == 123456789
    assert found["gpu.compute_processes"] == 3
    assert "gpu.memory_reserved" not in found
    assert "gpu.temperature_margin" not in found
