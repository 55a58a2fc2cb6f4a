"""Short conversations with the kernel over netlink; pyroute2 encodes the messages.

pyroute2's own sockets are not used: they fork and run an event loop, and on a busy machine they were seen to
wait for ever for the answer to a new link. Here each request has a plain socket and a time limit.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from typing import Any

from pyroute2.netlink.nfnetlink import nfgen_msg
from pyroute2.netlink.nfnetlink.nftsocket import nft_chain_msg, nft_rule_msg, nft_table_msg
from pyroute2.netlink.rtnl.ifaddrmsg import ifaddrmsg
from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
from pyroute2.netlink.rtnl.tcmsg import sched_tbf, tcmsg

NETLINK_NETFILTER = 12
PATIENCE_S = 10.0
_REQUEST, _ACK, _EXCLUSIVE, _CREATE, _APPEND = 0x1, 0x4, 0x200, 0x400, 0x800
_NEW = _REQUEST | _ACK | _CREATE | _EXCLUSIVE
_NEWLINK, _DELLINK, _NEWADDR, _NEWQDISC, _DELQDISC = 16, 17, 20, 36, 37
_QDISC_ROOT = 0xFFFFFFFF
_ERROR = 2
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NFTABLES = 10  # the subsystem within netfilter
_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE = 0, 2, 3, 6
_INET = 1  # NFPROTO_INET: IPv4 and IPv6

_FILTER_DROP, _FILTER_ACCEPT = 0, 1
_META_IIFNAME, _META_OIFNAME = 6, 7
_LESS, _EQUAL, _NOT_EQUAL = 2, 0, 1
_TO_NETWORK = 1
_PREROUTING, _OUTPUT = 0, 3
_RAW_PRIORITY, _FILTER_PRIORITY = -300, 0  # before connection tracking, as the "raw" table; and after it
_CT_STATE = 0
_CTNETLINK, _CT_DELETE = 1, 2  # the subsystem of tracked connections within netfilter
_LOSS_STEPS = 10_000

_Command = tuple[type, int, int, list[Any]]
"""Message of nftables: its type, number, flags and attributes."""


def _talk(protocol: int, messages: Sequence[Any]) -> None:
    """Send messages in one piece and wait until each that wants it is acknowledged.

    Raises
    ------
    OSError
        With the kernel's number and words, if it refuses one; TimeoutError if it does not answer.
    """
    wanted = 0
    for number, message in enumerate(messages, start=1):
        message["header"]["sequence_number"] = number
        message.encode()
        wanted += bool(message["header"]["flags"] & _ACK)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as sock:
        sock.settimeout(PATIENCE_S)
        sock.sendto(b"".join(bytes(message.data) for message in messages), (0, 0))
        codes: list[int] = []
        while len(codes) < wanted:
            codes += _acknowledgements(sock.recv(1 << 16))
    refused = [code for code in codes if code]
    if refused:
        raise OSError(-refused[0], f"netlink: {os.strerror(-refused[0])}")


def _acknowledgements(data: bytes) -> list[int]:
    codes = []
    while len(data) >= 20:
        length, kind, _, _, _, code = struct.unpack_from("=IHHIIi", data)
        if kind == _ERROR:
            codes.append(code)
        data = data[(length + 3) & ~3 :]
    return codes


def _message(kind: type, number: int, flags: int, fields: dict[str, Any], attributes: list[Any]) -> Any:
    message = kind()
    for key, value in fields.items():
        message[key] = value
    message["attrs"] = attributes
    message["header"]["type"] = number
    message["header"]["flags"] = flags
    return message


def add_veth(name: str, peer: str, peer_namespace: int) -> None:
    """Make a veth pair whose other end lies in a namespace, given as an open file descriptor.

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    other = {"attrs": [["IFLA_IFNAME", peer], ["IFLA_NET_NS_FD", peer_namespace]]}
    info = [["IFLA_INFO_KIND", "veth"], ["IFLA_INFO_DATA", {"attrs": [["VETH_INFO_PEER", other]]}]]
    attributes = [["IFLA_IFNAME", name], ["IFLA_LINKINFO", {"attrs": info}]]
    _talk(socket.NETLINK_ROUTE, [_message(ifinfmsg, _NEWLINK, _NEW, {}, attributes)])


