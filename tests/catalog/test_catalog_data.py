"""The catalogue as data: whole, consistent, and printed as it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from reveal_core.catalog import catalog_files, load_catalog, load_left_out
from reveal_core.catalog.document import render_catalog

REPOSITORY = Path(__file__).parents[2]
FAMILIES = {
    *(
        "cpu",
        "sched",
        "stat",
        "irq",
        "softirq",
        "psi",
        "meminfo",
        "vmstat",
        "numa",
        "disk",
        "cgroup",
        "qdisc",
        "sockets",
        "ip6",
        "icmp6",
        "udp6",
        "thermal",
    ),
    *("power", "net", "softnet", "sockstat", "tcp", "tcpext", "udp", "icmp", "ip", "ipext", "reveal"),
    *("ib", "nic", "link", "conntrack", "listen"),
    *("hugepages", "edac", "nvme", "scsi", "md", "fs", "nfs", "lustre"),
    *("gpu", "perf", "cstate", "throttle", "hwmon"),
}


def test_names_units_and_descriptions_are_whole() -> None:
    for metric in load_catalog().values():
        family, _, field = metric.name.partition(".")
        assert family in FAMILIES, metric.name
        assert field, metric.name
        assert "/" not in metric.name, metric.name
        assert metric.unit not in ("", "1"), metric.name
        assert len(metric.description) > 3, metric.name
        assert not metric.description.endswith("."), metric.name
        assert metric.bits in (32, 64), metric.name


def test_marks_fit_the_kind() -> None:
    for metric in load_catalog().values():
        if metric.kind == "counter":
            assert not metric.stock, metric.name
        else:
            assert not metric.rate_unit, metric.name
            assert not metric.dips, metric.name
            assert metric.rate_scale == 1.0, metric.name
        assert not (metric.event and metric.stock), metric.name


def test_nothing_is_both_collected_and_left_out() -> None:
    assert not load_catalog().keys() & load_left_out().keys()


@pytest.mark.parametrize(
    ("name", "unit", "scale"),
    [
        ("cpu.user", "%", 1.0),
        ("psi.io_full", "%", 1e-4),
        ("cgroup.throttled_time", "%", 1e-7),
        ("disk.read_sectors", "B/s", 512.0),
        ("disk.read_ms", "ms/s", 1.0),
        ("power.energy", "W", 1e-6),
        ("tcpext.TCPLostRetransmit", "events/s", 1.0),
    ],
)
def test_rates_have_physical_units(name: str, unit: str, scale: float) -> None:
    metric = load_catalog()[name]
    assert (metric.physical_unit, metric.rate_scale) == (unit, scale)


@pytest.mark.parametrize(
    ("name", "subsystem"),
    [
        ("cpu.iowait", "storage"),
        ("cpu.steal", "cpu"),
        ("softirq.NET_RX", "network"),
        ("softirq.BLOCK", "storage"),
        ("meminfo.Dirty", "storage"),
        ("meminfo.Hugetlb", "memory"),
        ("vmstat.pgpgout", "storage"),
        ("vmstat.pgfault", "memory"),
        ("cgroup.nr_throttled", "cpu"),
        ("cgroup.memory_failcnt", "memory"),
        ("cgroup.memory_writeback", "storage"),
        ("sockstat.TCP_mem", "network"),
    ],
)
def test_subsystems_are_those_an_operator_would_name(name: str, subsystem: str) -> None:
    assert load_catalog()[name].subsystem == subsystem


def test_counters_that_carry_causes_are_events() -> None:
    catalog = load_catalog()
    for name in (
        "cgroup.nr_throttled",
        "cgroup.memory_failcnt",
        "tcp.RetransSegs",
        "tcpext.TCPLostRetransmit",
        "tcpext.TCPSynRetrans",
        "tcpext.ListenDrops",
        "net.rx_dropped",
        "softnet.dropped",
        "vmstat.oom_kill",
        "vmstat.compact_stall",
        "vmstat.allocstall_normal",
        "vmstat.pgscan_direct",
        "meminfo.Hugetlb",
        "udp.RcvbufErrors",
    ):
        assert catalog[name].event, name
    for name in ("meminfo.Cached", "meminfo.Buffers", "meminfo.Inactive_file", "vmstat.nr_file_pages"):
        assert catalog[name].stock, name


def test_the_printed_catalogue_is_current() -> None:
    page = (REPOSITORY / "docs/metrics.md").read_text(encoding="utf-8")
    assert page == render_catalog(), "run: python -m reveal_core.catalog.document docs/metrics.md"


def test_every_file_says_what_it_holds() -> None:
    assert all(file.comment.endswith(".") and file.data["metrics"] for file in catalog_files())
