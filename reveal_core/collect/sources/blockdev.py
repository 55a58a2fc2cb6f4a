"""What the kernel knows of the state of disks: SCSI errors, NVMe controllers, software RAID."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

from reveal_core.collect.columns import Columns
from reveal_core.collect.files import HostFile
from reveal_core.collect.hotplug import HotplugSource, MakeParts, devices
from reveal_core.collect.parts import Part, SingleValuePart

BLOCKS = "sys/block"
CONTROLLERS = "sys/class/nvme"
SCSI_COUNTS = ("iorequest_cnt", "iodone_cnt", "ioerr_cnt", "iotmo_cnt")
RAID_COUNTS = ("degraded", "mismatch_cnt")

SCSI_STATES = {
    b"created": 1,
    b"running": 2,
    b"cancel": 3,
    b"deleted": 4,
    b"quiesce": 5,
    b"offline": 6,
    b"transport-offline": 7,
    b"blocked": 8,
    b"created-blocked": 9,
}
"""``enum scsi_device_state`` of scsi/scsi_device.h."""
NVME_STATES = {
    b"new": 0,
    b"live": 1,
    b"resetting": 2,
    b"connecting": 3,
    b"deleting": 4,
    b"deleting (no IO)": 5,
    b"dead": 6,
}
"""``enum nvme_ctrl_state`` of drivers/nvme/host/nvme.h."""
RAID_ACTIONS = {
    b"idle": 0,
    b"check": 1,
    b"repair": 2,
    b"resync": 3,
    b"recover": 4,
    b"reshape": 5,
    b"frozen": 6,
}
"""What drivers/md/md.c writes; idle is all well, check and repair are asked for, the others cost speed."""


class WordPart(Part):
    """A file that holds a word of a known few."""

    def __init__(
        self, file: HostFile, columns: Columns, words: dict[bytes, int], metric: str, instance: str
    ) -> None:
        super().__init__(file, columns)
        self.words = words
        self.slot = self.add(metric, instance)

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        word = data.strip()
        if word not in self.words:
            raise ValueError(f"says {word[:40]!r}, which is no state that is known")
        if self.slot is not None:
            self.columns.row[self.slot] = self.words[word]


class HexPart(SingleValuePart):
    """A file that holds one hexadecimal number, ``0x1f``."""

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        if self.slot is not None:
            self.columns.row[self.slot] = int(data, 16)


class BlockdevSource(HotplugSource):
    """Requests, errors and state of SCSI disks, state of NVMe controllers, health of software RAID.

    Nothing here asks a device: the files hold what the kernel has noted.
    """

    name = "blockdev"
    period_ms = 2000

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        found: dict[Hashable, MakeParts] = {}
        blocks = self.path(BLOCKS)
        for block in sorted(blocks.iterdir()) if blocks.is_dir() else []:
            if (block / "md").is_dir():
                found[block.name, "md"] = partial(self._raid_parts, block.name, block / "md")
            elif not block.name.startswith("nvme") and (block / "device/state").exists():
                found[block.name, "scsi"] = partial(self._scsi_parts, block.name, block / "device")
        for controller in devices(self.path(CONTROLLERS), "nvme"):
            if (controller / "state").exists():
                found[controller.name, "nvme"] = partial(self._nvme_parts, controller)
        return found

    def _raid_parts(self, name: str, folder: Path) -> Iterator[Part]:
        for file in RAID_COUNTS:
            if (folder / file).exists():
                yield SingleValuePart(
                    HostFile(folder / file, whole=True), self.columns, (f"md.{file}", 1.0), name
                )
        if (folder / "sync_action").exists():
            action = HostFile(folder / "sync_action", whole=True)
            yield WordPart(action, self.columns, RAID_ACTIONS, "md.sync_action", name)

    def _scsi_parts(self, name: str, folder: Path) -> Iterator[Part]:
        for file in SCSI_COUNTS:
            if (folder / file).exists():
                yield HexPart(HostFile(folder / file, whole=True), self.columns, (f"scsi.{file}", 1.0), name)
        if (folder / "state").exists():
            state = HostFile(folder / "state", whole=True)
            yield WordPart(state, self.columns, SCSI_STATES, "scsi.state", name)

    def _nvme_parts(self, folder: Path) -> Iterator[Part]:
        state = HostFile(folder / "state", whole=True)
        yield WordPart(state, self.columns, NVME_STATES, "nvme.state", folder.name)

    def probe(self) -> str | None:
        """See `Source.probe`."""
        if self.find():
            return None
        return (
            f"{self.path(BLOCKS)} and {self.path(CONTROLLERS)} hold no SCSI disk, NVMe controller or "
            "software RAID: usual in virtual machines"
        )