def delete_interface(index: int) -> None:
    """Delete an interface of the calling thread's network namespace.

    Raises
    ------
    OSError
        If the kernel refuses; ENODEV if it is not there.
    """
    _talk(socket.NETLINK_ROUTE, [_message(ifinfmsg, _DELLINK, _REQUEST | _ACK, {"index": index}, [])])


def raise_interface(name: str, address: str = "", prefix: int = 24) -> None:
    """Give an interface of the calling thread's network namespace an IPv4 address, if any, and set it up.

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    index = socket.if_nametoindex(name)
    if address:
        fields = {"family": socket.AF_INET, "prefixlen": prefix, "index": index}
        attributes = [["IFA_LOCAL", address], ["IFA_ADDRESS", address]]
        _talk(socket.NETLINK_ROUTE, [_message(ifaddrmsg, _NEWADDR, _NEW, fields, attributes)])
    fields = {"index": index, "flags": 1, "change": 1}
    _talk(socket.NETLINK_ROUTE, [_message(ifinfmsg, _NEWLINK, _REQUEST | _ACK, fields, [])])


def add_rate_limit(interface: str, rate: int, burst: int, limit: int) -> None:
    """Let an interface of the calling thread's network namespace send no faster than a rate.

    It becomes the root discipline: a token bucket filter, as ``tc qdisc add dev INTERFACE root tbf``.

    Parameters
    ----------
    interface
        Its name; it must have no discipline of its own.
    rate
        Bytes a second.
    burst, limit
        Bytes that may go at once, and that may wait; more is dropped.

    Raises
    ------
    OSError
        If the kernel refuses, or has no token bucket filter.
    """
    fields = {"index": socket.if_nametoindex(interface), "parent": _QDISC_ROOT}
    options = sched_tbf.get_parameters({"rate": rate, "burst": burst, "limit": limit})
    attributes = [["TCA_KIND", "tbf"], ["TCA_OPTIONS", options]]
    _talk(socket.NETLINK_ROUTE, [_message(tcmsg, _NEWQDISC, _NEW, fields, attributes)])


def delete_rate_limit(interface: str) -> None:
    """Give an interface of the calling thread's network namespace its usual discipline back.

    Raises
    ------
    OSError
        If the kernel refuses; ENOENT or EINVAL if it has no other.
    """
    fields = {"index": socket.if_nametoindex(interface), "parent": _QDISC_ROOT}
    _talk(socket.NETLINK_ROUTE, [_message(tcmsg, _DELQDISC, _REQUEST | _ACK, fields, [])])


def add_drop_rule(table: str, interface: str, probability: float) -> None:
    """Drop what arrives on an interface with a probability, in the calling thread's network namespace.

    In one transaction it makes a table with a prerouting chain that holds the rule
    ``iifname INTERFACE numgen random mod 10000 < N drop``.

    Raises
    ------
    OSError
        If the kernel has no nftables, or not its ``numgen``.
    """
    register = {"SREG": 1, "DREG": 1}
    expressions = [
        _expression("meta", "META", KEY=_META_IIFNAME, DREG=1),
        _compare(_EQUAL, interface.encode().ljust(16, b"\0")),
        _expression("numgen", "NG", DREG=1, MODULUS=_LOSS_STEPS, TYPE=1),
        # the number comes in the machine's byte order, and is compared byte by byte
        _expression("byteorder", "BYTEORDER", **register, OP=_TO_NETWORK, LEN=4, SIZE=4),
        _compare(_LESS, round(probability * _LOSS_STEPS).to_bytes(4, "big")),
        _expression("immediate", "IMMEDIATE", DREG=0, DATA=_verdict(_FILTER_DROP)),
    ]
    _nftables(
        _table(table),
        _chain(table, "loss", _PREROUTING, _RAW_PRIORITY),
        _rule(table, "loss", expressions),
    )


def add_untracked(table: str, interface: str) -> None:
    """Leave out of tracking what does not go over an interface, in the calling thread's network namespace.

    In one transaction it makes a table with the rules ``iifname != INTERFACE notrack`` and ``oifname !=
    INTERFACE notrack``. They change nothing while nobody tracks connections.

    Raises
    ------
    OSError
        If the kernel has no nftables, or tracks no connections.
    """
    name = interface.encode().ljust(16, b"\0")

    def elsewhere(key: int) -> list[Any]:
        meta = _expression("meta", "META", KEY=key, DREG=1)
        return [meta, _compare(_NOT_EQUAL, name), {"attrs": [("NFTA_EXPR_NAME", "notrack")]}]

    _nftables(
        _table(table),
        _chain(table, "in", _PREROUTING, _RAW_PRIORITY),
        _chain(table, "out", _OUTPUT, _RAW_PRIORITY),
        _rule(table, "in", elsewhere(_META_IIFNAME)),
        _rule(table, "out", elsewhere(_META_OIFNAME)),
    )


def add_tracking(table: str) -> None:
    """Track connections in the calling thread's network namespace, by a rule that asks for their state.

    The kernel begins before the transaction is done, and ends some time after the table is deleted.

    Raises
    ------
    OSError
        If the kernel has no nftables, or tracks no connections.
    """
    _nftables(
        _table(table),
        _chain(table, "state", _PREROUTING, _FILTER_PRIORITY),
        _rule(table, "state", [_expression("ct", "CT", KEY=_CT_STATE, DREG=1)]),
    )


def forget_connections() -> None:
    """Empty the table of tracked connections of the calling thread's network namespace.

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    number = _CTNETLINK << 8 | _CT_DELETE
    _talk(NETLINK_NETFILTER, [_message(nfgen_msg, number, _REQUEST | _ACK, {"nfgen_family": 0}, [])])


