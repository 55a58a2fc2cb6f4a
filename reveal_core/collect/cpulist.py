"""Which CPUs there are, as the kernel writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reveal_core.collect.files import read_text


def cpu_list(text: str) -> list[int]:
    """Return the numbers of a list such as ``0-3,8``; empty if it is none.

    >>> cpu_list("0-2,8")
    [0, 1, 2, 8]
    """
    found: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            return []
        found += range(int(first), int(last if dash else first) + 1)
    return found


def sockets(folder: Path, cpus: Sequence[int]) -> dict[int, int]:
    """Return the socket of each CPU; 0 for one that does not say.

    Parameters
    ----------
    folder
        ``/sys/devices/system/cpu``.
    cpus
        Their numbers.
    """
    found = {}
    for cpu in cpus:
        text = read_text(folder / f"cpu{cpu}" / "topology" / "physical_package_id") or ""
        found[cpu] = int(text) if text.isdigit() else 0
    return found
