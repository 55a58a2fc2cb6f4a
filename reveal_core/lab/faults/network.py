"""Faults of the network: packet loss, and interrupts forced onto one core."""

from __future__ import annotations

from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.control import request_loss
from reveal_core.lab.faults.base import Injection, cores, needs_root
from reveal_core.lab.journal import UndoAction
from reveal_core.lab.lossfilter import why_no_filter
from reveal_core.lab.namespaces import why_no_private_namespace
from reveal_core.lab.network import add_loss_table, set_receive_steering, why_no_namespaces

LOSS = 0.08
_MOST_LOSS = 0.5
IRQS = Path("/proc/irq")
TARGET_CORE = 0


def why_no_loss() -> str:
    """Return why packets between the ranks cannot be lost, or ``""``."""
    if not why_no_namespaces():
        return ""
    refusal = why_no_filter()
    if not refusal:
        return ""
    private = why_no_private_namespace()
    return f"{refusal}; {private}" if private else ""


def lose_packets(injection: Injection) -> str:
    """Drop packets between the ranks at random: by nftables between namespaces, else by socket filters."""
    workload = injection.need_workload()
    if workload.transport == "namespaces":
        refusal = lose_by_nftables(injection)
        if not refusal:
            return f"{_loss(injection):.0%} of packets dropped both ways, by nftables"
        return f"{lose_by_filter(injection)} (no nftables: {refusal})"
    return lose_by_filter(injection)


def _loss(injection: Injection) -> float:
    return min(LOSS * injection.intensity, _MOST_LOSS)


def lose_by_nftables(injection: Injection) -> str:
    """Add a dropping rule at both ends of the veth pair; return why the kernel refused, or ``""``."""
    workload = injection.need_workload()
    table = injection.place.name
    for namespace, interface in ((workload.namespace, workload.links[1]), ("", workload.links[0])):
        where = f"the nftables table {table} in {namespace or 'the host'}"
        injection.journal.add(UndoAction("delete-loss-table", (namespace, table), f"deleted {where}"))
        try:
            add_loss_table(namespace, table, interface, _loss(injection))
        except OSError as error:
            return str(error)
    return ""


def lose_by_filter(injection: Injection) -> str:
    """Have both ranks lose what their sockets receive, by a filter that the kernel runs before TCP."""
    workload = injection.need_workload()
    for rank in (0, 1):
        socket = workload.run_dir / f"rank-{rank}.sock"
        injection.journal.add(UndoAction("end-loss", (str(socket),), f"ended the loss at rank {rank}"))
        # its own end, should nobody be left to end it
        request_loss(socket, _loss(injection), injection.duration_s + 5.0)
    return f"{_loss(injection):.0%} of packets dropped both ways, by filters on the ranks' sockets"


def why_no_imbalance() -> str:
    """Return why interrupts cannot be forced onto one core, or ``""``."""
    if cores() < 2:
        return "there is a single core"
    return needs_root()


def gather_interrupts(injection: Injection) -> str:
    """Send interrupts and the handling of received packets to core 0, under many small packets."""
    workload = injection.need_workload()
    if workload.transport != "namespaces":
        raise UnavailableError("this fault needs a workload with a network namespace of its own")
    here, there = workload.addresses
    neighbour = injection.neighbour()
    senders = [
        injection.prepare("packets", "--listen", here, "--send", there, cgroup=neighbour),
        injection.prepare(
            "packets", "--listen", there, "--send", here, cgroup=neighbour, netns=workload.namespace
        ),
    ]
    mask = f"{1 << TARGET_CORE:x}"
    for namespace, interface in (("", workload.links[0]), (workload.namespace, workload.links[1])):
        what = f"restored receive steering of {interface}"
        injection.journal.add(UndoAction("receive-steering", (namespace, interface, "0"), what))
        set_receive_steering(namespace, interface, mask)
    moved = sum(_move(injection, folder, mask) for folder in sorted(IRQS.iterdir()) if folder.name.isdigit())
    for sender in senders:
        sender.go()
    return f"{moved} interrupts and the packets of {' and '.join(workload.links)} on core {TARGET_CORE}"


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