def _table(name: str) -> _Command:
    return nft_table_msg, _NEWTABLE, _NEW, [["NFTA_TABLE_NAME", name]]


def _chain(table: str, name: str, hook: int, priority: int) -> _Command:
    where = {"attrs": [["NFTA_HOOK_HOOKNUM", hook], ["NFTA_HOOK_PRIORITY", priority]]}
    chain = [
        ["NFTA_CHAIN_TABLE", table],
        ["NFTA_CHAIN_NAME", name],
        ["NFTA_CHAIN_HOOK", where],
        ["NFTA_CHAIN_TYPE", "filter"],
        ["NFTA_CHAIN_POLICY", _FILTER_ACCEPT],
    ]
    return nft_chain_msg, _NEWCHAIN, _NEW, chain


def _rule(table: str, chain: str, expressions: list[Any]) -> _Command:
    rule = [
        ["NFTA_RULE_TABLE", table],
        ["NFTA_RULE_CHAIN", chain],
        ["NFTA_RULE_EXPRESSIONS", expressions],
    ]
    return nft_rule_msg, _NEWRULE, _REQUEST | _ACK | _CREATE | _APPEND, rule


def delete_table(table: str) -> None:
    """Delete an nftables table of the calling thread's network namespace.

    Raises
    ------
    OSError
        If the kernel refuses; ENOENT if it is not there.
    """
    _nftables((nft_table_msg, _DELTABLE, _REQUEST | _ACK, [["NFTA_TABLE_NAME", table]]))


def _nftables(*commands: _Command) -> None:
    family = {"nfgen_family": _INET}
    batch = {"res_id": _NFTABLES}
    messages = [_message(nfgen_msg, _BATCH_BEGIN, _REQUEST, batch, [])]
    for kind, number, flags, attributes in commands:
        messages.append(_message(kind, _NFTABLES << 8 | number, flags, family, attributes))
    messages.append(_message(nfgen_msg, _BATCH_END, _REQUEST, batch, []))
    _talk(NETLINK_NETFILTER, messages)


def _expression(kind: str, prefix: str, **fields: Any) -> dict[str, Any]:
    data = [(f"NFTA_{prefix}_{name}", value) for name, value in fields.items()]
    return {"attrs": [("NFTA_EXPR_NAME", kind), ("NFTA_EXPR_DATA", {"attrs": data})]}


def _compare(operator: int, value: bytes) -> dict[str, Any]:
    return _expression("cmp", "CMP", SREG=1, OP=operator, DATA={"attrs": [("NFTA_DATA_VALUE", value)]})


def _verdict(code: int) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", code)]})]}
