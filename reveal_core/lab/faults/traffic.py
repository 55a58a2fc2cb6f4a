"""Faults that come from traffic: storms of packets, interrupts on one core, connections without end."""

from __future__ import annotations

from pathlib import Path

from reveal_core.lab.faults.base import Fault, Injection, cores, needs_root
from reveal_core.lab.journal import UndoAction
from reveal_core.lab.network import (
    leave_untracked,
    set_receive_steering,
    track_connections,
    tracked_connections,
    why_no_namespaces,
)
from reveal_core.lab.processes import Child

IRQS = Path("/proc/irq")
TRACKED = Path("/proc/sys/net/netfilter")
TARGET_CORE = 0
PACKETS, FEW_PACKETS = 500, 250
"""Datagrams in a burst, one burst each 10 ms and each way: in a storm, and for interrupts to come of."""
CONNECTIONS, CONNECTION_RATE, MOST_CONNECTIONS = 3000, 1000.0, 12_000
KNOCK_RATE = 200.0
TABLE_SIZE, LEAST_TABLE, FLOW_RATE = 256, 64, 2000.0


def why_no_imbalance() -> str:
    """Return why interrupts cannot be forced onto one core, or ``""``."""
    if cores() < 2:
        return "there is a single core"
    return needs_root()


def gather_interrupts(injection: Injection) -> str:
    """Send interrupts and the handling of received packets to core 0, under many small packets."""
    namespace = injection.namespace()
    links = injection.need_workload().links
    mask = f"{1 << TARGET_CORE:x}"
    senders = _packets(injection, "--count", str(max(1, round(FEW_PACKETS * injection.intensity))))
    for where, interface in (("", links[0]), (namespace, links[1])):
        what = f"restored receive steering of {interface}"
        injection.journal.add(UndoAction("receive-steering", (where, interface, "0"), what))
        set_receive_steering(where, interface, mask)
    moved = sum(_move(injection, folder, mask) for folder in sorted(IRQS.iterdir()) if folder.name.isdigit())
    for sender in senders:
        sender.go()
    return f"{moved} interrupts and the packets of {' and '.join(links)} on core {TARGET_CORE}"


def _packets(injection: Injection, *options: str) -> list[Child]:
    """Prepare a sender of small datagrams on each side of the veth pair."""
    here, there = injection.need_workload().addresses
    neighbour = injection.neighbour()
    return [
        injection.prepare("packets", "--listen", here, "--send", there, *options, cgroup=neighbour),
        injection.prepare(
            "packets",
            "--listen",
            there,
            "--send",
            here,
            *options,
            cgroup=neighbour,
            netns=injection.namespace(),
        ),
    ]


def _move(injection: Injection, folder: Path, mask: str) -> bool:
    """Move an interrupt; its present core is restored too, which the mask alone would not do."""
    allowed = folder / "smp_affinity"
    try:
        before = allowed.read_text(encoding="ascii").strip()
        now = (folder / "effective_affinity").read_text(encoding="ascii").strip()
        injection.journal.change_file(allowed, mask, restore=before)
        if now.replace(",", "").strip("0"):
            injection.journal.change_file(allowed, mask, restore=now)
    except OSError:
        return False  # the kernel keeps some where they are
    return True


def storm_packets(injection: Injection) -> str:
    """Send small datagrams both ways over the veth pair, far more than the job's own packets."""
    injection.namespace()
    count = max(1, round(PACKETS * injection.intensity))
    for sender in _packets(injection, "--count", str(count)):
        sender.go()
    return f"up to {count * 100} datagrams of 64 bytes a second each way"


def exhaust_sockets(injection: Injection) -> str:
    """Open connections inside the job's namespace, hold thousands, and replace them without end."""
    namespace = injection.namespace()
    count = min(round(CONNECTIONS * injection.intensity), MOST_CONNECTIONS)
    rate = CONNECTION_RATE * injection.intensity
    options = ("--count", str(count), "--rate", str(rate))
    injection.prepare("connections", *options, cgroup=injection.neighbour(), netns=namespace).go()
    return f"up to {count} connections held, {rate:.0f} opened a second"


