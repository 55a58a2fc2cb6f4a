"""Faults of simulated hosts: which signals move, and what is written down as the truth.

They are replayed, not real, as those of `reveal_core.evaluate.replayed_faults`: what moves is what the faults
of the lab move on a machine, how far is made up. So they say whether a fleet's run finds what stands out, and
nothing of recall in operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from reveal_core.channels import Channel
from reveal_core.evaluate.replayed import Placed
from reveal_core.evaluate.replayed_faults import Effect, ReplayedFault
from reveal_core.incidents import iso

GROUPS = "cgroup."
"""Begins metrics of one job: a fault strikes one of them, not every job of the host."""

PLANTED: tuple[ReplayedFault, ...] = (
    ReplayedFault(
        "packet-loss",
        "network",
        "Packets are lost on the way",
        ("packet-loss",),
        (
            Effect("tcp.RetransSegs", add=400.0),
            Effect("tcpext.TCPLostRetransmit", add=40.0),
            Effect("tcpext.TCPTimeouts", add=30.0),
            Effect("tcpext.TCPFastRetrans", add=150.0),
            Effect("tcpext.TCPLossProbes", add=60.0),
        ),
    ),
    ReplayedFault(
        "cpu-quota",
        "cpu",
        "A CPU quota holds a job back",
        ("cpu-quota",),
        (
            Effect("cgroup.nr_throttled", add=9.0),
            Effect("cgroup.nr_periods", add=10.0),
            Effect("cgroup.throttled_time", add=7e8),
        ),
    ),
    ReplayedFault(
        "page-fault-storm",
        "memory",
        "A storm of page faults",
        ("page-fault-storm",),
        (
            Effect("vmstat.pgfault", add=4e5),
            Effect("vmstat.pgalloc_normal", add=3e5),
            Effect("vmstat.pgfree", add=3e5),
        ),
    ),
    ReplayedFault(
        "sync-writes",
        "storage",
        "Small writes that wait for the disk",
        ("sync-writes",),
        (
            Effect("disk.flushes", add=400.0),
            Effect("disk.flush_ms", add=500.0),
            Effect("disk.writes", add=800.0),
            Effect("disk.write_ms", add=400.0),
        ),
    ),
    ReplayedFault(
        "process-storm",
        "cpu",
        "Processes that start others which end at once",
        ("process-storm",),
        (
            Effect("stat.processes", add=900.0),
            Effect("vmstat.pgfault", add=1.5e5),
            Effect("stat.ctxt", add=6e3),
        ),
    ),
    ReplayedFault(
        "switch-storm",
        "cpu",
        "A storm of context switches",
        ("switch-storm",),
        (Effect("stat.ctxt", add=3e5), Effect("sched.timeslices", add=2e4)),
    ),
    ReplayedFault(
        "cgroup-memory-pressure",
        "memory",
        "A job at its memory limit",
        ("cgroup-memory-pressure",),
        (
            Effect("cgroup.memory_failcnt", add=900.0),
            Effect("vmstat.pgscan_direct", add=6e4),
            Effect("vmstat.pgsteal_direct", add=6e4),
        ),
    ),
    ReplayedFault(
        "listen-overflow",
        "network",
        "Connections that nobody accepts",
        ("listen-overflow",),
        (Effect("tcpext.ListenOverflows", add=200.0), Effect("tcpext.ListenDrops", add=200.0)),
    ),
)
"""Every fault that can be planted. The first effect of each is what it is known by."""
STRUCK_METRICS = frozenset(effect.metric for fault in PLANTED for effect in fault.effects)
SIZES = (0.8, 1.5)
"""Bounds of a fault's size; at 1 its effects are what they are said to be."""


def plantable(channels: Sequence[Channel]) -> list[ReplayedFault]:
    """Return the faults that hosts with such channels can show: they have what each is known by."""
    there = {channel.metric for channel in channels}
    return [fault for fault in PLANTED if fault.effects[0].metric in there]


def narrowed(fault: ReplayedFault, channels: Sequence[Channel], rng: np.random.Generator) -> ReplayedFault:
    """Return a fault that strikes one job of a host, where it strikes jobs."""
    first = fault.effects[0].metric
    if not first.startswith(GROUPS):
        return fault
    jobs = [channel.instance for channel in channels if channel.metric == first]
    job = jobs[int(rng.integers(len(jobs)))]
    effects = (replace(e, instances=(job,)) if e.metric.startswith(GROUPS) else e for e in fault.effects)
    return replace(fault, effects=tuple(effects))


def struck(placed: Placed, channels: Sequence[Channel]) -> list[str]:
    """Return the names of the channels that a fault changes."""
    return [
        channel.name
        for channel in channels
        if any(
            effect.metric == channel.metric and (not effect.instances or channel.instance in effect.instances)
            for effect in placed.fault.effects
        )
    ]


def truth(placed: Placed, host: str, channels: Sequence[Channel]) -> dict[str, Any]:
    """Return a fault as a faults file has it, with what it changed on its host."""
    fault = placed.fault
    return {
        "name": fault.name,
        "subsystem": fault.subsystem,
        "start": iso(placed.onset),
        "end": iso(placed.end),
        "causes": list(fault.causes),
        "host": host,
        "size": placed.size,
        "channels": struck(placed, channels),
    }
