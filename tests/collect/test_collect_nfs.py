"""NFS client counters: of a captured host, and of servers that are slow, gone or strange."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, read, unpack_ttar, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.sources import nfs
from reveal_core.collect.sources.nfs import (
    BYTES,
    DETAILED,
    EVENTS,
    OWN_FIELDS,
    SUMMED,
    TRANSPORT,
    NfsSource,
    read_mount,
)

RPC = "net 70 70 69 45\nrpc 1218785755 374636 1218815394\nproc3 22 0 1061909262\n"
HEAD = "device proc mounted on /proc with fstype proc\n"


def mount(
    point: str = "/mnt/a b",
    origin: str = "server:/srv",
    xprt: str = "\txprt:\ttcp 832 0 1 0 11 6428 6427 2 12154 0 24 26 5726\n",
    read_line: str = "READ: 1298 1300 1 207680 1210292152 6 79386 79407 3",
) -> str:
    return (
        f"device {origin} mounted on {point} with fstype nfs4 statvers=1.1\n"
        f"\topts:\trw,vers=4.2,hard,proto=tcp,clientaddr=10.0.0.5\n"
        "\tage:\t13968\n"
        "\tevents:\t52 226 0 0 1 13 398 0 0 331 0 47 0 0 77 0 0 77 4 0 0 0 5 6 7 0 0\n"
        "\tbytes:\t1207640230 11 12 13 1210214218 15 295483 17\n"
        "\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
        f"{xprt}"
        "\tper-op statistics\n"
        "\t        NULL: 1 1 0 44 24 0 1 2 0\n"
        f"\t        {read_line}\n"
        "\t       WRITE: 0 0 0 0 0 0 0 0 0\n"
        "\t      LAYOUT: 10 10 0 100 100 20 30 40 0\n\n"
    )


@pytest.fixture
def client(tmp_path: Path) -> Path:
    write(tmp_path, "proc/net/rpc/nfs", RPC)
    write(tmp_path, "proc/self/mountstats", HEAD + mount())
    return tmp_path


def test_calls_bytes_transport_operations_and_sums(client: Path) -> None:
    source = open_source(NfsSource, client, 1000)
    found = values(source)
    assert found["nfs.rpc_calls"] == 1218785755
    assert found["nfs.rpc_retrans"] == 374636
    at = "//mnt/a b"
    expected = {
        "normalreadbytes": 1207640230,
        "serverreadbytes": 1210214218,
        "serverwrittenbytes": 15,
        "congestionwait": 4,
        "shortread": 5,
        "shortwrite": 6,
        "delay": 7,
        "connect_count": 1,
        "sends": 6428,
        "recvs": 6427,
        "bad_xids": 2,
        "READ_ops": 1298,
        "READ_queue": 6,
        "READ_rtt": 79386,
        "READ_exe": 79407,
        "ops": 1 + 1298 + 10,
        "retrans": 2,
        "timeouts": 1,
        "errors": 3,
        "queue": 26,
        "rtt": 79386 + 31,
        "exe": 79407 + 42,
    }
    assert {name: found.get(f"nfs.{name}{at}") for name in expected} == expected
    assert "nfs.WRITE_ops//mnt/a b" not in found  # never asked for
    assert not source.columns.unknown
    assert not source.columns.errors


def test_events_that_never_were_have_channels_from_the_start(client: Path) -> None:
    quiet = mount(read_line="READ: 5 5 0 1 1 0 1 1 0").replace("4 0 0 0 5 6 7 0 0", "0 0 0 0 0 0 0 0 0")
    write(client, "proc/self/mountstats", HEAD + quiet)
    found = values(open_source(NfsSource, client, 1000))
    for name in ("delay", "shortread", "retrans", "timeouts", "errors"):
        assert found[f"nfs.{name}//mnt/a b"] == 0


def test_every_name_is_in_the_catalogue_or_left_out() -> None:
    names = {*BYTES, *EVENTS.values(), *SUMMED, *(n for places in TRANSPORT.values() for n in places)}
    names |= {f"{op.decode()}_{field}" for op in DETAILED for field in OWN_FIELDS}
    assert {f"nfs.{name}" for name in names} <= load_catalog().keys() | load_left_out().keys()


def test_several_connections_to_a_server_are_summed() -> None:
    lines = "\txprt:\ttcp 832 0 1 0 11 100 90 1 0 0\n\txprt:\ttcp 833 0 2 0 11 10 9 0 0 0\n"
    found = read_mount(mount(xprt=lines).encode())
    assert (found["connect_count"], found["sends"], found["recvs"], found["bad_xids"]) == (3, 110, 99, 1)


@pytest.mark.parametrize(
    ("line", "sends"),
    [("udp 710 1 11 12 0 0 0", 11), ("rdma 0 0 3 0 9 21 20 0 0 0 1 2 3 4 5", 21), ("local 1 2 3 4", None)],
)
def test_transports(line: str, sends: int | None) -> None:
    assert read_mount(mount(xprt=f"\txprt:\t{line}\n").encode()).get("sends") == sends


def test_a_count_that_ran_below_zero_is_missing_and_so_is_its_sum(client: Path) -> None:
    line = "READ: 10 10 0 1 1 18446743919241604546 30 40 0"
    write(client, "proc/self/mountstats", HEAD + mount(read_line=line))
    found = values(open_source(NfsSource, client, 1000))
    assert found["nfs.READ_queue//mnt/a b"] is None
    assert found["nfs.queue//mnt/a b"] is None
    assert found["nfs.READ_rtt//mnt/a b"] == 30


def test_mounts_come_and_go(client: Path) -> None:
    source = open_source(NfsSource, client, 1000)
    other = mount("/mnt/b", "other:/x")
    write(client, "proc/self/mountstats", HEAD + mount() + other)
    found = read(source)
    assert found["nfs.ops//mnt/b"] == 1309
    write(client, "proc/self/mountstats", HEAD + other.replace("READ: 1298", "READ: 1299"))
    found = read(source)
    assert found["nfs.ops//mnt/b"] == 1310
    assert not [name for name in found if name.endswith("/mnt/a b")]


def test_a_file_system_at_two_places_is_counted_once(client: Path) -> None:
    write(client, "proc/self/mountstats", HEAD + mount("/a") + mount("/b") + mount("/c", "other:/srv"))
    found = values(open_source(NfsSource, client, 1000))
    assert {name.rpartition("/")[2] for name in found if "ops" in name} == {"a", "c"}


def test_more_mounts_than_are_read_are_said(client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nfs, "MAX_MOUNTS", 2)
    many = "".join(mount(f"/m{number}", f"server:/{number}") for number in range(5))
    write(client, "proc/self/mountstats", HEAD + many)
    source = open_source(NfsSource, client, 1000)
    assert source.notes == ["3 more NFS mounts are there than the 2 that are read"]


def test_mount_statistics_that_vanish_cost_only_their_own_samples(client: Path) -> None:
    source = open_source(NfsSource, client, 1000)
    source.parts[1].file.close()
    (client / "proc/self/mountstats").unlink()
    found = read(source)
    assert found["nfs.rpc_calls"] == 1218785755
    assert found["nfs.ops//mnt/a b"] is None
    write(client, "proc/self/mountstats", HEAD + mount())
    assert read(source)["nfs.ops//mnt/a b"] == 1309


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 1200), junk=st.binary(max_size=8), cut=st.integers(0, 40))
def test_torn_statistics_never_give_a_number_that_does_not_fit(at: int, junk: bytes, cut: int) -> None:
    text = mount().encode()
    for value in read_mount(text[:at] + junk + text[at + cut :]).values():
        assert value == MISSING or 0 <= value < 2**63


@pytest.mark.shared
def test_captured_hosts(tmp_path: Path) -> None:
    archive = SHARED / "data/procfs/fixtures.ttar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    unpack_ttar(archive, tmp_path)
    root = tmp_path / "fixtures"
    write(root, "proc/1/mountstats", (root / "proc/26231/mountstats").read_text(encoding="utf-8"))
    found = values(open_source(NfsSource, root, 1000))
    assert found["nfs.serverreadbytes//mnt/nfs/test"] == 1210214218
    assert found["nfs.READ_rtt//mnt/nfs/test"] == 79386
    assert found["nfs.ACCESS_ops//mnt/nfs/test"] == 2927395007
    assert found["nfs.ACCESS_queue//mnt/nfs/test"] is None  # 2**64 minus something
    assert found["nfs.ops//mnt/nfs/test"] == 1298 + 2927395007
    assert found["nfs.recvs//mnt/nfs/test"] == 6428


def test_a_host_without_nfs_says_so_and_one_with_the_client_is_here(tmp_path: Path) -> None:
    write(tmp_path, "proc/self/mountstats", HEAD)
    columns = Columns("nfs", 1000, load_catalog(), load_left_out())
    reason = NfsSource(tmp_path, columns).probe()
    assert reason is not None
    assert "modprobe nfs" in reason
    write(tmp_path, "proc/net/rpc/nfs", RPC)
    source = open_source(NfsSource, tmp_path, 1000)
    assert set(values(source)) == {"nfs.rpc_calls", "nfs.rpc_retrans", "nfs.rpc_authrefrsh"}
    write(tmp_path, "proc/self/mountstats", HEAD + mount())
    assert read(source)["nfs.ops//mnt/a b"] == 1309  # mounted later


def test_a_mount_may_hang_where_it_can_be_abandoned() -> None:
    assert NfsSource.detached
