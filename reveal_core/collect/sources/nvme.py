"""Health of NVMe drives, as the drives themselves report it."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Hashable, Iterator
from functools import partial
from pathlib import Path

from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.hotplug import HotplugSource, MakeParts, devices
from reveal_core.collect.parts import Part
from reveal_core.collect.sources.live import not_live

CLASS = "sys/class/nvme"
DEVICES = "dev"

ADMIN_COMMAND = struct.Struct("=BBHIIIQQIIIIIIIIII")
"""``struct nvme_passthru_cmd`` of linux/nvme_ioctl.h: opcode, flags, reserved, nsid, cdw2, cdw3, metadata,
addr, metadata_len, data_len, cdw10 to cdw15, timeout_ms, result."""
NVME_IOCTL_ADMIN_CMD = (3 << 30) | (ADMIN_COMMAND.size << 16) | (ord("N") << 8) | 0x41
"""``_IOWR('N', 0x41, struct nvme_admin_cmd)``."""
GET_LOG_PAGE = 0x02
SMART_LOG = 0x02
ALL_NAMESPACES = 0xFFFFFFFF
LOG_SIZE = 512
TIMEOUT_MS = 5000

KELVIN = 273
"""The specification counts whole kelvins, and so does every tool: 0 °C is 273 K."""
MAX_COUNT = 2**63 - 1

# NVM Express Base Specification 2.0, figure 208: SMART / Health Information Log.
PERCENTAGES = {"avail_spare": 3, "spare_thresh": 4, "percent_used": 5}
"""One byte each; the share used may exceed 100."""
LONG_COUNTS = {
    "data_units_read": 32,
    "data_units_written": 48,
    "host_read_commands": 64,
    "host_write_commands": 80,
    "controller_busy_time": 96,
    "power_cycles": 112,
    "power_on_hours": 128,
    "unsafe_shutdowns": 144,
    "media_errors": 160,
    "num_err_log_entries": 176,
}
"""Counters of 128 bits."""
SHORT_COUNTS = {
    "warning_temp_time": 192,
    "critical_comp_time": 196,
    "thm_temp1_trans_count": 216,
    "thm_temp2_trans_count": 220,
    "thm_temp1_total_time": 224,
    "thm_temp2_total_time": 228,
}
"""Counters of 32 bits."""
SENSORS = 200
SENSOR_COUNT = 8
FIELDS = ("critical_warning", "temperature", *PERCENTAGES, *LONG_COUNTS, *SHORT_COUNTS)
SENSOR_FIELDS = tuple(f"temperature_sensor_{number}" for number in range(1, SENSOR_COUNT + 1))


def _celsius(data: bytes, place: int) -> int:
    kelvin = int.from_bytes(data[place : place + 2], "little")
    return kelvin - KELVIN if kelvin else MISSING


def decode_smart(data: bytes) -> dict[str, int]:
    """Return what a SMART / health log says, by the names that ``nvme smart-log`` gives the fields.

    Parameters
    ----------
    data
        The log page 0x02, 512 bytes.

    Returns
    -------
    dict
        ``critical_warning`` (bits: 0 spare below its threshold, 1 temperature, 2 reliability, 3 read-only, 4
        backup of volatile memory, 5 persistent memory), temperatures in °C (`MISSING` where the drive has no
        such sensor), shares in %, counters; a counter beyond 63 bits is `MISSING`.

    Raises
    ------
    ValueError
        If it is not 512 bytes long, or all bytes are the same, as from a drive that has fallen off its bus.

    Notes
    -----
    NVM Express Base Specification, revision 2.0, section 5.16.1.3.
    """
    if len(data) != LOG_SIZE:
        raise ValueError(f"the health log has {len(data)} bytes instead of {LOG_SIZE}")
    if data in (bytes(LOG_SIZE), b"\xff" * LOG_SIZE):
        raise ValueError("the health log is blank")
    found = {"critical_warning": data[0], "temperature": _celsius(data, 1)}
    found.update((name, data[place]) for name, place in PERCENTAGES.items())
    for name, place in LONG_COUNTS.items():
        count = int.from_bytes(data[place : place + 16], "little")
        found[name] = count if count <= MAX_COUNT else MISSING
    for name, place in SHORT_COUNTS.items():
        found[name] = int.from_bytes(data[place : place + 4], "little")
    for number, name in enumerate(SENSOR_FIELDS):
        found[name] = _celsius(data, SENSORS + 2 * number)
    return found


def admin_command(address: int) -> bytearray:
    """Return the command that asks a controller for its health log, to be written to an address."""
    words = LOG_SIZE // 4 - 1  # the specification counts from zero
    return bytearray(
        ADMIN_COMMAND.pack(
            *(GET_LOG_PAGE, 0, 0, ALL_NAMESPACES, 0, 0, 0, address, 0, LOG_SIZE),
            *(words << 16 | SMART_LOG, 0, 0, 0, 0, 0, TIMEOUT_MS, 0),
        )
    )


class HealthLog:
    """The health log of a controller; each reading asks the drive, which may take its time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        """Return the log.

        Raises
        ------
        OSError
            If the controller cannot be asked or refuses.
        """
        buffer = ctypes.create_string_buffer(LOG_SIZE)
        command = admin_command(ctypes.addressof(buffer))
        device = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            status = fcntl.ioctl(device, NVME_IOCTL_ADMIN_CMD, command)
        finally:
            os.close(device)
        if status:
            raise OSError(errno.EIO, f"the drive answers with NVMe status {status:#x}")
        return buffer.raw

    def close(self) -> None:
        """Nothing is kept open."""


