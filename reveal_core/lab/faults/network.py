"""Faults of the path between the ranks: packets lost, too little bandwidth, a link that comes and goes."""

from __future__ import annotations

from reveal_core.lab.control import request_loss
from reveal_core.lab.faults.base import Fault, Injection
from reveal_core.lab.journal import UndoAction
from reveal_core.lab.lossfilter import why_no_filter
from reveal_core.lab.namespaces import why_no_private_namespace
from reveal_core.lab.network import add_loss_table, limit_rate, why_no_namespaces

LOSS = 0.08
_MOST_LOSS = 0.5
RATE = 5 << 20
"""Bytes a second each way; the job wants about 16 MiB."""
BURST_BYTES, QUEUE_BYTES = 128 << 10, 1 << 20
"""What may go at once, and what may wait: more than TCP has under way, so that nothing is dropped."""
DOWN_S, UP_S = 0.5, 2.0
_MOST_DOWN_S = 2.0
"""A connection is given up after 5 s without an answer."""


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


def cap_bandwidth(injection: Injection) -> str:
    """Let both ends of the veth pair send no faster than a rate, by token bucket filters."""
    namespace = injection.namespace()
    links = injection.need_workload().links
    rate = max(1 << 18, round(RATE / injection.intensity))
    for where, interface in (("", links[0]), (namespace, links[1])):
        what = f"took the limit of {interface} away"
        injection.journal.add(UndoAction("unlimit-rate", (where, interface), what))
        limit_rate(where, interface, rate, BURST_BYTES, QUEUE_BYTES)
    return f"{rate * 8 / 1e6:.0f} Mbit/s each way between {' and '.join(links)}"


def flap_link(injection: Injection) -> str:
    """Set the namespace's end of the veth pair down and up, in turns."""
    namespace = injection.namespace()
    interface = injection.need_workload().links[1]
    down = min(DOWN_S * injection.intensity, _MOST_DOWN_S)
    what = f"set {interface} up"
    injection.journal.add(UndoAction("raise-link", (namespace, interface), what))
    options = ("--interface", interface, "--on", str(down), "--off", str(UP_S))
    injection.prepare("flap", *options, netns=namespace).go()
    return f"{interface} down for {down:.2f} s, up for {UP_S:g} s, in turns"


PACKET_LOSS = Fault(
    "packet-loss",
    "network",
    "Packets lost between the ranks",
    "Packets are dropped at random: by nftables between namespaces, else by socket filters.",
    ("packet-loss",),
    why_no_loss,
    lose_packets,
    "multiplies the share of 8 % of packets, up to 50 %",
    same_signals=("link-flap",),
    tools="none; nftables is spoken to over netlink",
    needs_workload=True,
)
BANDWIDTH_CAP = Fault(
    "bandwidth-cap",
    "network",
    "Too little bandwidth between the ranks",
    "Token bucket filters let both ends of the veth pair send a third of what the job wants.",
    ("bandwidth-cap",),
    why_no_namespaces,
    cap_bandwidth,
    "divides the 42 Mbit/s each way",
    tools="none; the kernel is spoken to over netlink",
    needs_workload=True,
)
LINK_FLAP = Fault(
    "link-flap",
    "network",
    "A link that comes and goes",
    "The namespace's end of the veth pair is down for half a second and up for two, in turns.",
    ("link-flap", "packet-loss"),
    why_no_namespaces,
    flap_link,
    "multiplies the half second, up to two",
    same_signals=("packet-loss",),
    needs_workload=True,
)
