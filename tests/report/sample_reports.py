"""Three reports made from a seed: a quiet hour, one incident, and an hour of fifty hosts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import cache

from fleet_samples import CREATED, HOUR_S, START, Fault, host_input, trend
from report_samples import LOSS, MODEL

from reveal_core.incidents import OPEN, CauseFinding, FleetIncident, History
from reveal_core.report.model import Report, build_report

THERMAL = CauseFinding(
    id="gpu-thermal",
    title="A GPU holds its clock down for its temperature",
    subsystem="gpu",
    confidence=0.91,
    evidence=(
        "Clock of the compute units of GPU-5 fell to 1,190 MHz (normal 1,940 to 1,990 MHz)",
        "Power of GPU-5 fell to 395 W (normal 600 to 680 W)",
    ),
    against=("Inlet temperature did not rise",),
    explanation="One GPU of eight is slower than the others, so every step of the job waits for it.",
    fix="Take the host out of the job and look at the cooling of this GPU: dust, a loose cold plate, a fan.",
    commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE -i 5", "ipmitool sdr type Fan"),
    checks=("Does the same GPU slow down under another job?",),
    action="drain",
    source="NVML API reference, nvmlDeviceGetCurrentClocksEventReasons",
)
CROWDED = CauseFinding(
    id="interrupt-imbalance",
    title="Interrupts land on few cores",
    subsystem="cpu",
    confidence=0.83,
    evidence=(
        "Device interrupts on the busiest core rose to 0.71 (normal 0.04 to 0.08)",
        "CPU busy time on cpu17 rose to 98 % (normal 35 to 47 %)",
        "Network receive work on cpu17 rose to 41 k/s (normal 780 to 1,020 /s)",
    ),
    against=("No packet was dropped from the backlog",),
    explanation="Devices interrupt one core, or few, which then work for all: threads there are held up, and "
    "packets and disk completions wait.",
    fix="Spread them: run irqbalance, or write other cores into /proc/irq/<line>/smp_affinity.",
    commands=("grep . /proc/irq/*/smp_affinity_list", "systemctl status irqbalance", "mpstat -I CPU 1 5"),
    checks=("Do the counts in /proc/interrupts grow on one core only?",),
    same_signals=("packet-storm",),
    caveat="Many small packets on one queue look the same where the network card has one queue.",
    action="change-configuration",
    source="arXiv 2510.26008, case 3",
)
SLOW_DISK = CauseFinding(
    id="disk-slow",
    title="A disk answers slowly",
    subsystem="storage",
    confidence=0.64,
    evidence=("Time per disk request on disk nvme2n1 rose to 19 ms (normal 0.3 to 0.5 ms)",),
    against=(),
    explanation="Requests to one disk take long although few are under way.",
    fix="Look at the disk's own log; replace it if it reports media errors.",
    commands=("nvme smart-log /dev/nvme2n1",),
    action="inspect-hardware",
    source="iostat(1)",
)

HOT_GPU = Fault(
    2310, 1290, "gpu", {"gpu.clock_sm/GPU-5": 1190.0, "gpu.power/GPU-5": 395.0}, THERMAL, 8.7, 4, OPEN
)
BUSY_CORE = Fault(
    1430,
    310,
    "cpu",
    {
        "irq.busiest_core_share": 0.71,
        "cpu.busy/cpu17": 98.0,
        "softirq.NET_RX/cpu17": 41e3,
        "psi.cpu_some": 14.0,
        "net.rx_bytes/eth0": 1.6e9,
    },
    CROWDED,
    7.1,
    4,
)
DISK = Fault(700, 95, "storage", {"disk.await/nvme2n1": 19.0, "meminfo.Dirty": 610e6}, SLOW_DISK, 4.3, 2)
ODD = Fault(3020, 60, "memory", {"psi.memory_some": 6.0, "meminfo.Dirty": 240e6}, None, 2.6, 2)


def loss(second: float) -> Fault:
    """Packets that a rack's switch drops, from some second on to the end of the hour."""
    moved = {"tcp.RetransSegs/host": 310.0, "net.rx_bytes/eth1": 0.5e9, "gpu.power/GPU-0": 560.0}
    cause = replace(LOSS, action="inspect-hardware", source="arXiv 2510.26008, case 5")
    return Fault(second, HOUR_S - second, "network", moved, cause, 6.4 + second % 7 / 4, 4, OPEN)


