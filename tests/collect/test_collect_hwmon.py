"""Sensors: names that stay, values in range, and devices that come, go or hang."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from collect_parts import HOST_TREE, SHARED, copy_tree, open_source, read, unpack_ttar, values, write

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.lanes import Lanes
from reveal_core.collect.sources.hwmon import HwmonSource, sensor_files
from reveal_core.collect.sources.thermal import ThermalSource

TOP = "sys/class/hwmon"


def device(root: Path, number: int, name: str, bus: str = "", **files: object) -> None:
    """Write a device; ``bus`` is the address that its ``device`` link leads to."""
    write(root, f"{TOP}/hwmon{number}/name", f"{name}\n")
    for file, value in files.items():
        write(root, f"{TOP}/hwmon{number}/{file}", f"{value}\n")
    if bus:
        target = root / "sys/devices" / bus
        target.mkdir(parents=True, exist_ok=True)
        (root / TOP / f"hwmon{number}" / "device").symlink_to(
            os.path.relpath(target, root / TOP / f"hwmon{number}")
        )


def test_a_captured_host_is_read_as_it_says() -> None:
    source = open_source(HwmonSource, HOST_TREE, 2000)
    assert values(source) == {
        "thermal.temperature/coretemp:Physical_id_0": 55000,
        "thermal.temperature/coretemp:Core_0": 54000,
    }
    source.close()


def test_every_kind_of_sensor_has_its_metric_and_voltages_are_left_out(tmp_path: Path) -> None:
    device(
        tmp_path,
        0,
        "board",
        power1_average=250_000_000,
        power1_input=251_000_000,
        power2_average=90_000_000,
        power1_label="CPU",
        fan1_input=1200,
        energy1_input=77,
        in0_input=12000,
        curr1_input=3,
        temp1_input=-5000,
        temp1_crit=100000,
    )
    source = open_source(HwmonSource, tmp_path, 2000)
    assert values(source) == {
        "hwmon.power/board:CPU": 251_000_000,
        "hwmon.power/board:power2": 90_000_000,
        "hwmon.fan/board:fan1": 1200,
        "hwmon.energy/board:energy1": 77,
        "thermal.temperature/board:temp1": -5000,
    }
    scales = {column.channel.metric: column.scale for column in source.columns.slots if column is not None}
    assert scales == {
        "hwmon.power": 1e-6,
        "hwmon.fan": 1.0,
        "hwmon.energy": 1.0,
        "thermal.temperature": 1e-3,
    }
    source.close()


@pytest.mark.parametrize("text", ["-128000", "255500", "N/A", "", "1e3", "2147483647"])
def test_what_a_sensor_gives_for_nothing_is_missing(tmp_path: Path, text: str) -> None:
    device(tmp_path, 0, "chip", temp1_input=text, temp2_input=40000)
    source = open_source(HwmonSource, tmp_path, 2000)
    found = values(source)
    assert found["thermal.temperature/chip:temp1"] is None
    assert found["thermal.temperature/chip:temp2"] == 40000
    source.close()


def test_sensors_that_would_interrupt_every_core_are_left_alone(tmp_path: Path) -> None:
    device(tmp_path, 0, "amd_energy", energy1_input=123456)
    device(tmp_path, 1, "k10temp", temp1_input=45000)
    source = open_source(HwmonSource, tmp_path)
    assert values(source) == {"thermal.temperature/k10temp:temp1": 45000}
    source.close()


def test_devices_of_one_driver_are_told_apart_by_their_address(tmp_path: Path) -> None:
    for number, bus in ((0, "0000:81:00.0"), (1, "0000:01:00.0")):
        device(tmp_path, number, "nvme", bus, temp1_input=30000 + number, temp1_label="Composite")
    device(
        tmp_path,
        2,
        "k10temp",
        "pci-k10",
        temp1_input=1,
        temp1_label="Tctl",
        temp2_input=2,
        temp2_label="Tctl",
    )
    source = open_source(HwmonSource, tmp_path, 2000)
    assert values(source) == {
        "thermal.temperature/nvme@0000:81:00.0:Composite": 30000,
        "thermal.temperature/nvme@0000:01:00.0:Composite": 30001,
        "thermal.temperature/k10temp:Tctl-temp1": 1,
        "thermal.temperature/k10temp:Tctl-temp2": 2,
    }
    source.close()


def test_a_device_that_goes_and_comes_costs_only_its_own_samples(tmp_path: Path) -> None:
    device(tmp_path, 0, "a", temp1_input=1000)
    device(tmp_path, 1, "b", temp1_input=2000)
    source = open_source(HwmonSource, tmp_path, 2000)
    held = tmp_path / "held"
    (tmp_path / TOP / "hwmon1").rename(held)
    for part in source.parts:
        part.file.close()
    found = read(source)
    assert found["thermal.temperature/a:temp1"] == 1000
    assert found["thermal.temperature/b:temp1"] is None
    assert read(source) == {"thermal.temperature/a:temp1": 1000}
    held.rename(tmp_path / TOP / "hwmon7")  # a driver that is loaded again gets another number
    for _ in range(2):
        found = read(source)
    assert found == {"thermal.temperature/a:temp1": 1000, "thermal.temperature/b:temp1": 2000}
    source.close()


def test_a_bus_that_hangs_costs_only_its_own_samples(tmp_path: Path) -> None:
    device(tmp_path, 0, "slow", temp1_input=1000)
    device(tmp_path, 1, "good", temp1_input=2000)
    source = open_source(HwmonSource, tmp_path, 2000)
    assert source.detached
    source.columns.blank(range(len(source.columns.row)))
    answer = threading.Event()
    part = source.parts[0]
    reading = part.file.read

    def hang() -> object:
        answer.wait(60)
        return reading()

    part.file.read = hang  # type: ignore[method-assign]
    lanes = Lanes("hwmon", 0.05)
    for number in range(1, 200):
        lanes.ask(source.parts, number)
        threading.Event().wait(0.005)
        lanes.collect(number)
        lanes.close_round(number)
        if values(source)["thermal.temperature/good:temp1"] == 2000:
            break
    assert values(source) == {
        "thermal.temperature/slow:temp1": None,
        "thermal.temperature/good:temp1": 2000,
    }
    assert lanes.hanging() == [str(tmp_path / TOP / "hwmon0")]
    answer.set()
    lanes.close()


def test_zones_that_come_and_go_are_noticed(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    source = open_source(ThermalSource, root, 2000)
    write(root, "sys/class/thermal/thermal_zone1/type", "acpitz\n")
    write(root, "sys/class/thermal/thermal_zone1/temp", "41000\n")
    for _ in range(3):
        found = read(source)
    assert found == {"thermal.temperature/cpu-thermal": 12376, "thermal.temperature/acpitz": 41000}
    (root / "sys/class/thermal/thermal_zone1/temp").unlink()
    (root / "sys/class/thermal/thermal_zone1/type").unlink()
    (root / "sys/class/thermal/thermal_zone1").rmdir()
    for _ in range(3):
        found = read(source)
    assert found == {"thermal.temperature/cpu-thermal": 12376}
    source.close()


def test_without_sensors_it_says_what_to_load(tmp_path: Path) -> None:
    source = HwmonSource(tmp_path, Columns("hwmon", 2000, load_catalog(), load_left_out()))
    assert "modprobe" in (source.probe() or "")


def test_only_values_are_taken_for_sensors() -> None:
    assert sensor_files(["temp1_input", "temp1_max", "temp_input", "fan2_input", "fan2_pulses", "name"]) == [
        "fan2_input",
        "temp1_input",
    ]


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_ten_captured_devices(tmp_path: Path) -> None:
    unpack_ttar(SHARED / "data/node_exporter/sys.ttar.xz", tmp_path)
    source = open_source(HwmonSource, tmp_path, 2000)
    found = values(source)
    assert found["thermal.temperature/coretemp@coretemp.0:Core_0"] == 54000
    assert found["hwmon.fan/nct6779:fan2"] == 1098
    assert len(found) > 15
    assert not source.columns.errors
    source.close()
