"""Faults of the CPU: competitors, and a quota."""

from __future__ import annotations

from reveal_core.lab.faults.base import Injection, cores

PERIOD_US = 100_000
QUOTA_CORES = 0.5
"""Cores left to the job by the quota; its two ranks together want about 1.25 on any machine."""


def contend(injection: Injection) -> str:
    """Run busy processes outside the job: twice as many as cores, on large hosts half as many again."""
    extra = max(2, cores() // 2)
    count = max(cores() + 1, round((cores() + extra) * injection.intensity))
    neighbour = injection.neighbour()
    if neighbour is not None:
        injection.set_share(neighbour, count)
    injection.prepare("spin", copies=count, cgroup=neighbour).go()
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
