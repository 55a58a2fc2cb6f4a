"""Local file systems: which are asked, and what they say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, read, unpack_ttar, values, write
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.sources.filesystems import (
    FilesystemsSource,
    Mount,
    Space,
    SpacePart,
    local_mounts,
)

TABLE = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
30 27 8:1 /var/lib/docker /var/lib/docker rw,relatime shared:1 - ext4 /dev/sda1 rw
31 27 253:0 / /data/my\040disk rw,relatime shared:2 master:7 - xfs /dev/mapper/data rw
32 27 0:42 / /mnt/nfs rw - nfs4 server:/srv rw
33 27 0:43 / /home rw,relatime - btrfs /dev/sdb rw,subvol=/home
34 27 0:44 / /home/old rw,relatime - btrfs /dev/sdb rw,subvol=/old
35 27 7:0 / /snap/core rw,relatime - squashfs /dev/loop0 ro
36 27 8:33 / /mnt/stick rw,relatime - fuseblk /dev/sdc1 rw
37 27 0:45 / /tmp rw - tmpfs tmpfs rw
38 27 8:17 / /hidden rw - ext4 /dev/sdb1 rw
39 27 0:46 / /hidden rw - tmpfs tmpfs rw
"""


def test_only_local_disks_are_asked_and_each_once() -> None:
    assert local_mounts(TABLE) == [
        Mount("/", "8:1", "ext4", "/dev/sda1"),
        Mount("/data/my disk", "253:0", "xfs", "/dev/mapper/data"),
        Mount("/home", "0:43", "btrfs", "/dev/sdb"),
    ]


@given(st.lists(st.sampled_from([*TABLE.split(), "-", "\n", " ", "8:1", "/x"]), max_size=60).map(" ".join))
def test_no_table_breaks_it(table: str) -> None:
    for mount in local_mounts(table):
        assert mount.kind
        assert not mount.kind.startswith(("nfs", "fuse"))


def statvfs(**changes: int) -> os.statvfs_result:
    """Say what ``statvfs`` would of a file system with 1000 blocks, 50 of them for root only."""
    fields = {
        "bsize": 4096,
        "frsize": 4096,
        "blocks": 1000,
        "bfree": 250,
        "bavail": 200,
        "files": 400,
        "ffree": 300,
        "favail": 300,
        "flag": 0,
        "namemax": 255,
        **changes,
    }
    return os.statvfs_result(list(fields.values()))


class Answer:
    """Stands for a file system that answers what a test says."""

    path = Path("/data")
    mount = Mount("/data", "8:1", "ext4", "/dev/sda1")

    def __init__(self) -> None:
        self.result: os.statvfs_result | OSError = statvfs()

    def read(self) -> os.statvfs_result:
        if isinstance(self.result, OSError):
            raise self.result
        return self.result

    def close(self) -> None:
        pass


class OneSource(FilesystemsSource):
    """The source with one part that a test made."""

    def refresh(self) -> None:
        pass


@pytest.fixture
def source() -> OneSource:
    return OneSource(Path("/"), Columns("filesystems", 10_000, load_catalog(), {}))


def test_shares_are_those_of_df(source: OneSource) -> None:
    answer = Answer()
    source.parts = [SpacePart(answer, source.columns)]  # type: ignore[arg-type]
    found = read(source)
    scale = {c.channel.metric: c.scale for c in source.columns.slots if c is not None}
    assert found["fs.used//data"] == round(10_000 * 750 / 950)
    assert found["fs.inodes_used//data"] == 2500
    assert scale["fs.used"] == scale["fs.inodes_used"] == 0.01
    assert found["fs.avail//data"] == 200 * 4096
    assert found["fs.readonly//data"] == 0


def test_full_read_only_and_gone(source: OneSource) -> None:
    answer = Answer()
    source.parts = [SpacePart(answer, source.columns)]  # type: ignore[arg-type]
    read(source)
    answer.result = statvfs(bfree=0, bavail=0, flag=os.ST_RDONLY)
    found = read(source)
    assert found["fs.used//data"] == 10_000
    assert found["fs.readonly//data"] == 1
    answer.result = OSError(5, "Input/output error")
    assert set(read(source).values()) == {None}
    assert any("Input/output error" in error for error in source.columns.errors)
    answer.result = statvfs()
    assert read(source)["fs.readonly//data"] == 0


def test_a_file_system_without_inodes_or_blocks(source: OneSource) -> None:
    answer = Answer()
    answer.result = statvfs(blocks=0, bfree=0, bavail=0, files=0, ffree=0)
    source.parts = [SpacePart(answer, source.columns)]  # type: ignore[arg-type]
    found = read(source)
    assert found["fs.used//data"] is None
    assert "fs.inodes_used//data" not in found
    assert MISSING in source.columns.row


def test_this_machine(tmp_path: Path) -> None:
    place = os.stat("/")
    device = f"{os.major(place.st_dev)}:{os.minor(place.st_dev)}"
    space = Space(Path("/"), Mount("/", device, "ext4", "/dev/x"))
    assert space.read().f_blocks == os.statvfs("/").f_blocks
    with pytest.raises(OSError, match="cannot be seen there"):
        Space(tmp_path, Mount("/data", "250:250", "ext4", "/dev/y")).read()


def test_a_captured_tree_is_not_asked_for_this_machines_space(tmp_path: Path) -> None:
    write(tmp_path, "proc/1/mountinfo", "21 0 250:250 / / rw - ext4 /dev/y rw\n")
    reason = FilesystemsSource(tmp_path, Columns("filesystems", 10_000, load_catalog(), {})).probe()
    assert reason is not None
    assert "/dev/y cannot be seen there" in reason


def test_mounts_come_and_go_and_too_many_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = os.stat(tmp_path).st_dev
    device = f"{os.major(number)}:{os.minor(number)}"
    (tmp_path / "data").mkdir()
    line = "{} 0 {} / {} rw - ext4 /dev/y rw\n"
    write(tmp_path, "proc/self/mountinfo", line.format(1, device, "/data"))
    write(tmp_path, "sys/fs/ext4/y/errors_count", "4\n")
    source = open_source(FilesystemsSource, tmp_path, 10_000)
    found = values(source)
    here = os.statvfs(tmp_path)
    used = here.f_blocks - here.f_bfree
    # Others write to this disk meanwhile.
    assert found["fs.used//data"] == pytest.approx(10_000 * used / (used + here.f_bavail), abs=100)
    assert found["fs.errors_count//data"] == 4
    more = "".join(line.format(n, f"250:{n}", f"/disk{n}") for n in range(2, 6))
    write(tmp_path, "proc/self/mountinfo", line.format(1, device, "/data") + more)
    monkeypatch.setattr(FilesystemsSource, "most", 3)
    found = read(source)
    assert found["fs.used//disk2"] is None  # is not really there
    assert found["fs.used//data"] is not None
    assert source.notes == ["2 more file systems are mounted than the 3 that are read"]
    write(tmp_path, "proc/self/mountinfo", line.format(1, device, "/data"))
    assert {name.partition("//")[2] for name in read(source)} == {"data"}
    source.close()


@pytest.mark.shared
def test_the_mounts_of_a_captured_process(tmp_path: Path) -> None:
    archive = SHARED / "data/procfs/fixtures.ttar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    unpack_ttar(archive, tmp_path)
    table = (tmp_path / "fixtures/proc/26231/mountinfo").read_text(encoding="utf-8")
    assert [mount.point for mount in local_mounts(table)] == ["/", "/var/lib/containers/storage/overlay"]