def names() -> list[str]:
    """Return fifty hosts of three racks."""
    return [
        f"rack-{rack}-{n:02d}" for rack, count in ((6, 18), (7, 14), (8, 18)) for n in range(1, count + 1)
    ]


WIDE_MODEL = replace(
    MODEL,
    name="reveal-64cpu-8gpu",
    version="12",
    trained_from=START - timedelta(days=5),
    trained_to=START - timedelta(hours=1),
    windows=2_411_840,
)


@cache
def quiet_hour() -> Report:
    """Return an hour of one host in which nothing happened."""
    end = START + timedelta(seconds=HOUR_S)
    return build_report(
        "20261129T210041Z-score-1f03ab",
        "Score of node-17",
        CREATED,
        START,
        end,
        [host_input("node-17", silent=[(2210, 2234)])],
        WIDE_MODEL,
        trend=trend(hosts=1),
    )


@cache
def one_incident() -> Report:
    """Return an hour of one host on which interrupts crowded on a core."""
    end = START + timedelta(seconds=HOUR_S)
    host = host_input("node-17", [BUSY_CORE])
    return build_report(
        "20261129T210041Z-score-8c11d0",
        "Score of node-17",
        CREATED,
        START,
        end,
        [host],
        WIDE_MODEL,
        histories={"node-17-0001": History(3, START - timedelta(days=2, hours=5), flapping=False)},
        trend=trend(hosts=1),
    )


@cache
def fifty_hosts() -> Report:
    """Return an hour of fifty hosts: a rack that loses packets, a hot GPU, a slow disk and more."""
    end = START + timedelta(seconds=HOUR_S)
    faults: dict[str, list[Fault]] = {
        name: [loss(1890 + 3 * n)] for n, name in enumerate(n for n in names() if n.startswith("rack-7"))
    }
    faults |= {"rack-8-11": [HOT_GPU], "rack-6-05": [DISK], "rack-6-12": [BUSY_CORE, ODD], "rack-8-02": [ODD]}
    silent = {"rack-8-18": [(0, HOUR_S)], "rack-6-09": [(900, 1310)], "rack-8-04": [(3300, HOUR_S)]}
    sampled = {*faults, "rack-6-01", "rack-6-02", "rack-8-01", "rack-8-03"}
    hosts = [
        host_input(name, faults.get(name, ()), silent=silent.get(name, ()), sampled=name in sampled)
        for name in names()
    ]
    gone = replace(hosts[-1], scores=replace(hosts[-1].scores, frame=hosts[-1].scores.frame.clear()))
    struck = [name for name in names() if name.startswith("rack-7")]
    shared = FleetIncident(
        id="fleet-rack-7-01-0001",
        subsystem="network",
        cause="packet-loss",
        title=LOSS.title,
        hosts=tuple(struck),
        of_hosts=49,
        where="rack-7-*",
        start=START + timedelta(seconds=1890.4),
        end=end,
        incidents=tuple(f"{name}-0001" for name in struck),
    )
    week = START - timedelta(days=6, hours=3)
    return build_report(
        "20261129T210041Z-score-44be90",
        "Score of the fleet",
        CREATED,
        START,
        end,
        [*hosts[:-1], gone],
        WIDE_MODEL,
        notes=(
            "rack-6-19: not scored: its store folder holds no telemetry of this time.",
            "rack-8-04: held as another regime since 19:02 UTC; its threshold learns no more until the alarm "
            "is over or somebody accepts the change.",
        ),
        fleet=[shared],
        histories={
            **{f"{name}-0001": History(1, START + timedelta(seconds=1890)) for name in struck},
            "rack-8-11-0001": History(1, START + timedelta(seconds=2310)),
            "rack-6-05-0001": History(
                12, week, flapping=True, label="known", label_why="disk swap is booked"
            ),
            "rack-6-12-0001": History(3, week),
            "rack-8-02-0001": History(1, START, silenced="maintenance of rack 8 until 21:00 UTC"),
        },
        trend=trend(),
    )
