"""State of disks as the kernel knows it: SCSI, NVMe controllers, software RAID."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, read, unpack_ttar, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.hotplug import HotplugSource
from reveal_core.collect.sources.blockdev import BlockdevSource


def write_scsi(root: Path, disk: str, errors: int = 0, state: str = "running") -> None:
    for file, text in (
        ("iorequest_cnt", "0x1f"),
        ("iodone_cnt", "0x1e"),
        ("ioerr_cnt", hex(errors)),
        ("iotmo_cnt", "0x2"),
        ("state", state),
    ):
        write(root, f"sys/block/{disk}/device/{file}", f"{text}\n")


def write_raid(root: Path, array: str, degraded: int, action: str) -> None:
    write(root, f"sys/block/{array}/md/degraded", f"{degraded}\n")
    write(root, f"sys/block/{array}/md/mismatch_cnt", "128\n")
    write(root, f"sys/block/{array}/md/sync_action", f"{action}\n")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    write_scsi(tmp_path, "sda", errors=26)
    write(tmp_path, "sys/block/vda/size", "100\n")  # virtio has no such counters
    write(tmp_path, "sys/block/nvme0n1/device/state", "live\n")  # the controller's
    write_raid(tmp_path, "md0", 1, "recover")
    write(tmp_path, "sys/block/md127/md/array_state", "clean\n")  # striped: nothing to lack or check
    write(tmp_path, "sys/class/nvme/nvme0/state", "live\n")
    write(tmp_path, "sys/class/nvme/nvme10/state", "resetting\n")
    return tmp_path


def test_counters_and_states(host: Path) -> None:
    assert values(open_source(BlockdevSource, host, 2000)) == {
        "scsi.iorequest_cnt/sda": 31,
        "scsi.iodone_cnt/sda": 30,
        "scsi.ioerr_cnt/sda": 26,
        "scsi.iotmo_cnt/sda": 2,
        "scsi.state/sda": 2,
        "md.degraded/md0": 1,
        "md.mismatch_cnt/md0": 128,
        "md.sync_action/md0": 4,
        "nvme.state/nvme0": 1,
        "nvme.state/nvme10": 2,
    }


def test_a_disk_that_goes_offline_and_one_that_is_pulled(host: Path) -> None:
    write_scsi(host, "sdb")
    source = open_source(BlockdevSource, host, 2000)
    write_scsi(host, "sda", errors=27, state="transport-offline")
    found = read(source)
    assert found["scsi.state/sda"] == 7
    assert found["scsi.ioerr_cnt/sda"] == 27
    (host / "sys/block/sdb").rename(host / "gone")
    assert isinstance(source, HotplugSource)
    source.reads_to_rescan = 0
    found = read(source)
    assert not [name for name in found if name.endswith("/sdb")]
    assert found["scsi.ioerr_cnt/sda"] == 27


def test_a_state_that_nobody_knows_is_missing_and_said(host: Path) -> None:
    write_scsi(host, "sda", state="dreaming")
    source = open_source(BlockdevSource, host, 2000)
    found = values(source)
    assert found["scsi.state/sda"] is None
    assert found["scsi.ioerr_cnt/sda"] == 0
    assert any("dreaming" in error for error in source.columns.errors)


@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=30))
def test_no_file_gives_a_wrong_number(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    root = tmp_path_factory.mktemp("scsi")
    write_scsi(root, "sda")
    (root / "sys/block/sda/device/ioerr_cnt").write_bytes(data)
    source = open_source(BlockdevSource, root, 2000)
    found = values(source)["scsi.ioerr_cnt/sda"]
    try:
        expected: int | None = int(data, 16)
    except ValueError:
        expected = None
    assert found == (None if expected == MISSING else expected)
    assert values(source)["scsi.state/sda"] == 2
    source.close()


@pytest.mark.shared
def test_the_arrays_of_a_captured_host(tmp_path: Path) -> None:
    archive = SHARED / "data/node_exporter/sys.ttar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    unpack_ttar(archive, tmp_path)
    found = values(open_source(BlockdevSource, tmp_path, 2000))
    assert {name: v for name, v in found.items() if name.startswith("md.degraded")} == {
        "md.degraded/md1": 0,
        "md.degraded/md10": 0,
        "md.degraded/md4": 0,
        "md.degraded/md5": 1,
        "md.degraded/md6": 1,
    }
    assert found["md.sync_action/md6"] == 4
    assert found["scsi.state/sdi"] == 2
    assert found["nvme.state/nvme0"] == 1


def test_a_virtual_machine_has_none_of_these(tmp_path: Path) -> None:
    write(tmp_path, "sys/block/vda/size", "100\n")
    reason = BlockdevSource(tmp_path, Columns("blockdev", 2000, load_catalog(), {})).probe()
    assert reason is not None
    assert "no SCSI disk" in reason
