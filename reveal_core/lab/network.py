"""The lab's network namespace, its veth pair, and what befalls packets between the two: no tool needed."""

from __future__ import annotations

import errno
import os
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from reveal_core.lab.namespaces import (
    NAMESPACES,
    in_namespace,
    libc_call,
    make_namespace,
    remove_namespace,
    set_link,
)
from reveal_core.lab.place import LabPlace

_CAP_NET_ADMIN = 12
_CAP_SYS_ADMIN = 21
_CLONE_NEWNS = 0x00020000
_MS_REC_PRIVATE = 0x4000 | 0x40000
_DETACH = 2
TRACKED_COUNT = Path("/proc/sys/net/netfilter/nf_conntrack_count")
FORGET_S, FORGET_STEP_S, FORGET_LOOKS = 5.0, 0.15, 2


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
    from reveal_core.lab.netlink import add_veth, raise_interface  # pyroute2 takes a while to import

    make_namespace(place.name)
    descriptor = os.open(NAMESPACES / place.name, os.O_RDONLY)
    try:
        add_veth(*place.links, descriptor)
    finally:
        os.close(descriptor)
    raise_interface(place.links[0], place.addresses[0])

    def inside() -> None:
        raise_interface("lo")
        raise_interface(place.links[1], place.addresses[1])

    in_namespace(place.name, inside)


def delete_namespace(name: str) -> None:
    """Delete a network namespace, if it is there."""
    remove_namespace(name)


def delete_link(name: str) -> None:
    """Delete a network interface of the present namespace, if it is there."""
    from reveal_core.lab.netlink import delete_interface

    try:
        index = socket.if_nametoindex(name)
    except OSError:  # its only reason: there is no interface of that name
        return
    try:
        delete_interface(index)
    except OSError as error:
        if error.errno != errno.ENODEV:  # the kernel deletes it by itself after the other end's namespace
            raise


def add_loss_table(namespace: str, table: str, interface: str, probability: float) -> None:
    """Drop what arrives on an interface with a probability, by nftables; ``""`` is the present namespace.

    Raises
    ------
    OSError
        If the kernel has no nftables, or not its ``numgen``.
    """
    from reveal_core.lab.netlink import add_drop_rule

    in_namespace(namespace, lambda: add_drop_rule(table, interface, probability))


def delete_loss_table(namespace: str, table: str) -> None:
    """Delete an nftables table of the lab's, if it and its namespace are there."""
    from reveal_core.lab.netlink import delete_table

    if namespace and not (NAMESPACES / namespace).exists():
        return
    try:
        in_namespace(namespace, lambda: delete_table(table))
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise


def limit_rate(namespace: str, interface: str, rate: int, burst: int, limit: int) -> None:
    """Let an interface send no faster than a rate, see `reveal_core.lab.netlink.add_rate_limit`.

    Raises
    ------
    OSError
        If the kernel refuses, or has no token bucket filter.
    """
    from reveal_core.lab.netlink import add_rate_limit

    in_namespace(namespace, lambda: add_rate_limit(interface, rate, burst, limit))


def unlimit_rate(namespace: str, interface: str) -> None:
    """Take an interface's limit away, if it, its namespace and the limit are there."""
    from reveal_core.lab.netlink import delete_rate_limit

    if namespace and not (NAMESPACES / namespace).exists():
        return

    def delete() -> None:
        if interface not in {name for _, name in socket.if_nameindex()}:
            return
        try:
            delete_rate_limit(interface)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EINVAL, errno.ENODEV):
                raise

    in_namespace(namespace, delete)


def raise_link(namespace: str, interface: str) -> None:
    """Set an interface up, if it and its namespace are there."""
    if namespace and not (NAMESPACES / namespace).exists():
        return

    def up() -> None:
        if interface in {name for _, name in socket.if_nameindex()}:
            set_link(interface, True)

    in_namespace(namespace, up)


def leave_untracked(table: str, interface: str) -> None:
    """Leave out of tracking what does not go over an interface of the host, by a table of that name.

    Raises
    ------
    OSError
        If the kernel has no nftables, or tracks no connections.
    """
    from reveal_core.lab.netlink import add_untracked

    add_untracked(table, interface)


def track_connections(table: str) -> None:
    """Track the host's connections, by a table of that name.

    Raises
    ------
    OSError
        If the kernel has no nftables, or tracks no connections.
    """
    from reveal_core.lab.netlink import add_tracking

    add_tracking(table)


def tracked_connections() -> int | None:
    """Return how many connections of the host are tracked; None if the kernel tracks none at all."""
    try:
        return int(TRACKED_COUNT.read_text(encoding="ascii"))
    except OSError:
        return None


def forget_tracked() -> None:
    """Empty the host's table of tracked connections, whose entries outlast their tracking by days.

    Tracking ends a moment after its rule is gone, so it is looked at until it stays empty.
    """
    from reveal_core.lab.netlink import forget_connections

    deadline = time.monotonic() + FORGET_S
    quiet = 0
    while quiet < FORGET_LOOKS and time.monotonic() < deadline:
        forget_connections()
        time.sleep(FORGET_STEP_S)
        quiet = 0 if tracked_connections() else quiet + 1


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
        # CLONE_NEWNS for this thread alone implies its own CLONE_FS, so the process keeps its mounts
        libc_call("unshare", _CLONE_NEWNS)
        libc_call("mount", b"none", b"/", None, _MS_REC_PRIVATE, None)
        with tempfile.TemporaryDirectory(prefix="reveal-sys-") as folder:
            libc_call("mount", b"sysfs", folder.encode(), b"sysfs", 0, None)
            try:
                _write_steering(Path(folder), interface, mask)
            finally:
                libc_call("umount2", folder.encode(), _DETACH)

    in_namespace(namespace, write)


def _write_steering(sysfs: Path, interface: str, mask: str) -> None:
    for queue in sorted((sysfs / "class/net" / interface / "queues").glob("rx-*")):
        with suppress(FileNotFoundError):  # the interface has just gone
            (queue / "rps_cpus").write_text(mask, encoding="ascii")
