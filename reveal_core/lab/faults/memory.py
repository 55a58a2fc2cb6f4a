"""Faults of memory: page faults, pressure in a cgroup, huge pages set aside, bandwidth."""

from __future__ import annotations

from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.cgroups import Cgroup, make_cgroup
from reveal_core.lab.faults.base import Injection, cores, needs_root
from reveal_core.lab.journal import UndoAction

HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")
SLACK_BYTES = 32 << 20
"""What the limited cgroup keeps for the page cache beyond what cannot be reclaimed."""
HUGE_BYTES = 1 << 30


def storm_faults(injection: Injection) -> str:
    """Map, touch and give back memory without end."""
    count = max(1, round(cores() / 2 * injection.intensity))
    neighbour = injection.neighbour()
    if neighbour is not None:
        injection.set_share(neighbour, count)
    injection.prepare("touch", copies=count, cgroup=neighbour).go()
    return f"{count} processes that touch and give back 64 MiB in a loop"


def press_cgroup(injection: Injection) -> str:
    """Limit a cgroup to little more than what it cannot give up, with a process in it that reads far more.

    The cgroup is the job's own if there is one. What is read is a file of holes, so that the pages come and
    go without the disk.
    """
    if injection.workload is not None and injection.workload.job:
        group = injection.job()
    else:
        name = f"{injection.place.name}/pressed"
        injection.journal.add(UndoAction("remove-cgroup", (name,), f"removed the cgroup {name}"))
        group = make_cgroup(name)
    span = 512 << 20
    file = injection.folder / "holes"
    child = injection.prepare("reread", "--file", str(file), "--bytes", str(span), cgroup=group)
    limit = _unreclaimable(group) + round(SLACK_BYTES / injection.intensity)
    path = group.file("memory", "memory.limit_in_bytes", "memory.max")
    injection.journal.change_file(path, str(limit))
    child.go()
    return f"a limit of {limit >> 20} MiB on {group.name}, where a process reads {span >> 20} MiB in a loop"


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
    neighbour = injection.neighbour()
    if neighbour is not None:
        injection.set_share(neighbour, count)
    injection.prepare("stream", copies=count, cgroup=neighbour).go()
    return f"{count} processes that copy 64 MiB arrays"
