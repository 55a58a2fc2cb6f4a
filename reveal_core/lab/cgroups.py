"""The lab's cgroups: one for the job and one for its neighbours, in version 1 and 2."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from reveal_core.errors import UnavailableError
from reveal_core.lab.processes import identify

CONTROLLERS = ("cpu", "cpuacct", "memory", "blkio")


@dataclass(frozen=True)
class Cgroup:
    """A cgroup, by its directory under each controller.

    Attributes
    ----------
    name
        Its path below the mount points, without a leading slash.
    folders
        Directory for each of `CONTROLLERS`; in version 2 the same one for all.
    version
        1 or 2.
    """

    name: str
    folders: dict[str, Path]
    version: int

    def distinct_folders(self) -> list[Path]:
        """Return its directories, each once."""
        return list(dict.fromkeys(self.folders.values()))

    def enter(self, pid: int) -> None:
        """Move a process into the cgroup."""
        for folder in self.distinct_folders():
            (folder / "cgroup.procs").write_text(str(pid), encoding="ascii")

    def file(self, controller: str, version1: str, version2: str) -> Path:
        """Return the file of a controller that has one name in version 1 and another in version 2."""
        return self.folders[controller] / (version1 if self.version == 1 else version2)


def controller_mounts() -> tuple[int, dict[str, Path]]:
    """Return the version of the controllers, and where each is mounted.

    Raises
    ------
    UnavailableError
        If a controller of `CONTROLLERS` is mounted in neither version.
    """
    first: dict[str, Path] = {}
    unified: Path | None = None
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup":
            first.update({name: Path(folder) for name in options.split(",") if name in CONTROLLERS})
        elif kind == "cgroup2":
            unified = Path(folder)
    if all(name in first for name in CONTROLLERS):
        return 1, first
    if unified is not None:
        offered = (unified / "cgroup.controllers").read_text(encoding="ascii").split()
        if {"cpu", "memory", "io"} <= set(offered):
            return 2, dict.fromkeys(CONTROLLERS, unified)
    missing = ", ".join(name for name in CONTROLLERS if name not in first)
    raise UnavailableError(f"cgroup controllers are not mounted: {missing}")


def why_no_cgroups() -> str:
    """Return why this process cannot make cgroups, or ``""`` if it can."""
    if os.geteuid() != 0:
        return "needs root to make cgroups"
    try:
        _, mounts = controller_mounts()
    except UnavailableError as error:
        return str(error)
    for name, folder in mounts.items():
        if not os.access(folder, os.W_OK):
            return f"the {name} controller at {folder} is mounted read-only"
    return ""


def make_cgroup(name: str) -> Cgroup:
    """Make a cgroup, or find it, under every controller.

    Parameters
    ----------
    name
        Its path, ``reveal-lab/job``.

    Raises
    ------
    OSError, UnavailableError
        If the controllers are missing, or cannot be written.
    """
    version, mounts = controller_mounts()
    if version == 2:
        folder = mounts["cpu"]
        for part in Path(name).parts:
            (folder / "cgroup.subtree_control").write_text("+cpu +memory +io", encoding="ascii")
            folder = folder / part
            folder.mkdir(exist_ok=True)
    for mount in mounts.values():
        (mount / name).mkdir(parents=True, exist_ok=True)
    return Cgroup(name, {controller: mount / name for controller, mount in mounts.items()}, version)


def find_cgroup(name: str) -> Cgroup:
    """Return a cgroup that `make_cgroup` made."""
    version, mounts = controller_mounts()
    return Cgroup(name, {controller: mount / name for controller, mount in mounts.items()}, version)


def remove_cgroup(name: str) -> None:
    """End the processes in a cgroup of the lab and remove it, with its parent if that is empty then.

    Raises
    ------
    OSError
        If it is still in use after a few seconds.
    """
    for folder in find_cgroup(name).distinct_folders():
        deadline = time.monotonic() + 5.0
        while folder.exists():
            for pid in (folder / "cgroup.procs").read_text(encoding="ascii").split():
                _end(int(pid))
            try:
                folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)  # the kernel lets go of ended processes a moment later
        parent = folder.parent
        if (
            parent.exists()
            and parent.name == Path(name).parts[0]
            and not any(p.is_dir() for p in parent.iterdir())
        ):
            parent.rmdir()


def _end(pid: int) -> None:
    if pid == os.getpid():
        raise OSError(f"process {pid} is the lab itself, and sits in a cgroup that is to be removed")
    try:
        identify(pid).end()
    except ProcessLookupError:
        return
