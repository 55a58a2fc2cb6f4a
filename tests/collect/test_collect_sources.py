"""Every source on a captured host: what it reads, and what it does when the host changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import HOST_TREE, SHARED, copy_tree, open_source, read, unpack_ttar, values, write

from reveal_core.catalog import load_catalog
from reveal_core.collect.agent import open_sources
from reveal_core.collect.columns import MISSING
from reveal_core.collect.source import Source
from reveal_core.collect.sources import SOURCES
from reveal_core.collect.sources.cpufreq import CpufreqSource
from reveal_core.collect.sources.disks import DisksSource
from reveal_core.collect.sources.interrupts import InterruptsSource
from reveal_core.collect.sources.meminfo import MeminfoSource
from reveal_core.collect.sources.netdev import MAX_INTERFACES, NetdevSource
from reveal_core.collect.sources.numa import NumaSource
from reveal_core.collect.sources.power import PowerSource
from reveal_core.collect.sources.pressure import PressureSource
from reveal_core.collect.sources.protocols import ProtocolsSource
from reveal_core.collect.sources.schedstat import SchedstatSource
from reveal_core.collect.sources.sockstat import SockstatSource
from reveal_core.collect.sources.softirqs import SoftirqsSource
from reveal_core.collect.sources.softnet import SoftnetSource
from reveal_core.collect.sources.stat import StatSource
from reveal_core.collect.sources.thermal import ThermalSource
from reveal_core.collect.sources.vmstat import VmstatSource

# Read off the captured files by eye.
GOLDEN: list[tuple[type[Source], dict[str, int], int]] = [
    (
        StatSource,
        {
            "cpu.user/cpu0": 44490,
            "cpu.guest_nice/cpu0": 1,
            "cpu.iowait/cpu1": 591,
            "stat.ctxt": 38014093,
            "stat.processes": 26442,
            "stat.procs_running": 2,
            "stat.procs_blocked": 0,
            "stat.intr": 8885917,
        },
        85,
    ),
    (
        SchedstatSource,
        {
            "sched.run_time/cpu0": 2045936778163039,
            "sched.run_delay/cpu1": 364107263788241,
            "sched.timeslices/cpu0": 4767485306,
        },
        6,
    ),
    (CpufreqSource, {"cpu.frequency/cpu0": 1699981, "cpu.frequency/cpu3": 8000}, 4),
    (
        InterruptsSource,
        {
            "irq.device/iwlwifi:cpu0": 43078464,
            "irq.device/i8042-irq12:cpu1": 1021,
            "irq.LOC/cpu3": 130980079,
            "irq.device/ehci_hcd:usb1,mmc0:cpu2": 293782,
            "irq.RES/cpu1": 9111507,
            "irq.ERR": 0,
        },
        110,
    ),
    (SoftirqsSource, {"softirq.NET_RX/cpu1": 104508, "softirq.HI/cpu0": 7}, 20),
    (PressureSource, {"psi.cpu_some": 14036781, "psi.io_full": 159229614}, 6),
    (
        MeminfoSource,
        {"meminfo.MemFree": 225472, "meminfo.Active_anon": 2020004, "meminfo.HugePages_Total": 0},
        34,
    ),
    (VmstatSource, {"vmstat.nr_dirty": 21, "vmstat.pgfault": 2320168809, "vmstat.oom_kill": 0}, 114),
    (
        NumaSource,
        {
            "numa.numa_miss/node0": 12624528,
            "numa.MemFree/node0": 53030372,
            "numa.numa_hit/node1": 326720946761,
        },
        40,
    ),
    (NetdevSource, {"net.rx_bytes/eth0": 874354587, "net.tx_packets/vethf345468": 5}, 64),
    (
        ProtocolsSource,
        {
            "tcp.RetransSegs/host": 227,
            "tcpext.SyncookiesFailed/host": 2,
            "udp.RcvbufErrors/host": 9,
            "tcp.CurrEstab/host": 0,
        },
        126,
    ),
    (SockstatSource, {"sockstat.TCP_alloc/host": 17, "sockstat.sockets_used/host": 229}, 11),
    (SoftnetSource, {"softnet.processed/cpu0": 0x00049279, "softnet.dropped/cpu3": 0}, 20),
    (
        DisksSource,
        {"disk.reads/sda": 25354637, "disk.weighted_ms/sda": 82621804, "disk.in_flight/sda": 0},
        142,
    ),
    (
        ThermalSource,
        {"thermal.temperature/cpu-thermal": 12376},
        1,
    ),
    (PowerSource, {"power.energy/package-0": 240422366267, "power.energy/package-0:core": 118821284256}, 2),
]


@pytest.mark.parametrize(("kind", "expected", "channels"), GOLDEN, ids=lambda x: getattr(x, "name", ""))
def test_a_captured_host_is_read_as_it_says(
    kind: type[Source], expected: dict[str, int], channels: int
) -> None:
    source = open_source(kind, HOST_TREE)
    found = values(source)
    assert {name: found.get(name) for name in expected} == expected
    assert len(found) == channels
    assert not source.columns.errors
    source.close()


def test_every_channel_of_the_captured_host_is_in_the_catalogue() -> None:
    collector = open_sources(HOST_TREE)
    catalog = load_catalog()
    for channel in collector.channels:
        metric = catalog[channel.metric]
        assert (channel.subsystem, channel.kind, channel.unit) == (metric.subsystem, metric.kind, metric.unit)
        assert channel.name == (f"{metric.name}/{channel.instance}" if channel.instance else metric.name)
    assert len({channel.name for channel in collector.channels}) == len(collector.channels)
    collector.close()


def test_every_source_tells_why_it_is_not_here(tmp_path: Path) -> None:
    statuses = open_sources(tmp_path).sources
    assert [status.source for status in statuses] == [kind.name for kind in SOURCES]
    for status in statuses:
        assert not status.available
        assert status.reason
        if not status.source.startswith("gpu"):  # which asks the library wherever the root is
            assert str(tmp_path) in status.reason or "--root" in status.reason
        assert "\n" not in status.reason


def test_fields_in_another_order_are_found_again(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    source = open_source(VmstatSource, root)
    before = values(source)
    lines = (root / "proc/vmstat").read_text().splitlines()
    write(root, "proc/vmstat", "\n".join(["a_new_field 5", *reversed(lines)]) + "\n")
    assert read(source) == before
    assert "vmstat.a_new_field" in source.columns.unknown
    source.close()


def test_a_core_that_goes_offline_leaves_and_comes_back(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    source = open_source(StatSource, root)
    text = (root / "proc/stat").read_text()
    without = "\n".join(line for line in text.splitlines() if not line.startswith("cpu1 ")) + "\n"
    write(root, "proc/stat", without)
    found = read(source)
    assert "cpu.user/cpu1" not in found
    assert found["cpu.user/cpu2"] is not None
    write(root, "proc/stat", text)
    assert read(source)["cpu.user/cpu1"] == 47869
    source.close()


def test_an_interface_has_channels_from_its_first_packet(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    source = open_source(NetdevSource, root)
    text = (root / "proc/net/dev").read_text()
    write(root, "proc/net/dev", text + "  eth9:" + " 0" * 16 + "\n")
    assert "net.rx_bytes/eth9" not in read(source)
    write(root, "proc/net/dev", text + "  eth9:60 1" + " 0" * 14 + "\n")
    assert read(source)["net.rx_bytes/eth9"] == 60
    write(root, "proc/net/dev", text)
    assert "net.rx_bytes/eth9" not in read(source)
    source.close()


def test_a_host_with_an_interface_for_each_container_keeps_its_first_ones(tmp_path: Path) -> None:
    def show(names: list[str], packets: int) -> None:
        rows = "".join(f"{name}: 60 {packets}{' 0' * 14}\n" for name in names)
        write(tmp_path, "proc/net/dev", f"Inter-|\n face |\n{rows}")

    def shown(found: dict[str, int | None]) -> list[str]:
        return [name.partition("/")[2] for name in found if name.startswith("net.rx_packets")]

    names = ["eth0", *(f"veth{number}" for number in range(MAX_INTERFACES + 9))]
    show(names, 1)
    source = open_source(NetdevSource, tmp_path)
    assert shown(values(source)) == names[:MAX_INTERFACES]
    assert source.notes == [f"10 more interfaces are in use than the {MAX_INTERFACES} that are read"]
    # Those that go make room for as many of the others.
    show(["eth0", *names[5:]], 2)
    show(["eth0", *names[5:]], 3)
    read(source)
    show(["eth0", *names[5:]], 4)
    assert sorted(shown(read(source))) == sorted(["eth0", *names[5 : MAX_INTERFACES + 4]])
    assert set(source.columns.row) <= {MISSING, 60, 0, 4}
    source.close()


def test_disks_leave_out_what_is_no_disk_or_was_never_used(tmp_path: Path) -> None:
    used = " 1 2 3 4 5 6 7 8 9 10 11\n"
    names = ("ram0", "loop3", "sda", "sda1", "nvme0n1", "nvme0n1p2", "mmcblk0p1", "dm-0")
    write(
        tmp_path,
        "proc/diskstats",
        "".join(f"8 0 {name}{used}" for name in names) + "8 0 sdb" + " 0" * 11 + "\n",
    )
    source = open_source(DisksSource, tmp_path)
    assert {name.split("/")[1] for name in values(source)} == {"sda", "nvme0n1", "dm-0"}
    source.close()


def test_energy_goes_on_where_its_register_wraps(tmp_path: Path) -> None:
    folder = "sys/class/powercap/intel-rapl:0"
    write(tmp_path, f"{folder}/name", "package-0\n")
    write(tmp_path, f"{folder}/max_energy_range_uj", "1000\n")
    write(tmp_path, f"{folder}/energy_uj", "990\n")
    source = open_source(PowerSource, tmp_path)
    write(tmp_path, f"{folder}/energy_uj", "15\n")
    assert read(source) == {"power.energy/package-0": 1015}
    source.close()


@pytest.mark.shared
@pytest.mark.parametrize("name", ["procfs/fixtures.ttar.xz", "node_exporter/sys.ttar.xz"])
def test_whole_captured_trees_are_in_the_catalogue(tmp_path: Path, name: str) -> None:
    archive = SHARED / "data" / name
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    unpack_ttar(archive, tmp_path)
    root = tmp_path / "fixtures" if (tmp_path / "fixtures").is_dir() else tmp_path
    collector = open_sources(root)
    catalog = load_catalog()
    assert all(channel.metric in catalog for channel in collector.channels)
    assert sum(status.available for status in collector.sources) >= 4
    for status in collector.sources:
        assert status.available or status.reason
    collector.close()
