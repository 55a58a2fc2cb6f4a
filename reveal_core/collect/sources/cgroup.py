"""CPU and memory limits of each control group: the signals that change within a tick."""

from __future__ import annotations

from collections.abc import Iterator

from reveal_core.collect.groups import Group, GroupSource
from reveal_core.collect.parts import FieldsPart, Part, SingleValuePart, target_table

V1_CPU_STAT = target_table(
    {
        b"nr_periods": "cgroup.nr_periods",
        b"nr_throttled": "cgroup.nr_throttled",
        b"throttled_time": "cgroup.throttled_time",
    }
)
V2_CPU_STAT = target_table(
    {
        b"usage_usec": ("cgroup.cpu_usage", 1000.0),
        b"nr_periods": "cgroup.nr_periods",
        b"nr_throttled": "cgroup.nr_throttled",
        b"throttled_usec": ("cgroup.throttled_time", 1000.0),
    }
)
MEMORY_EVENTS = target_table(
    {
        b"high": "cgroup.memory_high",
        b"max": "cgroup.memory_failcnt",
        b"oom": "cgroup.memory_oom",
        b"oom_kill": "cgroup.memory_oom_kill",
    }
)
V2_TABLES = (("cpuacct", "cpu.stat", V2_CPU_STAT), ("memory", "memory.events", MEMORY_EVENTS))
"""Tables of version 2, each with the controller of version 1 that tells the same."""
V1_SINGLES = (
    ("cpuacct", "cpuacct.usage", "cgroup.cpu_usage"),
    ("memory", "memory.usage_in_bytes", "cgroup.memory_usage"),
    ("memory", "memory.failcnt", "cgroup.memory_failcnt"),
)


class CgroupSource(GroupSource):
    """CPU time, throttling, memory used and limits met, of each active group."""

    name = "cgroup"
    period_ms = 500  # several files for a few values of each group

    def group_parts(self, name: str, group: Group) -> Iterator[Part]:
        """See `GroupSource.group_parts`."""
        if (found := group.file("cpu", "cpu.stat")) is not None:
            yield FieldsPart(found, self.columns, V1_CPU_STAT, name)
        for counterpart, file, table in V2_TABLES:
            if (found := group.unified_file(file, counterpart)) is not None:
                yield FieldsPart(found, self.columns, table, name)
        for controller, file, metric in V1_SINGLES:
            if (found := group.file(controller, file)) is not None:
                yield SingleValuePart(found, self.columns, (metric, 1.0), name)
        if (found := group.unified_file("memory.current", "memory")) is not None:
            yield SingleValuePart(found, self.columns, ("cgroup.memory_usage", 1.0), name)
