"""The publication's five case studies, each as telemetry in the signature that it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from reveal_core.evaluate.training_host import (
    CORES,
    GIB,
    GPUS,
    NODES,
    START,
    Change,
    bursts,
    later,
    of,
    plus,
    set_to,
    times,
    training_host,
)
from reveal_core.method import analyse, fit_model
from reveal_core.profiles import Profile

LEARNED_S, SECONDS = 180.0, 75.0
ONSET_S, END_S = 30.0, 45.0
LATE_S = 1.5
"""An incident that begins further from the onset is of something else."""

REMOTE_MEMORY = {
    **of("perf.instructions", NODES, times(0.7)),
    **of("perf.stalls_l3_miss", NODES, times(2.5)),
    **of("perf.remote_memory", NODES, times(40.0)),
    **of("numa.other_node", NODES, plus(25_000.0)),
    **of("numa.local_node", NODES, times(0.4)),
    **of("gpu.pcie_rx_bytes", GPUS, times(0.8)),
}
ONE_QUEUE_PAIR = {
    **of("cpu.user", CORES, times(1.6)),
    **of("cpu.idle", CORES, times(0.45)),
    **of("ib.port_xmit_data", ["mlx5_0:1"], bursts(1.0)),
    **of("ib.port_rcv_data", ["mlx5_0:1"], bursts(1.0)),
    **of("gpu.power", GPUS, times(0.6)),
}
FEW_CORES = {
    **of("irq.device", [f"mlx5_0:{core}" for core in CORES[1:]], times(0.02)),
    **of("irq.device", [f"mlx5_0:{CORES[0]}"], times(7.9)),
    **of("irq.total", CORES[1:], times(0.7)),
    **of("irq.total", CORES[:1], times(3.0)),
    **of("softirq.NET_RX", CORES[1:], times(0.05)),
    **of("softirq.NET_RX", CORES[:1], times(7.5)),
    **of("cpu.softirq", CORES[:1], times(12.0)),
    **of("cpu.idle", CORES[:1], times(0.5)),
    **of("tcp.RetransSegs", ["host"], times(1.6)),
}
HUGE_PAGES = {
    **of("numa.HugePages_Total", ["node1"], set_to(64.0)),
    **of("numa.HugePages_Free", ["node1"], set_to(64.0)),
    "meminfo.Hugetlb": set_to(64.0 * GIB),
    **of("numa.MemFree", ["node1"], plus(-64.0 * GIB)),
    "meminfo.MemFree": plus(-64.0 * GIB),
}
LOSS = {
    **of("tcp.RetransSegs", ["host"], plus(900.0)),
    **of("tcpext.TCPLostRetransmit", ["host"], plus(80.0)),
    **of("tcpext.TCPTimeouts", ["host"], plus(20.0)),
    **of("tcpext.TCPOFOQueue", ["host"], plus(300.0)),
    **of("softirq.NET_RX", CORES, later(1.0, times(1.8))),
    **of("irq.device", [f"mlx5_0:{core}" for core in CORES], later(1.0, times(1.6))),
    **of("gpu.utilization", GPUS, later(3.0, times(0.5))),
    **of("gpu.power", GPUS, later(3.0, times(0.7))),
}


@dataclass(frozen=True)
class PublishedCase:
    """A case study.

    Attributes
    ----------
    number, title
        As the publication counts it, and what went wrong.
    cause, subsystem
        Of the cause catalogue.
    fault
        What moved, by channel of the made-up host.
    """

    number: int
    title: str
    cause: str
    subsystem: str
    fault: Mapping[str, Change]


CASES = (
    PublishedCase(1, "memory of the other socket", "remote-numa-memory", "memory", REMOTE_MEMORY),
    PublishedCase(2, "one NCCL queue pair", "nccl-single-queue-pair", "network", ONE_QUEUE_PAIR),
    PublishedCase(3, "interrupts on few cores", "interrupt-imbalance", "cpu", FEW_CORES),
    PublishedCase(4, "huge pages set aside at boot", "huge-pages-reserved", "memory", HUGE_PAGES),
    PublishedCase(5, "packet loss", "packet-loss", "network", LOSS),
)


@dataclass(frozen=True)
class JudgedCase:
    """What became of a case: whether an incident began at it, and the place of its cause if it is named."""

    case: PublishedCase
    found: bool
    cause_rank: int | None
    subsystem_first: bool


def judge_cases(profile: Profile, seed: int = 0) -> list[JudgedCase]:
    """Return what the method makes of each case.

    Parameters
    ----------
    profile
        Settings of the method.
    seed
        Of the fit.
    """
    model = fit_model([training_host(LEARNED_S)], profile, seed=seed)
    judged = []
    for case in CASES:
        telemetry = training_host(SECONDS, seed=1, fault=case.fault, span=(ONSET_S, END_S))
        onset = START + timedelta(seconds=ONSET_S)
        near = [
            incident
            for incident in analyse(model, telemetry).incidents
            if abs((incident.start - onset).total_seconds()) <= LATE_S
        ]
        causes = [cause.id for cause in near[0].causes] if near else []
        judged.append(
            JudgedCase(
                case=case,
                found=bool(near),
                cause_rank=causes.index(case.cause) + 1 if case.cause in causes else None,
                subsystem_first=bool(near) and near[0].subsystem == case.subsystem,
            )
        )
    return judged
