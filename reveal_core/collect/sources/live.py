"""Whether a root is the running host itself, for what can only be asked of the host that runs."""

from __future__ import annotations

from pathlib import Path

from reveal_core.collect.files import read_text

BOOT_ID = "proc/sys/kernel/random/boot_id"


def not_live(root: Path) -> str | None:
    """Return why a root is not the running host, in one line; None if it is.

    A root that is mounted elsewhere is the running host's if it tells the same boot: so an agent in a
    container, to which the host's root is mounted, may ask the drivers.

    >>> not_live(Path("/")) is None
    True
    """
    boot = read_text(root / BOOT_ID)
    if root == Path("/") or (boot and boot == read_text(Path("/") / BOOT_ID)):
        return None
    return f"{root} is a captured tree, and only a running kernel and its drivers can be asked"
