"""Throttling by heat, and limits of the clock."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import SHARED, copy_tree, open_source, read, unpack_ttar, values, write
from cpu_tree import CPU, add_cpu, cpu_tree, take_off_line

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.sources.cpufreq import CpufreqSource
from reveal_core.collect.sources.throttle import LimitsSource, ThrottleSource


def test_cores_are_read_one_by_one_and_packages_once(tmp_path: Path) -> None:
    root = cpu_tree(tmp_path, 4, sockets=2)
    source = open_source(ThrottleSource, root, 1000)
    found = values(source)
    assert len(found) == 4 * 2 + 2 * 2
    assert found["throttle.core_throttle_count/cpu3"] == 8
    assert found["throttle.core_throttle_total_time_ms/cpu0"] == 50
    assert found["throttle.package_throttle_count/socket1"] == 7
    write(root, f"{CPU}/cpu2/thermal_throttle/package_throttle_count", "9\n")
    assert read(source)["throttle.package_throttle_count/socket1"] == 9
    source.close()


def test_a_wide_host_has_one_count_of_all_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reveal_core.collect.sources.throttle.WIDE", 4)
    root = cpu_tree(tmp_path, 6, sockets=2)
    source = open_source(ThrottleSource, root, 1000)
    assert len(values(source)) == 2 + 2 * 2
    write(root, f"{CPU}/cpu3/thermal_throttle/core_throttle_count", "40\n")
    assert read(source)["throttle.core_throttle_count"] == 40 - (5 + 3)
    source.close()


def test_the_first_cpu_of_a_socket_may_go_off_line(tmp_path: Path) -> None:
    root = cpu_tree(tmp_path, 4, sockets=2)
    source = open_source(ThrottleSource, root, 1000)
    take_off_line(root, 2, "0-1,3")
    for part in source.parts:
        part.file.close()
    assert read(source)["throttle.package_throttle_count/socket1"] is None
    for _ in range(4):
        found = read(source)
    assert found["throttle.package_throttle_count/socket1"] == 7
    assert "throttle.core_throttle_count/cpu2" not in found
    add_cpu(root, 2, 2, 2)
    write(root, f"{CPU}/online", "0-3\n")
    for _ in range(5):
        found = read(source)
    assert found["throttle.package_throttle_count/socket1"] == 7
    assert found["throttle.core_throttle_count/cpu2"] == 7
    source.close()


def test_limits_of_each_core_and_of_the_host(tmp_path: Path) -> None:
    root = cpu_tree(tmp_path, 2)
    write(root, f"{CPU}/cpu1/cpufreq/bios_limit", "1800000\n")
    write(root, f"{CPU}/intel_pstate/no_turbo", "1\n")
    write(root, f"{CPU}/intel_pstate/max_perf_pct", "80\n")
    source = open_source(LimitsSource, root, 5000)
    assert values(source) == {
        "cpu.scaling_max_freq/cpu0": 3500000,
        "cpu.cpuinfo_max_freq/cpu0": 3500000,
        "cpu.scaling_max_freq/cpu1": 3500000,
        "cpu.bios_limit/cpu1": 1800000,
        "cpu.cpuinfo_max_freq/cpu1": 3500000,
        "cpu.no_turbo": 1,
        "cpu.max_perf_pct": 80,
    }
    write(root, f"{CPU}/cpu0/cpufreq/scaling_max_freq", "1200000\n")
    assert read(source)["cpu.scaling_max_freq/cpu0"] == 1200000
    assert all(column is None or column.scale in (1e-3, 1.0) for column in source.columns.slots)
    source.close()


def test_a_wide_host_has_its_lowest_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reveal_core.collect.sources.throttle.WIDE", 4)
    root = cpu_tree(tmp_path, 5)
    write(root, f"{CPU}/cpufreq/boost", "0\n")
    source = open_source(LimitsSource, root, 5000)
    expected = {"cpu.scaling_max_freq": 3500000, "cpu.cpuinfo_max_freq": 3500000, "cpu.boost": 0}
    assert values(source) == expected
    write(root, f"{CPU}/cpu3/cpufreq/scaling_max_freq", "1200000\n")
    write(root, f"{CPU}/cpu4/cpufreq/cpuinfo_max_freq", "<unknown>\n")
    assert read(source) == {**expected, "cpu.scaling_max_freq": 1200000}
    source.close()


def test_frequencies_follow_cpus_off_and_on(tmp_path: Path) -> None:
    root = cpu_tree(tmp_path, 3)
    source = open_source(CpufreqSource, root, 1000)
    assert values(source) == {f"cpu.frequency/cpu{cpu}": 2500000 for cpu in range(3)}
    take_off_line(root, 1, "0,2")
    for part in source.parts:
        part.file.close()  # an open file outlives its name in this tree, but not in sysfs
    assert read(source)["cpu.frequency/cpu1"] is None
    for _ in range(4):
        found = read(source)
    assert set(found) == {"cpu.frequency/cpu0", "cpu.frequency/cpu2"}
    add_cpu(root, 1)
    write(root, f"{CPU}/online", "0-2\n")
    for _ in range(5):
        found = read(source)
    assert found["cpu.frequency/cpu1"] == 2500000
    source.close()


@pytest.mark.parametrize("kind", [ThrottleSource])
def test_without_throttle_counts_it_says_why(tmp_path: Path, kind: type[ThrottleSource]) -> None:
    source = kind(copy_tree(tmp_path), Columns("throttle", 1000, load_catalog(), load_left_out()))
    assert "only Intel processors" in (source.probe() or "")


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared data are not here")
def test_a_captured_host_throttles_as_its_files_say(tmp_path: Path) -> None:
    unpack_ttar(SHARED / "data/node_exporter/sys.ttar.xz", tmp_path)
    source = open_source(ThrottleSource, tmp_path, 1000)
    found = values(source)
    folder = tmp_path / CPU
    for cpu in range(4):
        expected = int((folder / f"cpu{cpu}/thermal_throttle/core_throttle_count").read_text())
        assert found[f"throttle.core_throttle_count/cpu{cpu}"] == expected
    assert len([name for name in found if "package_throttle_count" in name]) == 2
    source.close()
    limits = open_source(LimitsSource, tmp_path, 5000)
    assert values(limits)["cpu.scaling_max_freq/cpu0"] is not None
    limits.close()
