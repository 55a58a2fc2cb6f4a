"""Health logs of NVMe drives: as the specification lays them out, and as broken drives do."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
import time
from pathlib import Path

import pytest
from collect_parts import read, values, write
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.opened import DetachedSource
from reveal_core.collect.sources import nvme
from reveal_core.collect.sources.nvme import (
    ADMIN_COMMAND,
    FIELDS,
    NVME_IOCTL_ADMIN_CMD,
    SENSOR_FIELDS,
    HealthLog,
    HealthPart,
    NvmeSource,
    admin_command,
    decode_smart,
)


def smart_log(**changes: int) -> bytes:
    """Lay out a log in the words of the specification, byte by byte, apart from the code under test."""
    log = bytearray(512)
    log[0] = changes.get("critical_warning", 0)
    log[1:3] = struct.pack("<H", changes.get("kelvin", 311))
    log[3] = changes.get("avail_spare", 100)
    log[4] = 10
    log[5] = changes.get("percent_used", 7)
    for number, name in enumerate(
        (
            *("data_units_read", "data_units_written", "host_read_commands", "host_write_commands"),
            *("controller_busy_time", "power_cycles", "power_on_hours", "unsafe_shutdowns"),
            *("media_errors", "num_err_log_entries"),
        )
    ):
        at = 32 + 16 * number
        log[at : at + 16] = changes.get(name, number + 1).to_bytes(16, "little")
    log[192:200] = struct.pack("<II", changes.get("warning_temp_time", 5), 6)
    log[200:204] = struct.pack("<HH", 310, 320)
    log[216:232] = struct.pack("<IIII", 21, 22, changes.get("thm_temp1_total_time", 23), 24)
    return bytes(log)


def test_a_log_is_decoded_as_the_specification_says() -> None:
    found = decode_smart(smart_log(critical_warning=0b101, percent_used=130))
    assert found["critical_warning"] == 5
    assert found["temperature"] == 38
    assert found["avail_spare"] == 100
    assert found["spare_thresh"] == 10
    assert found["percent_used"] == 130
    assert found["data_units_read"] == 1
    assert found["data_units_written"] == 2
    assert found["host_write_commands"] == 4
    assert found["unsafe_shutdowns"] == 8
    assert found["media_errors"] == 9
    assert found["num_err_log_entries"] == 10
    assert (found["warning_temp_time"], found["critical_comp_time"]) == (5, 6)
    assert (found["thm_temp1_trans_count"], found["thm_temp2_trans_count"]) == (21, 22)
    assert (found["thm_temp1_total_time"], found["thm_temp2_total_time"]) == (23, 24)
    assert (found["temperature_sensor_1"], found["temperature_sensor_2"]) == (37, 47)
    assert found["temperature_sensor_3"] == MISSING
    assert set(found) == {*FIELDS, *SENSOR_FIELDS}


@pytest.mark.parametrize(
    ("count", "decoded"),
    [(2**63 - 1, 2**63 - 1), (2**63, MISSING), (2**64 + 5, MISSING), (2**128 - 1, MISSING), (0, 0)],
)
def test_counters_of_128_bits(count: int, decoded: int) -> None:
    assert decode_smart(smart_log(data_units_read=count))["data_units_read"] == decoded


def test_a_drive_without_a_temperature_has_none() -> None:
    assert decode_smart(smart_log(kelvin=0))["temperature"] == MISSING


@pytest.mark.parametrize(
    "log", [b"", bytes(511), bytes(512), b"\xff" * 512], ids=["none", "short", "0", "ff"]
)
def test_no_log_is_no_numbers(log: bytes) -> None:
    with pytest.raises(ValueError, match="health log"):
        decode_smart(log)


@given(st.binary(min_size=512, max_size=512))
def test_any_log_gives_samples_that_fit(log: bytes) -> None:
    try:
        found = decode_smart(log)
    except ValueError:
        return
    assert all(value == MISSING or -273 <= value < 2**63 for value in found.values())


def test_every_field_is_in_the_catalogue_or_left_out() -> None:
    known = load_catalog().keys() | load_left_out().keys()
    assert {f"nvme.{field}" for field in (*FIELDS, *SENSOR_FIELDS)} <= known


def test_the_command_is_the_kernels() -> None:
    # <linux/nvme_ioctl.h>: 72 bytes; _IOWR('N', 0x41, struct nvme_admin_cmd) is 0xC0484E41.
    assert ADMIN_COMMAND.size == 72
    assert NVME_IOCTL_ADMIN_CMD == 0xC0484E41
    command = bytes(admin_command(0x1122334455667788))
    assert command[0] == 0x02
    assert command[4:8] == b"\xff" * 4
    assert command[24:32] == bytes.fromhex("8877665544332211")
    assert command[36:40] == (512).to_bytes(4, "little")
    assert command[40:44] == bytes.fromhex("02007f00")  # log 2, 128 words counted from zero


class Drive:
    """Stands for the kernel's end of the ioctl: writes a log to the address in the command."""

    def __init__(self, log: bytes, status: int = 0) -> None:
        self.log = log
        self.status = status
        self.commands = 0

    def ioctl(self, device: int, request: int, command: bytearray) -> int:
        assert request == NVME_IOCTL_ADMIN_CMD
        os.fstat(device)  # an open file
        fields = ADMIN_COMMAND.unpack(bytes(command))
        address, length = fields[7], fields[9]
        ctypes.memmove(address, self.log, length)
        self.commands += 1
        return self.status


