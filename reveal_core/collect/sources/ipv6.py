"""IPv6, its UDP and ICMP, and its sockets."""

from __future__ import annotations

import re

from reveal_core.collect.files import HostFile
from reveal_core.collect.parts import FieldsPart, Target
from reveal_core.collect.source import Source
from reveal_core.collect.sources.protocols import HOST
from reveal_core.collect.sources.sockstat import SockstatPart

FAMILIES = {"Ip6": "ip6", "Icmp6": "icmp6", "Udp6": "udp6"}
"""Families that are read; TCP counts both versions together, and UDP-Lite is used by nobody."""
_FIELD = re.compile(r"(Ip6|Icmp6|Udp6)([A-Z]\w*)")
_BY_NUMBER = re.compile(r"(In|Out)Type\d+")
"""ICMP messages by the number of their type, which stand among the others by name."""


def snmp6_target(name: bytes) -> Target | None:
    """Return the metric of a name of ``snmp6``.

    >>> snmp6_target(b"Udp6RcvbufErrors")
    ('udp6.RcvbufErrors', 1.0)
    """
    found = _FIELD.fullmatch(name.decode("ascii", "replace"))
    if found is None or _BY_NUMBER.fullmatch(found[2]):
        return None
    return f"{FAMILIES[found[1]]}.{found[2]}", 1.0


class Ipv6Source(Source):
    """IPv6 counters and sockets of the agent's own network namespace."""

    name = "ipv6"
    period_ms = 1000

    def probe(self) -> str | None:
        """See `Source.probe`."""
        return self.missing("proc/net/snmp6", hint="the kernel was started without IPv6")

    def open(self) -> None:
        """See `Source.open`."""
        file = HostFile(self.path("proc/net/snmp6"), whole=True, size=8192)
        self.parts.append(FieldsPart(file, self.columns, snmp6_target, HOST))
        sockets = self.path("proc/net/sockstat6")
        if sockets.exists():
            self.parts.append(SockstatPart(HostFile(sockets, whole=True), self.columns))
