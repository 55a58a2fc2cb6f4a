"""Local file systems: how full they are, and whether they have turned read-only."""

from __future__ import annotations

import errno
import os
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.files import HostFile, read_text
from reveal_core.collect.hotplug import HotplugSource, MakeParts
from reveal_core.collect.parts import Part, SingleValuePart

MOUNTS = ("proc/1/mountinfo", "proc/self/mountinfo")
"""Whose mounts: those of the host's first process if they may be read, else the agent's own."""
NUMBERLESS = frozenset({"btrfs", "zfs", "bcachefs"})
"""Local file systems over several devices: the kernel gives them no device's number."""
IMAGES = frozenset({"squashfs", "iso9660", "udf", "erofs", "cramfs"})
"""Always full and read-only."""
REMOTE = ("nfs", "cifs", "smb", "ceph", "lustre", "gpfs", "9p", "fuse")
"""Asking these may wait for another machine, or for a program; they have sources of their own or none."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system.

    Attributes
    ----------
    point
        Where it is mounted.
    device
        Major and minor number, as ``8:1``.
    kind
        ``ext4``, ``xfs`` and so on.
    origin
        What is mounted: ``/dev/sda1``.
    """

    point: str
    device: str
    kind: str
    origin: str


def unescape(text: str) -> str:
    r"""Return a path of the mount table with its octal escapes undone.

    >>> unescape(r"/mnt/my\040disk")
    '/mnt/my disk'
    """
    for code in ("\\040", "\\011", "\\012", "\\134"):
        text = text.replace(code, chr(int(code[1:], 8)))
    return text


def local_mounts(table: str) -> list[Mount]:
    """Return the file systems of a mount table that lie on this machine's block devices, each once.

    Parameters
    ----------
    table
        ``/proc/PID/mountinfo``: lines ``36 35 98:0 /root /point options tags - ext4 /dev/sda1 options``.

    Returns
    -------
    list of Mount
        By mount point. One that is mounted more than once, as by containers, is there under its shortest
        path; one that another is mounted over is not there.
    """
    visible: dict[str, Mount] = {}
    for line in table.splitlines():
        words = line.split(" ")
        if "-" not in words[6:]:
            continue
        tail = words[words.index("-", 6) + 1 :]
        if len(tail) < 2 or not tail[0]:
            continue
        point = unescape(words[4])
        visible[point] = Mount(point, words[2], tail[0], unescape(tail[1]))
    found: dict[str, Mount] = {}
    for mount in sorted(visible.values(), key=lambda mount: (len(mount.point), mount.point)):
        numbered = mount.device.partition(":")[0] not in ("", "0")
        if not (numbered or mount.kind in NUMBERLESS) or mount.kind in IMAGES:
            continue
        if not mount.kind.startswith(REMOTE):
            found.setdefault(mount.origin if mount.kind in NUMBERLESS else mount.device, mount)
    return sorted(found.values(), key=lambda mount: mount.point)


class Space:
    """How full a file system is. Asking may hang when its disk does."""

    def __init__(self, path: Path, mount: Mount) -> None:
        self.path = path
        self.mount = mount

    def read(self) -> os.statvfs_result:
        """Return what the file system says.

        Raises
        ------
        OSError
            If it does not answer, or another file system is there.
        """
        number = os.stat(self.path).st_dev
        seen = f"{os.major(number)}:{os.minor(number)}"
        if self.mount.kind not in NUMBERLESS and seen != self.mount.device:
            raise OSError(errno.ENOENT, f"{self.mount.origin} cannot be seen there")
        return os.statvfs(self.path)

    def close(self) -> None:
        """Nothing is kept open."""


class SpacePart(Part):
    """Shares used, in hundredths of a percent, space left and the read-only mark of a file system."""

    def __init__(self, space: Space, columns: Columns) -> None:
        super().__init__(space, columns)
        self.point = space.mount.point
        self.used = self.add("fs.used", self.point, 0.01)
        self.avail = self.add("fs.avail", self.point)
        self.readonly = self.add("fs.readonly", self.point)
        self.inodes: int | None = None

    def parse(self, data: os.statvfs_result) -> None:
        """See `Part.parse`."""
        # As df does: what is reserved for root counts as neither used nor available.
        used = data.f_blocks - data.f_bfree
        self._put(self.used, _share(used, used + data.f_bavail))
        self._put(self.avail, data.f_bavail * data.f_frsize)
        self._put(self.readonly, int(bool(data.f_flag & os.ST_RDONLY)))
        if data.f_files and self.inodes is None:  # some make inodes as they need them and count none
            self.inodes = self.add("fs.inodes_used", self.point, 0.01)
        if self.inodes is not None:
            self._put(self.inodes, _share(data.f_files - data.f_ffree, data.f_files))

    def _put(self, slot: int | None, value: int) -> None:
        if slot is not None:
            self.columns.row[slot] = value


def _share(part: int, whole: int) -> int:
    return round(10_000 * part / whole) if whole > 0 else MISSING


class FilesystemsSource(HotplugSource):
    """Space, inodes, read-only mark and errors of file systems on this machine's disks, every ten seconds.

    Network file systems and FUSE are not asked: an answer may never come, and it is the server's figure.
    """

    name = "filesystems"
    period_ms = 10_000
    detached = True
    rescan_ms = 10_000
    most = 32
    things = "file systems are mounted"

    def _mounts(self) -> list[Mount]:
        for name in MOUNTS:
            table = read_text(self.path(name))
            if table:
                return local_mounts(table)
        return []

    def _place(self, mount: Mount) -> Path:
        return self.root / mount.point.lstrip("/")

    def probe(self) -> str | None:
        """See `Source.probe`."""
        reason = self.missing(*MOUNTS)
        if reason is not None:
            return reason
        mounts = self._mounts()
        if not mounts:
            return f"{self.path(MOUNTS[0])} names no file system on a local block device"
        for mount in mounts:
            try:
                Space(self._place(mount), mount).read()
            except OSError as error:
                reason = f"{self._place(mount)}: {error.strerror or error}"
            else:
                return None
        return reason

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {mount: partial(self._parts, mount) for mount in self._mounts()}

    def _parts(self, mount: Mount) -> Iterator[Part]:
        yield SpacePart(Space(self._place(mount), mount), self.columns)
        errors = self.path("sys/fs/ext4") / Path(mount.origin).name / "errors_count"
        if mount.kind == "ext4" and errors.exists():
            file = HostFile(errors, whole=True)
            yield SingleValuePart(file, self.columns, ("fs.errors_count", 1.0), mount.point)
