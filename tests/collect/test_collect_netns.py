"""Network namespaces other than the agent's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from collect_parts import HOST_TREE, open_source, read, values, write

from reveal_core.collect.sources import netns
from reveal_core.collect.sources.netns import NetnsSource


def write_process(root: Path, pid: str, namespace: int, group: str = "/") -> None:
    folder = root / "proc" / pid
    (folder / "ns").mkdir(parents=True, exist_ok=True)
    link = folder / "ns/net"
    link.unlink(missing_ok=True)
    link.symlink_to(f"net:[{namespace}]")
    write(root, f"proc/{pid}/cgroup", f"0::{group}\n")
    for file in ("snmp", "netstat", "dev", "sockstat"):
        write(root, f"proc/{pid}/net/{file}", (HOST_TREE / "proc/net" / file).read_text())


def end_process(root: Path, pid: str) -> None:
    (root / "proc" / pid).rename(root / f"gone-{pid}")


def rediscover(source: NetnsSource) -> dict[str, int | None]:
    source.reads_to_rescan = 0
    return read(source)


def namespaces(found: dict[str, int | None]) -> set[str]:
    return {name.removeprefix("tcp.RetransSegs/") for name in found if name.startswith("tcp.RetransSegs/")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_process(tmp_path, "self", 1, "/agent")
    write_process(tmp_path, "10", 1)
    return tmp_path


def opened(root: Path) -> NetnsSource:
    source = open_source(NetnsSource, root)
    assert isinstance(source, NetnsSource)
    return source


def test_the_agents_own_namespace_is_not_read_twice(root: Path) -> None:
    assert values(opened(root)) == {}


def test_another_namespace_is_read_through_a_process_in_it(root: Path) -> None:
    write_process(root, "20", 4026532)
    found = values(opened(root))
    assert found["tcp.RetransSegs/net:4026532"] == 227
    assert found["tcpext.SyncookiesFailed/net:4026532"] == 2
    assert found["net.rx_bytes/net:4026532:eth0"] == 874354587
    assert found["sockstat.TCP_alloc/net:4026532"] == 17


def test_a_namespace_is_called_by_its_name_then_its_container_then_its_number(root: Path) -> None:
    named = write(root, "run/netns/rank1", "")
    write_process(root, "20", named.stat().st_ino, "/system.slice/ignored.scope")
    write_process(root, "30", 77, "/kubepods/pod1/cri-abc.scope")
    write_process(root, "40", 78, "/agent")  # the agent's own group says nothing about the namespace
    assert namespaces(values(opened(root))) == {"rank1", "cri-abc", "net:78"}


def test_two_namespaces_of_one_container_keep_apart(root: Path) -> None:
    write_process(root, "20", 71, "/pod")
    write_process(root, "30", 72, "/pod")
    assert namespaces(values(opened(root))) == {"pod", "pod-72"}


def test_namespaces_come_and_go_and_their_files_are_closed(root: Path) -> None:
    source = opened(root)
    write_process(root, "20", 50)
    assert namespaces(rediscover(source)) == {"net:50"}
    files = [part.file for part in source.parts]
    assert all(file.fd >= 0 for file in files)
    end_process(root, "20")
    assert namespaces(rediscover(source)) == set()
    assert all(file.fd < 0 for file in files)


def test_a_namespace_outlives_the_process_it_was_read_through(root: Path) -> None:
    write_process(root, "20", 50)
    source = opened(root)
    write_process(root, "30", 50)
    for _ in range(netns.NEW_FOR + 1):
        rediscover(source)  # 30 is known by now, and would not be asked again for a while
    end_process(root, source.namespaces["net:[50]"].pid)
    assert namespaces(rediscover(source)) == {"net:50"}


def test_a_process_that_enters_its_namespace_late_is_found(root: Path) -> None:
    write_process(root, "20", 1)
    source = opened(root)
    write_process(root, "20", 60)
    assert namespaces(rediscover(source)) == {"net:60"}


def test_the_number_of_namespaces_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netns, "MAX_NAMESPACES", 2)
    for number in range(5):
        write_process(root, str(20 + number), 50 + number)
    source = opened(root)
    assert len(namespaces(values(source))) == 2
    assert source.notes == ["3 more namespaces are in use than the 2 that are read"]


UNSHARE = """
import ctypes, os
CLONE_NEWNET = 0x40000000
if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
    raise SystemExit(os.strerror(ctypes.get_errno()))
print(os.readlink("/proc/self/ns/net"), flush=True)
input()
"""


@pytest.mark.root
def test_a_namespace_of_this_machine_is_read_while_it_lives() -> None:
    if os.geteuid() != 0:
        pytest.skip("making a network namespace needs root")
    source = opened(Path("/"))
    child = subprocess.Popen(
        [sys.executable, "-c", UNSHARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        link = child.stdout.readline().strip()
        if not link:
            pytest.skip("this kernel makes no network namespace")
        assert link not in source.namespaces
        rediscover(source)
        assert link in source.namespaces
        files = [part.file for part in source.namespaces[link].parts]
        assert [file.path.name for file in files] == ["snmp", "netstat", "dev", "sockstat"]
        slots = source.namespaces[link].parts[0].owned
        read_names = {column.channel.metric for slot in slots if (column := source.columns.slots[slot])}
        assert {"tcp.RetransSegs", "udp.InErrors", "ip.InReceives"} <= read_names
    finally:
        child.communicate("\n")
    rediscover(source)
    assert link not in source.namespaces
    assert all(file.fd < 0 for file in files)
    source.close()
