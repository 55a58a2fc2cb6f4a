"""Derived metrics: formulas on known numbers, and none without its inputs."""

import polars as pl
import pytest

from reveal_core.channels import Channel
from reveal_core.features.derived import BUSIEST_CORE, DERIVED, add_derived
from reveal_core.telemetry import Series


def derive(values):
    channels = {}
    for name in values:
        metric, _, instance = name.partition("/")
        channels[name] = Channel(name, metric, instance, "cpu", "gauge", "x", "test", 100)
    frame = pl.DataFrame({k: [float(v)] for k, v in values.items()})
    return add_derived(Series("h", frame, channels))


@pytest.mark.parametrize(
    ("inputs", "name", "expected"),
    [
        ({"cpu.idle/cpu0": 30, "cpu.iowait/cpu0": 20}, "cpu.busy/cpu0", 50.0),
        ({"cpu.idle/cpu0": 120, "cpu.iowait/cpu0": 0}, "cpu.busy/cpu0", 0.0),
        ({"tcp.RetransSegs/host": 10, "tcp.OutSegs/host": 90}, "tcp.retransmit_share/host", 10.0),
        ({"tcp.RetransSegs/host": 1, "tcp.OutSegs/host": 1}, "tcp.retransmit_share/host", 0.0),
        (
            {"disk.read_ms/a": 30, "disk.write_ms/a": 10, "disk.reads/a": 3, "disk.writes/a": 1},
            "disk.await/a",
            10.0,
        ),
        (
            {"disk.read_ms/a": 0, "disk.write_ms/a": 0, "disk.reads/a": 0, "disk.writes/a": 0},
            "disk.await/a",
            0.0,
        ),
        ({"disk.io_ms/a": 500}, "disk.utilisation/a", 50.0),
        ({"disk.flush_ms/a": 8, "disk.flushes/a": 2}, "disk.flush_await/a", 4.0),
        ({"numa.other_node/node0": 250, "numa.local_node/node0": 750}, "numa.remote_share/node0", 25.0),
        ({"cgroup.nr_throttled/j": 3, "cgroup.nr_periods/j": 10}, "cgroup.throttled_share/j", 30.0),
        (
            {"meminfo.Dirty": 1, "meminfo.Writeback": 1, "meminfo.MemAvailable": 8},
            "memory.writeback_pressure",
            25.0,
        ),
        ({"perf.instructions/cpu0": 3e9, "perf.cycles/cpu0": 2e9}, "perf.ipc/cpu0", 1.5),
        ({"perf.branch_misses": 2e6, "perf.branches": 1e8}, "perf.branch_miss_rate", 2.0),
        ({"perf.cache_misses": 3e6, "perf.cache_references": 4e6}, "perf.cache_miss_rate", 75.0),
        ({"perf.stalls_l3_miss": 5e8, "perf.cycles": 2e9}, "perf.l3_stall_share", 25.0),
        ({"perf.load_not_complete": 1e9, "perf.cycles": 2e9}, "perf.load_stall_share", 50.0),
        ({"perf.stall_backend_mem": 1e9, "perf.cycles": 4e9}, "perf.memory_stall_share", 25.0),
        # Counters that were scaled apart from each other may exceed their whole.
        ({"perf.cache_misses": 5e6, "perf.cache_references": 4e6}, "perf.cache_miss_rate", 100.0),
        (
            {"perf.remote_memory/socket0": 1e6, "perf.local_memory/socket0": 3e6},
            "perf.remote_memory_share/socket0",
            25.0,
        ),
    ],
)
def test_formula(inputs, name, expected):
    series = derive(inputs)
    assert series.frame[name][0] == pytest.approx(expected)
    assert series.channels[name].source == "derived"


def test_every_formula_is_tested_above():
    tested = {
        mark.args[1][i][1].split("/")[0] for mark in test_formula.pytestmark for i in range(len(mark.args[1]))
    }
    assert tested == {d.name for d in DERIVED}


def test_of_nothing_there_is_no_ratio():
    assert derive({"perf.instructions": 0, "perf.cycles": 0}).frame["perf.ipc"][0] is None
    assert derive({"perf.branch_misses": 0, "perf.branches": 0}).frame["perf.branch_miss_rate"][0] is None


def test_nothing_is_derived_without_all_inputs():
    assert "cpu.busy/cpu0" not in derive({"cpu.idle/cpu0": 30}).channels
    assert "cpu.busy/cpu1" not in derive({"cpu.idle/cpu1": 30, "cpu.iowait/cpu0": 1}).channels


def test_a_missing_input_gives_a_missing_value():
    channels = {
        n: Channel(n, n.split("/")[0], "cpu0", "cpu", "gauge", "%", "t", 100)
        for n in ("cpu.idle/cpu0", "cpu.iowait/cpu0")
    }
    frame = pl.DataFrame({"cpu.idle/cpu0": [None, 10.0], "cpu.iowait/cpu0": [1.0, 1.0]})
    assert add_derived(Series("h", frame, channels)).frame["cpu.busy/cpu0"].to_list() == [None, 89.0]


def test_interrupts_of_all_lines_are_summed_per_core():
    lines = {"irq.device/a:cpu0": 60, "irq.device/b:cpu0": 30, "irq.device/a:cpu1": 10}
    assert derive(lines).frame[BUSIEST_CORE][0] == pytest.approx(90.0)


def test_without_interrupts_the_share_is_even_and_with_one_core_there_is_none():
    idle = {"irq.device/a:cpu0": 3, "irq.device/a:cpu1": 0}
    assert derive(idle).frame[BUSIEST_CORE][0] == pytest.approx(50.0)
    assert BUSIEST_CORE not in derive({"irq.device/a:cpu0": 60}).channels
