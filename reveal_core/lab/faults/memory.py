"""Faults of memory: page faults, pressure in a cgroup, huge pages set aside, bandwidth, leaks, compaction."""

from __future__ import annotations

from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.cgroups import Cgroup, make_cgroup, why_no_cgroups
from reveal_core.lab.faults.base import Fault, Injection, always, cores, needs_root
from reveal_core.lab.journal import UndoAction

HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
COMPACT = Path("/proc/sys/vm/compact_memory")
SLACK_BYTES = 32 << 20
"""What the limited cgroup keeps for the page cache beyond what cannot be reclaimed."""
READ_BYTES = 512 << 20
HUGE_BYTES = 1 << 30
LEAK_RATE, MOST_LEAKED = 64 << 20, 4 << 30
"""Bytes a second, and bytes in all."""
COMPACTIONS = 4.0
"""A second."""


def storm_faults(injection: Injection) -> str:
    """Map, touch and give back memory without end."""
    count = max(1, round(cores() / 2 * injection.intensity))
    injection.compete("touch", copies=count)
    return f"{count} processes that touch and give back 64 MiB in a loop"


def press_cgroup(injection: Injection) -> str:
    """Limit a cgroup to little more than what it cannot give up, with a process in it that reads far more.

    The cgroup is the job's own if there is one. What is read is a file of holes, so that the pages come and
    go without the disk.
    """
    if injection.workload is not None and injection.workload.job:
        return _press(injection, injection.job())
    name = f"{injection.place.name}/pressed"
    injection.journal.add(UndoAction("remove-cgroup", (name,), f"removed the cgroup {name}"))
    return _press(injection, make_cgroup(name))


def press_neighbour(injection: Injection) -> str:
    """Do to the job's neighbour what `press_cgroup` does to the job, which is not touched itself."""
    group = injection.neighbour()
    if group is None:
        raise UnavailableError(
            "this fault needs a workload with a cgroup beside it, and it was started without one"
        )
    return _press(injection, group)


def _press(injection: Injection, group: Cgroup) -> str:
    file = injection.folder / "holes"
    child = injection.prepare("reread", "--file", str(file), "--bytes", str(READ_BYTES), cgroup=group)
    limit = _unreclaimable(group) + round(SLACK_BYTES / injection.intensity)
    path = group.file("memory", "memory.limit_in_bytes", "memory.max")
    injection.journal.change_file(path, str(limit))
    child.go()
    span = READ_BYTES >> 20
    return f"a limit of {limit >> 20} MiB on {group.name}, where a process reads {span} MiB in a loop"