def overflow_listener(injection: Injection) -> str:
    """Knock at a listener that accepts nobody, inside the job's namespace."""
    namespace = injection.namespace()
    rate = KNOCK_RATE * injection.intensity
    options = ("--rate", str(rate))
    injection.prepare("knock", *options, cgroup=injection.neighbour(), netns=namespace).go()
    return f"{rate:.0f} connections a second to a listener that accepts none"


def why_no_tracking() -> str:
    """Return why the table of tracked connections cannot be made to overflow, or ``""``."""
    refusal = why_no_namespaces()
    if refusal:
        return refusal
    count = tracked_connections()
    if count is None:
        return "the kernel tracks no connections"
    if count:
        return f"the kernel tracks {count} connections of this host already, which share the table's limit"
    return ""


def overflow_tracking(injection: Injection) -> str:
    """Track the connections over the veth pair, in a small table, and open far more than fit.

    What goes over other interfaces of the host is not tracked, so the small table costs nobody else a packet.
    """
    injection.namespace()
    workload = injection.need_workload()
    here, there = workload.addresses
    untracked, tracking = f"{injection.place.name}-untracked", f"{injection.place.name}-tracking"
    flows = injection.prepare(
        "flows", "--listen", here, "--send", there, "--rate", str(FLOW_RATE), cgroup=injection.neighbour()
    )
    size = max(LEAST_TABLE, round(TABLE_SIZE / injection.intensity))
    # Undone in reverse: as long as the kernel tracks, and until its table is empty, others stay left out.
    injection.journal.add(
        UndoAction("delete-loss-table", ("", untracked), f"deleted the nftables table {untracked}")
    )
    leave_untracked(untracked, workload.links[0])
    # There were none before, see `why_no_tracking`.
    injection.journal.add(UndoAction("forget-tracked", (), "forgot the tracked connections"))
    injection.journal.add(
        UndoAction("delete-loss-table", ("", tracking), f"deleted the nftables table {tracking}")
    )
    track_connections(tracking)
    injection.journal.change_file(TRACKED / "nf_conntrack_max", str(size))
    flows.go()
    return f"{FLOW_RATE:.0f} new connections a second in a table of {size}"


PACKET_STORM = Fault(
    "packet-storm",
    "network",
    "Storm of small packets",
    "Small datagrams go both ways over the veth pair, some 50,000 a second each way.",
    ("packet-storm",),
    why_no_namespaces,
    storm_packets,
    "multiplies the number of datagrams",
    needs_workload=True,
)
INTERRUPTS = Fault(
    "interrupts-on-one-core",
    "cpu",
    "Interrupts forced onto one core",
    "All interrupts that can move and received packets go to core 0, under many small packets.",
    ("interrupt-imbalance", "packet-storm"),
    why_no_imbalance,
    gather_interrupts,
    "multiplies the number of small packets",
    needs_workload=True,
)
SOCKET_EXHAUSTION = Fault(
    "socket-exhaustion",
    "network",
    "Thousands of connections",
    "A process in the job's namespace holds thousands of connections and replaces them without end.",
    ("socket-exhaustion",),
    why_no_namespaces,
    exhaust_sockets,
    "multiplies connections held (3,000, up to 12,000) and opened a second (1,000)",
    needs_workload=True,
)
LISTEN_OVERFLOW = Fault(
    "listen-overflow",
    "network",
    "A listen queue overflows",
    "Clients in the job's namespace knock at a listener that accepts nobody.",
    ("listen-overflow",),
    why_no_namespaces,
    overflow_listener,
    "multiplies the 200 attempts a second",
    needs_workload=True,
)
CONNTRACK_OVERFLOW = Fault(
    "conntrack-overflow",
    "network",
    "The table of tracked connections overflows",
    "What goes over the veth pair is tracked in a table of 256 connections, and 2,000 more come each second.",
    ("conntrack-overflow",),
    why_no_tracking,
    overflow_tracking,
    "divides the size of the table, down to 64",
    tools="none; nftables is spoken to over netlink",
    needs_workload=True,
)