class HealthPart(Part):
    """What a controller's health log says; a sensor that it does not have gets no channel."""

    def __init__(self, log: HealthLog, columns: Columns, controller: str) -> None:
        super().__init__(log, columns)
        self.controller = controller
        self.slots: dict[str, int | None] = {}

    def parse(self, data: bytes) -> None:
        """See `Part.parse`."""
        for field, value in decode_smart(data).items():
            if field not in self.slots:
                if value == MISSING and field in SENSOR_FIELDS:
                    continue
                self.slots[field] = self.add(f"nvme.{field}", self.controller)
            slot = self.slots[field]
            if slot is not None:
                self.columns.row[slot] = value


class NvmeSource(HotplugSource):
    """Wear, spare, temperature, errors and warnings of each NVMe controller, once a minute.

    SATA and SAS drives are not asked: their SMART attributes mean something else at every vendor, and asking
    can wake a disk that sleeps. What the kernel itself counts of them is in the source ``blockdev``.
    """

    name = "nvme"
    period_ms = 60_000
    detached = True
    rescan_ms = 60_000

    def _controllers(self) -> list[str]:
        return [path.name for path in devices(self.path(CLASS), "nvme")]

    def probe(self) -> str | None:
        """See `Source.probe`."""
        controllers = self._controllers()
        if not controllers:
            return f"{self.path(CLASS)} holds no NVMe controller"
        if (elsewhere := not_live(self.root)) is not None:
            return elsewhere
        reason = None
        for controller in controllers:
            log = HealthLog(self.path(DEVICES) / controller)
            try:
                log.read()
            except PermissionError:
                reason = f"{log.path}: asking for health needs root (CAP_SYS_ADMIN and CAP_DAC_READ_SEARCH)"
            except OSError as error:
                reason = f"{log.path}: {(error.strerror or str(error)).lower()}"
            else:
                return None
        return reason

    def find(self) -> dict[Hashable, MakeParts]:
        """See `HotplugSource.find`."""
        return {name: partial(self._parts, name) for name in self._controllers()}

    def _parts(self, controller: str) -> Iterator[Part]:
        yield HealthPart(HealthLog(self.path(DEVICES) / controller), self.columns, controller)