def test_a_drive_is_asked_through_the_ioctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Drive(smart_log())
    monkeypatch.setattr(nvme.fcntl, "ioctl", drive.ioctl)
    log = HealthLog(write(tmp_path, "nvme0", ""))
    assert log.read() == smart_log()
    assert drive.commands == 1
    drive.status = 0x2002
    with pytest.raises(OSError, match="NVMe status 0x2002") as caught:
        log.read()
    assert caught.value.errno == errno.EIO


def test_a_controller_that_fails_costs_only_its_own_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = Drive(smart_log())
    monkeypatch.setattr(nvme.fcntl, "ioctl", drive.ioctl)
    columns = Columns("nvme", 60_000, load_catalog(), load_left_out())
    source = NvmeSource(Path("/"), columns)
    source.parts = [
        HealthPart(HealthLog(write(tmp_path, name, "")), columns, name) for name in ("nvme0", "nvme1")
    ]
    source.reads_to_rescan = 1000
    found = read(source)
    assert found["nvme.temperature/nvme0"] == 38
    assert found["nvme.media_errors/nvme1"] == 9
    assert "nvme.temperature_sensor_3/nvme0" not in found
    assert "nvme.power_on_hours/nvme0" not in found
    assert not columns.unknown
    (tmp_path / "nvme1").unlink()
    found = read(source)
    assert found["nvme.temperature/nvme0"] == 38
    assert all(value is None for name, value in found.items() if name.endswith("/nvme1"))
    write(tmp_path, "nvme1", "")
    assert read(source)["nvme.temperature/nvme1"] == 38


def test_a_sensor_that_falls_silent_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = Drive(smart_log())
    monkeypatch.setattr(nvme.fcntl, "ioctl", drive.ioctl)
    columns = Columns("nvme", 60_000, load_catalog(), load_left_out())
    source = NvmeSource(Path("/"), columns)
    source.parts = [HealthPart(HealthLog(write(tmp_path, "nvme0", "")), columns, "nvme0")]
    source.reads_to_rescan = 1000
    assert read(source)["nvme.temperature_sensor_1/nvme0"] == 37
    log = bytearray(smart_log())
    log[200:202] = bytes(2)
    drive.log = bytes(log)
    found = read(source)
    assert found["nvme.temperature_sensor_1/nvme0"] is None
    assert found["nvme.temperature_sensor_2/nvme0"] == 47


def test_a_captured_tree_has_no_drives_to_ask(tmp_path: Path) -> None:
    columns = Columns("nvme", 60_000, load_catalog(), load_left_out())
    reason = NvmeSource(tmp_path, columns).probe()
    assert reason is not None
    assert "no NVMe controller" in reason
    write(tmp_path, "sys/class/nvme/nvme0/state", "live\n")
    reason = NvmeSource(tmp_path, columns).probe()
    assert reason is not None
    assert "captured tree" in reason


class HangingLog(HealthLog):
    """A controller that does not answer until the test lets it."""

    def __init__(self, path: Path, release: threading.Event) -> None:
        super().__init__(path)
        self.release = release

    def read(self) -> bytes:
        self.release.wait()
        return super().read()


def test_a_controller_that_hangs_leaves_the_others_their_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvme.fcntl, "ioctl", Drive(smart_log()).ioctl)
    catalog = load_catalog()
    columns = Columns("nvme", 60_000, catalog, load_left_out())
    source = NvmeSource(Path("/"), columns)
    source.reads_to_rescan = 10**9
    release = threading.Event()
    source.parts = [
        HealthPart(HangingLog(write(tmp_path, "nvme0", ""), release), columns, "nvme0"),
        HealthPart(HealthLog(write(tmp_path, "nvme1", "")), columns, "nvme1"),
    ]
    coverage = catalog["reveal.coverage"].channel("nvme", "reveal", 60_000)
    sampled = DetachedSource(source, 1, 0, 50, coverage)
    try:
        for tick in range(400):  # a fraction of a second, unless the machine is very busy
            sampled.sample(tick, tick)
            if values(source).get("nvme.temperature/nvme1") is not None:
                break
            time.sleep(0.05)
        found = values(source)
        assert found["nvme.temperature/nvme1"] == 38
        assert found.get("nvme.temperature/nvme0") is None
    finally:
        release.set()
        sampled.close()
