"""IPv6 and the sockets of each protocol, on the running kernel, a captured tree and files that change."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, read, values, write

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.sources.ipv6 import Ipv6Source
from reveal_core.collect.sources.sockets import SocketsSource

LIVE = Path("/")
SNMP6 = """\
Ip6InReceives                   \t1557
Ip6InDiscards                   \t0
Icmp6InPktTooBigs               \t3
Icmp6InType1                    \t9
Udp6RcvbufErrors                \t12
UdpLite6InErrors                \t7
"""
PROTOCOLS = """\
protocol  size sockets  memory press maxhdr  slab module     cl co di
SCTP      1752      4      64   no     160   yes  sctp       y  y  y
UNIX      1152     37      -1   NI       0   yes  kernel     y  n  n
PING      1016      0      -1   NI       0   yes  kernel     y  n  n
"""


def test_ipv6_counters_are_read_by_name(tmp_path: Path) -> None:
    write(tmp_path, "proc/net/snmp6", SNMP6)
    write(tmp_path, "proc/net/sockstat6", "TCP6: inuse 5\nUDP6: inuse 2\nFRAG6: inuse 1 memory 768\n")
    source = open_source(Ipv6Source, tmp_path)
    assert values(source) == {
        "ip6.InReceives/host": 1557,
        "ip6.InDiscards/host": 0,
        "icmp6.InPktTooBigs/host": 3,
        "udp6.RcvbufErrors/host": 12,
        "sockstat.TCP6_inuse/host": 5,
        "sockstat.UDP6_inuse/host": 2,
        "sockstat.FRAG6_inuse/host": 1,
        "sockstat.FRAG6_memory/host": 768,
    }
    assert not source.columns.unknown
    source.close()


def test_a_host_without_ipv6_says_so(tmp_path: Path) -> None:
    write(tmp_path, "proc/net/snmp", "")
    columns = Columns("ipv6", 1000, load_catalog(), load_left_out())
    assert "without IPv6" in str(Ipv6Source(tmp_path, columns).probe())


@pytest.mark.parametrize("root", [LIVE, SHARED / "data/node_exporter"], ids=["live", "captured"])
def test_every_name_of_a_kernel_is_known(root: Path) -> None:
    if not (root / "proc/net/snmp6").exists():
        pytest.skip(f"{root} has no IPv6 counters")
    source = open_source(Ipv6Source, root)
    assert not source.columns.unknown
    assert not source.columns.errors
    assert "udp6.RcvbufErrors/host" in values(source)
    source.close()


def test_protocols_in_use_have_a_channel_each(tmp_path: Path) -> None:
    file = write(tmp_path, "proc/net/protocols", PROTOCOLS)
    source = open_source(SocketsSource, tmp_path)
    assert values(source) == {"sockets.in_use/SCTP": 4, "sockets.in_use/UNIX": 37}
    # A protocol that comes into use gets one, a module that is unloaded loses it.
    lines = PROTOCOLS.replace("1016      0", "1016      2").splitlines(keepends=True)
    file.write_text("".join(line for line in lines if not line.startswith("SCTP")), encoding="ascii")
    assert read(source) == {"sockets.in_use/UNIX": 37, "sockets.in_use/PING": 2}
    source.close()


def test_sockets_that_leak_are_seen() -> None:
    source = open_source(SocketsSource, LIVE)
    before = sum(count or 0 for name, count in values(source).items() if "UNIX" in name)
    with ExitStack() as held:
        for _ in range(50):
            held.enter_context(closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)))
        after = sum(count or 0 for name, count in read(source).items() if "UNIX" in name)
    source.close()
    assert 40 <= after - before <= 70
