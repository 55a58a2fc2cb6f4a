"""What memory this process has held."""

from __future__ import annotations

from pathlib import Path

from reveal_core.errors import UnavailableError


def peak_memory_bytes() -> int:
    """Return the most memory that this process has held.

    From ``VmHWM`` of proc(5): unlike ``ru_maxrss`` it does not begin at what the parent held.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise UnavailableError("/proc/self/status tells no peak of memory")
