"""The lab's network namespace, its veth pair, and packet loss between the two, all over netlink."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from reveal_core.lab.namespaces import NAMESPACES, in_namespace
from reveal_core.lab.place import LabPlace

_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21
_INET = 1  # NFPROTO_INET: IPv4 and IPv6
_META_IIFNAME = 6
_LESS, _EQUAL = 2, 0
_TO_NETWORK = 1
_RAW_PRIORITY = -300  # before connection tracking, as the "raw" table
_ACCEPT, _DROP = 1, 0
_LOSS_STEPS = 10_000
_CLONE_NEWNS = 0x00020000
_MS_REC_PRIVATE = 0x4000 | 0x40000


def why_no_namespaces() -> str:
    """Return why this process cannot make network namespaces, or ``""`` if it can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    line = next(line for line in status.splitlines() if line.startswith("CapEff:"))
    rights = int(line.split()[1], 16)
    for number, name in ((_CAP_SYS_ADMIN, "CAP_SYS_ADMIN"), (_CAP_NET_ADMIN, "CAP_NET_ADMIN")):
        if not rights >> number & 1:
            return f"needs {name} to make network namespaces"
    if not Path("/proc/self/ns/net").exists():
        return "the kernel has no network namespaces"
    return ""


def make_pair(place: LabPlace) -> None:
    """Make the namespace and a veth pair into it, with addresses, all up.

    Raises
    ------
    OSError
        If the kernel refuses.
    """

    def make() -> None:
        from pyroute2 import IPRoute, netns  # takes a third of a second, which only this needs

        netns.create(place.name)
        with IPRoute() as here, IPRoute(netns=place.name) as there:
            here.link(
                "add",
                ifname=place.links[0],
                kind="veth",
                peer={"ifname": place.links[1], "net_ns_fd": place.name},
            )
            for route, end in ((here, 0), (there, 1)):
                index = route.link_lookup(ifname=place.links[end])[0]
                route.addr("add", index=index, address=place.addresses[end], prefixlen=24)
                route.link("set", index=index, state="up")
            there.link("set", index=there.link_lookup(ifname="lo")[0], state="up")

    _netlink(make)


def _netlink(work: Callable[[], None], namespace: str = "") -> None:
    """Run work that speaks netlink; its errors become OSError with the kernel's number and words."""

    def guarded() -> None:
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            work()
        except NetlinkError as error:
            raise OSError(error.code, f"netlink: {os.strerror(error.code)}") from None

    in_namespace(namespace, guarded)


def delete_namespace(name: str) -> None:
    """Delete a network namespace, if it is there."""
    if not (NAMESPACES / name).exists():
        return

    def delete() -> None:
        from pyroute2 import netns

        netns.remove(name)

    _netlink(delete)


def delete_link(name: str) -> None:
    """Delete a network interface of the present namespace, if it is there."""

    def delete() -> None:
        from pyroute2 import IPRoute

        with IPRoute() as route:
            for index in route.link_lookup(ifname=name):
                route.link("del", index=index)

    _netlink(delete)


def add_loss_table(namespace: str, table: str, interface: str, probability: float) -> None:
    """Drop what arrives on an interface with a probability, by an nftables rule.

    The rule is ``iifname INTERFACE numgen random mod 10000 < N drop`` in a prerouting chain of its own table.

    Raises
    ------
    OSError
        If the kernel has no nftables, or not its ``numgen``.
    """

    def add() -> None:
        from pyroute2.nftables.main import NFTables

        nft = NFTables(nfgen_family=_INET)
        try:
            nft.table("add", name=table)
            nft.chain(
                "add",
                table=table,
                name="loss",
                hook="prerouting",
                type="filter",
                priority=_RAW_PRIORITY,
                policy=_ACCEPT,
            )
            expressions = (
                _expression("meta", META_KEY=_META_IIFNAME, META_DREG=1),
                _compare(_EQUAL, interface.encode().ljust(16, b"\0")),
                _expression("numgen", NG_DREG=1, NG_MODULUS=_LOSS_STEPS, NG_TYPE=1),
                # the number comes in the machine's byte order, and is compared byte by byte
                _expression(
                    "byteorder",
                    BYTEORDER_SREG=1,
                    BYTEORDER_DREG=1,
                    BYTEORDER_OP=_TO_NETWORK,
                    BYTEORDER_LEN=4,
                    BYTEORDER_SIZE=4,
                ),
                _compare(_LESS, round(probability * _LOSS_STEPS).to_bytes(4, "big")),
                _expression("immediate", IMMEDIATE_DREG=0, IMMEDIATE_DATA=_verdict(_DROP)),
            )
            nft.rule("add", table=table, chain="loss", expressions=(list(expressions),))
        finally:
            nft.close()

    _netlink(add, namespace)


def _expression(kind: str, **fields: Any) -> dict[str, Any]:
    data = [(f"NFTA_{name}", value) for name, value in fields.items()]
    return {"attrs": [("NFTA_EXPR_NAME", kind), ("NFTA_EXPR_DATA", {"attrs": data})]}


def _compare(operator: int, value: bytes) -> dict[str, Any]:
    return _expression("cmp", CMP_SREG=1, CMP_OP=operator, CMP_DATA={"attrs": [("NFTA_DATA_VALUE", value)]})


def _verdict(code: int) -> dict[str, Any]:
    return {"attrs": [("NFTA_DATA_VERDICT", {"attrs": [("NFTA_VERDICT_CODE", code)]})]}


def delete_loss_table(namespace: str, table: str) -> None:
    """Delete an nftables table of the lab's, if it and its namespace are there."""
    if namespace and not (NAMESPACES / namespace).exists():
        return

    def delete() -> None:
        from pyroute2.nftables.main import NFTables

        nft = NFTables(nfgen_family=_INET)
        try:
            nft.table("del", name=table)
        finally:
            nft.close()

    try:
        _netlink(delete, namespace)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def set_receive_steering(namespace: str, interface: str, mask: str) -> None:
    """Set which cores handle what an interface receives (its ``rps_cpus``), also in another namespace.

    A namespace's interfaces show only in a sysfs mounted inside it, so the thread mounts one that nobody else
    sees.

    Raises
    ------
    OSError
        If the kernel refuses.
    """
    if namespace and not (NAMESPACES / namespace).exists():
        return

    def write() -> None:
        if not namespace:
            _write_steering(Path("/sys"), interface, mask)
            return
        libc = ctypes.CDLL(None, use_errno=True)
        # CLONE_NEWNS for this thread alone implies its own CLONE_FS, so the process keeps its mounts
        _check(libc.unshare(_CLONE_NEWNS), "unshare")
        _check(libc.mount(b"none", b"/", None, _MS_REC_PRIVATE, None), "mount --make-rprivate /")
        with tempfile.TemporaryDirectory(prefix="reveal-sys-") as folder:
            _check(libc.mount(b"sysfs", folder.encode(), b"sysfs", 0, None), "mount sysfs")
            try:
                _write_steering(Path(folder), interface, mask)
            finally:
                _check(libc.umount2(folder.encode(), 2), "umount sysfs")

    in_namespace(namespace, write)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _write_steering(sysfs: Path, interface: str, mask: str) -> None:
    for queue in sorted((sysfs / "class/net" / interface / "queues").glob("rx-*")):
        with suppress(FileNotFoundError):  # the interface has just gone
            (queue / "rps_cpus").write_text(mask, encoding="ascii")
