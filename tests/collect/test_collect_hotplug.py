"""Devices that come and go while the collector runs."""

from __future__ import annotations

import shutil
from collections.abc import Hashable
from functools import partial
from pathlib import Path

import pytest
from collect_parts import copy_tree, open_source, read, values, write

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.hotplug import HotplugSource, MakeParts, devices
from reveal_core.collect.opened import wrap
from reveal_core.collect.parts import Part, SingleValuePart
from reveal_core.collect.source import Source
from reveal_core.collect.sources.numa import NumaSource
from reveal_core.collect.sources.power import PowerSource

NODES = "sys/devices/system/node"


def rescan(source: Source) -> dict[str, int | None]:
    """Read a source as it is when it looks for devices again."""
    assert isinstance(source, HotplugSource)
    source.reads_to_rescan = 0
    return read(source)


class ZoneSource(HotplugSource):
    """A source of the least kind: a value per folder."""

    name = "zones"
    period_ms = 1000
    rescan_ms = 3000
    looks = 0
    failure: OSError | None = None

    def probe(self) -> str | None:
        return None

    def find(self) -> dict[Hashable, MakeParts]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return {zone.name: partial(self._parts, zone) for zone in devices(self.root, "zone")}

    def _parts(self, zone: Path) -> list[Part]:
        file = HostFile(zone / "temp", whole=True)
        return [SingleValuePart(file, self.columns, ("thermal.temperature", 1e-3), zone.name)]


@pytest.fixture
def zones(tmp_path: Path) -> Path:
    for number in (0, 2, 10):
        write(tmp_path, f"zone{number}/temp", f"{number}\n")
    write(tmp_path, "zones/temp", "9\n")
    return tmp_path


def test_devices_are_looked_for_at_their_own_pace(zones: Path) -> None:
    source = open_source(ZoneSource, zones, 1000)
    assert isinstance(source, ZoneSource)
    assert [name.partition("/")[2] for name in values(source)] == ["zone0", "zone2", "zone10"]
    for _ in range(6):
        source.read()
    assert source.looks == 3  # at the first read, then every third
    source.close()


def test_a_device_that_is_gone_takes_its_channels_and_may_come_back(zones: Path) -> None:
    source = open_source(ZoneSource, zones, 1000)
    shutil.rmtree(zones / "zone2")
    assert read(source)["thermal.temperature/zone2"] is not None  # still open
    assert set(rescan(source)) == {"thermal.temperature/zone0", "thermal.temperature/zone10"}
    write(zones, "zone2/temp", "7\n")
    assert rescan(source)["thermal.temperature/zone2"] == 7


def test_a_look_that_fails_costs_nothing_but_is_told(zones: Path) -> None:
    source = open_source(ZoneSource, zones, 1000)
    assert isinstance(source, ZoneSource)
    source.failure = FileNotFoundError(2, "No such file or directory", "/sys/zones")
    assert len(rescan(source)) == 3
    assert source.columns.errors == {"/sys/zones: No such file or directory": 1}
    source.failure = None
    assert len(rescan(source)) == 3


def test_a_numa_node_that_appears_late_and_one_that_goes(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    source = open_source(NumaSource, root, 1000)
    before = len(values(source))
    shutil.copytree(root / NODES / "node1", root / NODES / "node10")
    shutil.copytree(root / NODES / "node1", root / NODES / "nodex")
    found = rescan(source)
    assert len(found) == before + before // 2
    assert found["numa.numa_hit/node10"] == found["numa.numa_hit/node1"]
    shutil.rmtree(root / NODES / "node0")
    assert {name.partition("/")[2] for name in rescan(source)} == {"node1", "node10"}
    source.close()


def test_an_energy_domain_that_appears_late(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    source = open_source(PowerSource, root, 1000)
    assert "power.energy/dram" not in values(source)
    write(root, "sys/class/powercap/intel-rapl:1/name", "dram\n")
    write(root, "sys/class/powercap/intel-rapl:1/max_energy_range_uj", "1000\n")
    counter = write(root, "sys/class/powercap/intel-rapl:1/energy_uj", "900\n")
    assert rescan(source)["power.energy/dram"] == 900
    counter.write_text("100\n")
    assert read(source)["power.energy/dram"] == 1100  # wrapped at its own range
    source.close()


def test_a_host_without_energy_counters_is_told_what_to_load(tmp_path: Path) -> None:
    reason = PowerSource(tmp_path, Columns("power", 1000, load_catalog(), {})).probe()
    assert reason is not None
    assert "modprobe intel_rapl_msr" in reason


def test_what_was_read_of_a_device_before_it_went_is_kept(zones: Path) -> None:
    source = open_source(ZoneSource, zones, 1000)
    coverage = load_catalog()["reveal.coverage"].channel(source.name, "reveal", 1000)
    opened = wrap(source, 0, 1, 1000, coverage)
    opened.sample(0, 0)  # parsed at once; the next ones wait for each other
    source.reads_to_rescan = 3
    for tick in range(1, 4):
        write(zones, "zone2/temp", f"{20 + tick}\n")
        opened.sample(tick, tick)
    assert source.parts[1].seen == b"2\n"
    shutil.rmtree(zones / "zone2")
    opened.sample(4, 4)
    block = opened.cut()
    names = [column.channel.instance for column in block.columns if column is not None]
    assert block.matrix(5)[names.index("zone2")].tolist() == [2, 21, 22, 23, MISSING]
    opened.close()