def _unreclaimable(group: Cgroup) -> int:
    folder = group.folders["memory"]
    fields = dict(line.split() for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
    if group.version == 1:
        kernel = int((folder / "memory.kmem.usage_in_bytes").read_text(encoding="ascii"))
        return int(fields["total_rss"]) + int(fields["total_mapped_file"]) + kernel
    return int(fields["anon"]) + int(fields["file_mapped"]) + int(fields.get("kernel", 0))


def why_no_huge_pages() -> str:
    """Return why huge pages cannot be set aside, or ``""``."""
    if not HUGE_PAGES.exists():
        return "the kernel has no huge pages"
    return needs_root()


def reserve_huge_pages(injection: Injection) -> str:
    """Set memory aside as huge pages that nobody uses."""
    fields = _meminfo()
    size = fields["Hugepagesize"]
    most = fields["MemAvailable"] // 4
    count = min(round(HUGE_BYTES * injection.intensity), most) // size
    before = int(HUGE_PAGES.read_text(encoding="ascii"))
    injection.journal.change_file(HUGE_PAGES, str(before + count))
    gained = int(HUGE_PAGES.read_text(encoding="ascii")) - before
    if gained <= 0:
        raise UnavailableError(
            f"the kernel set no huge pages aside out of {count} asked for: memory is fragmented"
        )
    return f"{gained} huge pages set aside, {gained * size >> 20} MiB"


def _meminfo() -> dict[str, int]:
    """Return ``/proc/meminfo`` in bytes."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    fields = (line.split() for line in lines)
    return {parts[0].rstrip(":"): int(parts[1]) * 1024 for parts in fields if len(parts) == 3}


def contend_bandwidth(injection: Injection) -> str:
    """Copy arrays far larger than the caches, one process for each core."""
    count = max(1, round(cores() * injection.intensity))
    injection.compete("stream", copies=count)
    return f"{count} processes that copy 64 MiB arrays"


def leak_memory(injection: Injection) -> str:
    """Have a process beside the job take memory and never give it back, up to a bound."""
    bound = min(MOST_LEAKED, _meminfo()["MemAvailable"] // 4)
    rate = min(LEAK_RATE * injection.intensity, bound / injection.duration_s)
    injection.compete("leak", "--bytes", str(bound), "--rate", str(rate))
    return f"a process that takes {rate / 2**20:.0f} MiB more each second, at most {bound >> 20} MiB"


def why_no_compaction() -> str:
    """Return why memory cannot be compacted, or ``""``."""
    if not COMPACT.exists():
        return "the kernel has no compaction"
    return needs_root()


def compact_memory(injection: Injection) -> str:
    """Scatter memory and have the kernel move pages together, several times a second."""
    rate = COMPACTIONS * injection.intensity
    injection.compete("compact", "--rate", str(rate))
    return f"memory compacted up to {rate:g} times a second"


PAGE_FAULT_STORM = Fault(
    "page-fault-storm",
    "memory",
    "Storm of page faults",
    "Processes map, touch and give back memory without end.",
    ("page-fault-storm",),
    always,
    storm_faults,
    "multiplies the number of processes, one for two cores",
    same_signals=("memory-leak",),
)
CGROUP_PRESSURE = Fault(
    "cgroup-memory-pressure",
    "memory",
    "Memory limit of a cgroup reached",
    "The job's cgroup is limited to little more than what it cannot give up, and reads far more.",
    ("cgroup-memory-pressure",),
    why_no_cgroups,
    press_cgroup,
    "divides the 32 MiB that are left for the page cache",
)
NEIGHBOUR_RECLAIM = Fault(
    "neighbour-reclaim",
    "memory",
    "A neighbour at its memory limit",
    "A cgroup beside the job is at its memory limit, so that the kernel reclaims its pages without end.",
    ("cgroup-memory-pressure",),
    why_no_cgroups,
    press_neighbour,
    "divides the 32 MiB that are left for the page cache",
    needs_workload=True,
)
BANDWIDTH = Fault(
    "memory-bandwidth-contention",
    "memory",
    "Competitors for memory bandwidth",
    "Processes copy large arrays. Without hardware counters this looks like competitors for the CPU.",
    ("memory-bandwidth-contention", "cpu-contention"),
    always,
    contend_bandwidth,
    "multiplies the number of processes, one for each core",
    same_signals=("cpu-contention",),
)
HUGE_PAGES_RESERVED = Fault(
    "huge-pages-reserved",
    "memory",
    "Huge pages set aside",
    "vm.nr_hugepages takes 1 GiB out of use.",
    ("huge-pages-reserved",),
    why_no_huge_pages,
    reserve_huge_pages,
    "multiplies the 1 GiB that is set aside, at most a quarter of what is available",
)
MEMORY_LEAK = Fault(
    "memory-leak",
    "memory",
    "A neighbour that leaks memory",
    "A process beside the job takes 64 MiB more each second and keeps them, up to 4 GiB.",
    ("memory-leak", "page-fault-storm"),
    always,
    leak_memory,
    "multiplies the rate; the bound stays",
    same_signals=("page-fault-storm",),
)
COMPACTION = Fault(
    "memory-compaction",
    "memory",
    "Memory is compacted",
    "A process scatters its pages and has the kernel move all memory together, four times a second.",
    ("memory-compaction",),
    why_no_compaction,
    compact_memory,
    "multiplies how often",
)
