"""OTLP JSON: host metrics by the semantic conventions and by the collector's receiver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from import_parts import metadata_of
from otlp_documents import DELTA, Json, cpu_time, gauge, ns, point, read, request, total

from reveal_core.catalog import load_catalog
from reveal_core.importing import otlp_names
from reveal_core.importing.otlp_names import COUNT, COUNTER, GAUGE, LEVEL, Known, Other, Refused, place
from reveal_core.importing.otlp_points import whole


def test_a_collector_s_file_becomes_what_an_agent_would_have_collected(tmp_path: Path) -> None:
    documents = [
        request(
            cpu_time(n),
            cpu_time(n, "cpu1", "wait"),
            total("system.disk.io", point(n, 512 * (10 + n), device="sda", direction="read"), unit="By"),
            total("system.disk.io_time", point(n, 1.5 + n / 1000, device="sda"), unit="s"),
            total("system.memory.usage", point(n, 4096 + n, state="free"), unit="By", grows=False),
            total("system.processes.count", point(n, n % 3, status="running"), grows=False),
        )
        for n in range(20)
    ]
    found = read(tmp_path, *documents)
    frame = found.frame()
    assert frame["cpu.user/cpu0"].to_list() == [250 + 25 * n for n in range(20)]
    assert frame["cpu.iowait/cpu1"].to_list() == [250 + 25 * n for n in range(20)]
    assert frame["disk.read_sectors/sda"].to_list() == [10 + n for n in range(20)]
    assert frame["disk.io_ms/sda"].to_list() == [1500 + n for n in range(20)]
    assert frame["meminfo.MemFree"].to_list() == [4096.0 + n for n in range(20)]
    assert frame["stat.procs_running"].to_list() == [n % 3 for n in range(20)]
    channels = found.channels()
    assert {name: channels[name].kind for name in ("cpu.user/cpu0", "meminfo.MemFree")} == {
        "cpu.user/cpu0": "counter",
        "meminfo.MemFree": "gauge",
    }
    assert {channel.period_ms for channel in channels.values()} == {1000}
    assert {channel.source for channel in channels.values()} == {"otlp"}
    assert (found.reasons(), found.findings.kept_as, found.findings.notes) == ([], [], [])


def test_newer_names_of_attributes_mean_the_same(tmp_path: Path) -> None:
    def both(n: int) -> Json:
        return request(
            total("system.cpu.time", point(n, 1.0, cpu__logical_number=3, cpu__mode="iowait"), unit="s"),
            total(
                "system.network.io",
                point(n, 7, network__interface__name="eth0", network__io__direction="transmit"),
                unit="By",
            ),
            total("system.process.count", point(n, 4, process__state="blocked"), grows=False),
            gauge("hw.temperature", point(n, 41.5, hw__id="cpu_1", hw__type="temperature"), unit="Cel"),
            gauge("hw.power", point(n, 300.0, hw__id="GPU-3d4f9b3a-1111-2222", hw__type="gpu"), unit="W"),
        )

    found = read(tmp_path, both(0), both(1)).frame()
    assert set(found.columns) - {"ts", "mono"} == {
        "cpu.iowait/cpu3",
        "net.tx_bytes/eth0",
        "stat.procs_blocked",
        "thermal.temperature/cpu_1",
        "gpu.power/GPU-3d4f9b3a",
    }


def test_counts_over_an_interval_become_rates(tmp_path: Path) -> None:
    deltas = [
        request(
            total(
                "system.disk.io",
                point(2 * n, 10_240, since=2 * n - 2, device="sda", direction="write"),
                unit="By",
                temporality="AGGREGATION_TEMPORALITY_DELTA",
            ),
            total("system.cpu.time", point(2 * n, 0.5, cpu="0", state="nice"), unit="s", temporality=DELTA),
            total("app.requests", point(2 * n, 30, since=2 * n - 2, route="/a"), temporality=DELTA),
        )
        for n in range(1, 6)
    ]
    found = read(tmp_path, *deltas)
    channels = found.channels()
    assert found.frame()["disk.write_sectors/sda"].to_list() == [5120.0] * 5
    written = channels["disk.write_sectors/sda"]
    assert (written.kind, written.unit) == ("gauge", "B/s")
    assert found.frame()["imported.otlp.app.requests//a"].to_list() == [15.0] * 5
    assert channels["imported.otlp.app.requests//a"].unit == "1/s"
    assert "counts over an interval that does not say when it began" in found.reasons()
    assert "cpu.nice/cpu0" not in channels


def test_shares_and_rates_are_levels(tmp_path: Path) -> None:
    documents = [
        request(
            gauge("system.cpu.utilization", point(n, 0.25, cpu="cpu0", state="interrupt")),
            gauge("system.network.packets", point(n, 120.0, device="eth0", direction="receive")),
            gauge("system.filesystem.utilization", point(n, 0.5, mountpoint="/", type="ext4")),
        )
        for n in range(3)
    ]
    found = read(tmp_path, *documents)
    frame = found.frame()
    assert frame["cpu.irq/cpu0"].to_list() == [25.0] * 3
    assert frame["net.rx_packets/eth0"].to_list() == [120.0] * 3
    assert frame["fs.used//"].to_list() == [50.0] * 3
    assert found.channels()["cpu.irq/cpu0"].unit == "%"
    assert found.findings.notes == [
        "system.network.packets comes as a gauge and is a count by convention: it is taken for the rate of it"
    ]


def test_what_the_catalogue_does_not_know_is_kept_and_told(tmp_path: Path) -> None:
    documents = [
        request(
            total("app.wait", point(n, 0.25 * n, queue="a", zone=2), unit="s"),
            gauge("app.depth", point(n, 5, queue="a"), unit="By"),
            total("system.paging.operations", point(n, 4096 * n, type="major", direction="page_in")),
            service__name="shop",
        )
        for n in range(1, 5)
    ]
    found = read(tmp_path, *documents)
    frame, channels = found.frame(), found.channels()
    assert frame["imported.otlp.app.wait/shop,a,2"].to_list() == [250_000 * n for n in range(1, 5)]
    wait = channels["imported.otlp.app.wait/shop,a,2"]
    assert (wait.kind, wait.unit) == ("counter", "us")
    depth = channels["imported.otlp.app.depth/shop,a"]
    assert (depth.kind, depth.unit) == ("gauge", "B")
    assert channels["imported.otlp.system.paging.operations/page_in,major"].subsystem == "memory"
    assert {row["column"] for row in found.findings.kept_as} == {
        "app.wait",
        "app.depth",
        "system.paging.operations",
    }


def test_what_is_left_out_is_told_once_each(tmp_path: Path) -> None:
    def every(n: int) -> Json:
        return request(
            cpu_time(n),
            gauge("system.cpu.load_average.1m", point(n, 0.5)),
            total("system.disk.operations", point(n, n, device="sda1", direction="read")),
            total(
                "system.filesystem.usage",
                point(n, 9, state="free", type="tmpfs", mountpoint="/run"),
                grows=False,
            ),
            total("process.cpu.time", point(n, 1.0, state="user"), unit="s"),
            total("queue.length", point(n, -1, since=0), temporality=DELTA, grows=False),
            total("odd.sum", point(n, 1), temporality=0),
            {"name": "latency", "histogram": {"dataPoints": [{"timeUnixNano": ns(n), "count": "3"}]}},
            {"name": "empty"},
        )

    found = read(tmp_path, every(0), every(1))
    assert set(found.channels()) == {"cpu.user/cpu0"}
    assert [(row["item"], row["reason"].partition(" (first")[0]) for row in found.findings.skipped] == [
        (
            "system.cpu.load_average.1m",
            "left out: smoothed over minutes: stat.procs_running shows the same at once",
        ),
        (
            "system.disk.operations",
            "left out: partitions, which repeat what their disk says, and devices that are no disks",
        ),
        ("system.filesystem.usage", "left out: file systems that lie on no disk of the host"),
        ("process.cpu.time", "left out: single processes: the host's totals are in system.*"),
        (
            "queue.length, and 1 more",
            "left out: changes of what goes up and down, without where it began",
        ),
        ("odd.sum, and 1 more", "sums that do not say whether they are cumulative"),
        ("latency, and 1 more", "left out: histograms and summaries are not read"),
        ("empty, line 1, and 1 more", "metrics without data"),
    ]


def test_the_first_metric_of_a_channel_holds_it(tmp_path: Path) -> None:
    documents = [
        request(cpu_time(n), gauge("system.cpu.utilization", point(n, 0.25, cpu="cpu0", state="user")))
        for n in range(3)
    ]
    found = read(tmp_path, *documents)
    assert found.frame()["cpu.user/cpu0"].to_list() == [250, 275, 300]
    assert found.findings.skipped == [
        {"item": "system.cpu.utilization", "reason": "left out: system.cpu.time says the same"}
    ]


def test_all_cores_together_are_no_core(tmp_path: Path) -> None:
    found = read(tmp_path, request(total("system.cpu.time", point(0, 1.0, state="user"), unit="s")))
    assert set(found.channels()) == {"imported.otlp.system.cpu.time/user"}


def test_scrapers_are_rows_of_their_own(tmp_path: Path) -> None:
    """Each has its own time in a collection; together their rows would be mostly empty."""
    memory = total("system.memory.usage", point(0.004, 7, state="free"), unit="By", grows=False)
    document = request(cpu_time(0))
    document["resourceMetrics"] += request(memory, scope="memory")["resourceMetrics"]
    found = read(tmp_path, document)
    assert len(found.segments) == 2
    assert found.frame().height == 2
    assert len({segment.sequence for segment in found.segments}) == 2


def test_hosts_are_told_apart_and_their_facts_kept(tmp_path: Path) -> None:
    document = request(cpu_time(0), cpu_time(0, "cpu1"), host__cpu__model__name="EPYC", os__version="6.1")
    document["resourceMetrics"] += request(cpu_time(0), host="node-2")["resourceMetrics"]
    found = read(tmp_path, document)
    assert sorted({segment.host for segment in found.segments}) == ["node-1", "node-2"]
    assert read(tmp_path, document, host="x").assembler.hosts == {"x"}
    facts = {one.host: metadata_of(one)[0]["facts"] for one in found.segments}
    assert facts["node-1"]["cpu"] == {"model": "EPYC", "logical": 2}
    assert facts["node-2"]["cpu"] == {"model": None, "logical": 1}
    assert facts["node-1"]["imported"] == {"kind": "otlp", "file": "metrics.json"}


def test_a_resource_without_a_host_needs_a_name(tmp_path: Path) -> None:
    found = read(tmp_path, request(cpu_time(0), host=None))
    assert found.segments == []
    assert found.reasons() == ["metrics of a resource without host.name: --host names the host"]
    assert read(tmp_path, request(cpu_time(0), host=None), host="n").assembler.hosts == {"n"}


def test_every_rule_leads_to_the_catalogue() -> None:
    states = {"state": "user", "direction": "read", "status": "running", "kind": "gpu", "task": "general"}
    names = otlp_names.names()
    for name, rules in names.rules.items():
        assert not any(entry.names.fullmatch(name) for entry in names.left_out if not entry.attribute), name
        for rule in rules:
            metric = rule.metric.format(**states)
            known = load_catalog()[metric]
            assert not rule.level or known.kind == "counter", name
            assert rule.gpu == (known.subsystem == "gpu"), name


@pytest.mark.parametrize(
    ("name", "form", "labels", "expected"),
    [
        ("system.cpu.time", COUNTER, {"cpu": "2", "state": "user"}, ("cpu.user", "counter", "cpu2")),
        ("system.cpu.time", COUNT, {"cpu": "2", "state": "user"}, ("cpu.user", "interval", "cpu2")),
        ("system.cpu.time", LEVEL, {"cpu": "2", "state": "user"}, ("cpu.user", "counter", "cpu2")),
        ("system.cpu.utilization", GAUGE, {"cpu": "2", "state": "user"}, ("cpu.user", "level", "cpu2")),
        ("system.memory.usage", LEVEL, {"state": "buffers"}, ("meminfo.Buffers", "level", "")),
        ("hw.gpu.utilization", GAUGE, {"hw.id": "0"}, ("gpu.utilization", "level", "gpu0")),
        ("hw.energy", COUNTER, {"hw.id": "p1", "hw.type": "cpu"}, ("hwmon.energy", "counter", "p1")),
    ],
)
def test_places(name: str, form: str, labels: dict[str, str], expected: tuple[str, str, str]) -> None:
    found = place(name, form, "1", labels)
    assert isinstance(found, Known)
    assert (found.target.metric, found.target.form, found.instance) == expected


def test_what_has_no_place() -> None:
    assert isinstance(place("system.memory.usage", COUNT, "By", {"state": "free"}), Refused)
    assert isinstance(place("system.memory.usage", LEVEL, "By", {"state": "used"}), Refused)
    assert place("system.cpu.time", COUNTER, "s", {"state": "user"}) == Other("user", "us", 1e6, True)
    assert place("x", GAUGE, "Cel", {}, "shop") == Other("shop", "°C", 1.0, False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (7, 7),
        ("-7", -7),
        (7.0, 7),
        (7.5, None),
        ("7.0", None),
        (True, None),
        (None, None),
        ("9" * 30, None),
        ([], None),
    ],
)
def test_whole_numbers(given: Any, expected: int | None) -> None:
    assert whole(given) == expected
