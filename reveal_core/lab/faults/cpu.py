"""Faults of the CPU: competitors, a quota, a process that stands still, storms of processes and switches."""

from __future__ import annotations

import os

from reveal_core.lab.cgroups import why_no_cgroups
from reveal_core.lab.clock import offset_ns, set_offset, why_no_clock
from reveal_core.lab.faults.base import Fault, Injection, always, cores
from reveal_core.lab.journal import UndoAction
from reveal_core.lab.processes import bind

PERIOD_US = 100_000
QUOTA_CORES = 0.5
"""Cores left to the job by the quota; its two ranks together want about 1.25 on any machine."""
PAUSE_PERIOD_S = 0.9
PAUSED_SHARE, MOST_PAUSED = 0.6, 0.9
CLOCK_STEP_S = 1.5


def contend(injection: Injection) -> str:
    """Run busy processes outside the job: twice as many as cores, on large hosts half as many again."""
    extra = max(2, cores() // 2)
    count = max(cores() + 1, round((cores() + extra) * injection.intensity))
    injection.compete("spin", copies=count)
    return f"{count} busy processes on {cores()} cores"


def limit_quota(injection: Injection) -> str:
    """Give the job's cgroup a CFS quota well below what it wants."""
    job = injection.job()
    quota = max(5_000, round(QUOTA_CORES * PERIOD_US / injection.intensity))
    if job.version == 1:
        injection.journal.change_file(job.folders["cpu"] / "cpu.cfs_period_us", str(PERIOD_US))
        injection.journal.change_file(job.folders["cpu"] / "cpu.cfs_quota_us", str(quota))
    else:
        injection.journal.change_file(job.folders["cpu"] / "cpu.max", f"{quota} {PERIOD_US}")
    return f"a quota of {quota / PERIOD_US:g} cores for {job.name}"


def pause_rank(injection: Injection) -> str:
    """Stop one of the job's processes again and again, so that the others wait for it."""
    rank = injection.need_workload().ranks[-1]
    share = min(PAUSED_SHARE * injection.intensity, MOST_PAUSED)
    ids = (str(rank.pid), str(rank.start))
    injection.journal.add(UndoAction("continue-process", ids, f"let process {rank.pid} go on"))
    on = share * PAUSE_PERIOD_S
    options = ("--pid", ids[0], "--start", ids[1], "--on", str(on), "--off", str(PAUSE_PERIOD_S - on))
    injection.prepare("pause", *options).go()
    return f"process {rank.pid} stopped for {on:.2f} s of each {PAUSE_PERIOD_S} s"


def why_no_crowding() -> str:
    """Return why the job cannot be crowded onto one core, or ``""``."""
    return "there is a single core" if cores() < 2 else ""


def crowd_ranks(injection: Injection) -> str:
    """Bind all of the job's processes to one core."""
    ranks = injection.need_workload().ranks
    core = min(os.sched_getaffinity(0))
    for rank in ranks:
        allowed = ",".join(map(str, sorted(os.sched_getaffinity(rank.pid))))
        arguments = (str(rank.pid), str(rank.start), allowed)
        what = f"let process {rank.pid} run on cores {allowed}"
        injection.journal.add(UndoAction("set-affinity", arguments, what))
        bind(rank, {core})
    return f"{len(ranks)} processes on core {core}"


def storm_processes(injection: Injection) -> str:
    """Start processes that end at once, without end."""
    count = max(1, round(cores() / 2 * injection.intensity))
    injection.compete("fork", copies=count)
    return f"{count} processes that start others without end"


def storm_switches(injection: Injection) -> str:
    """Have pairs of processes wake each other without end."""
    count = max(1, round(cores() / 2 * injection.intensity))
    injection.compete("switch", copies=count)
    return f"{count} pairs of processes that wake each other"


def step_clock(injection: Injection) -> str:
    """Set the wall clock forward; undone by its distance to the time since boot, which never jumps."""
    step_s = CLOCK_STEP_S * injection.intensity
    before = offset_ns()
    injection.journal.add(UndoAction("set-clock", (str(before),), "set the clock back"))
    set_offset(before + round(step_s * 1e9))
    return f"the clock set {step_s:g} s forward"


CPU_QUOTA = Fault(
    "cpu-quota",
    "cpu",
    "CPU quota on the job",
    "The job's cgroup gets a CFS quota well below what it wants.",
    ("cpu-quota",),
    why_no_cgroups,
    limit_quota,
    "divides the quota of 0.5 cores",
    needs_workload=True,
)
CPU_CONTENTION = Fault(
    "cpu-contention",
    "cpu",
    "Competitors for the CPU",
    "Busy processes outside the job, twice as many as there are cores.",
    ("cpu-contention", "memory-bandwidth-contention"),
    always,
    contend,
    "multiplies the number of busy processes, which are always more than the cores",
    same_signals=("memory-bandwidth-contention",),
)
CROWDED = Fault(
    "ranks-on-one-core",
    "cpu",
    "The job's processes on one core",
    "All ranks are bound to the same core, as by a wrong affinity mask, while others idle.",
    ("cpu-affinity",),
    why_no_crowding,
    crowd_ranks,
    "has no effect: one core is the least",
    needs_workload=True,
)
STRAGGLER = Fault(
    "straggler-process",
    "cpu",
    "A process of the job that stands still",
    "One rank is stopped (SIGSTOP) and let go on (SIGCONT) in turns, and the other waits for it.",
    ("straggler-process", "data-loader-stall"),
    always,
    pause_rank,
    "multiplies the share of 60 % of the time that the rank is stopped, up to 90 %",
    same_signals=("data-loader-stall",),
    needs_workload=True,
)
PROCESS_STORM = Fault(
    "process-storm",
    "cpu",
    "Storm of short-lived processes",
    "Processes outside the job start others that end at once, without end.",
    ("process-storm",),
    always,
    storm_processes,
    "multiplies the number of starters, one for two cores",
)
SWITCH_STORM = Fault(
    "switch-storm",
    "cpu",
    "Storm of context switches",
    "Pairs of processes outside the job hand a byte to and fro, and are put on a core each time.",
    ("switch-storm",),
    always,
    storm_switches,
    "multiplies the number of pairs, one for two cores",
)
CLOCK_STEP = Fault(
    "clock-step",
    "cpu",
    "The clock is set",
    "The wall clock of the whole machine is set 1.5 s forward and, at the end, back. All that runs on it "
    "sees time jump, so it is only done when asked for by name.",
    ("clock-step",),
    why_no_clock,
    step_clock,
    "multiplies the step of 1.5 s",
    by_name=True,
)
