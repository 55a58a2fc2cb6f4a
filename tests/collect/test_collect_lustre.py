"""Lustre client counters, in files made up in the form that versions 2.10 and 2.15 write."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from collect_parts import open_source, read, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.hotplug import HotplugSource
from reveal_core.collect.sources.lustre import LLITE, READ_AHEAD, LustreSource, StatsPart
from reveal_core.collect.sources.lustre_targets import NUMBERS, TARGET, LustreTargetsSource

OLD = "proc/fs/lustre"
NEW = "sys/kernel/debug/lustre"
MOUNT = "ffff88105db50000"

STATS_210 = """\
snapshot_time             1510950459.772792457 secs.nsecs
read_bytes                3 samples [bytes] 4096 4194304 8388609
write_bytes               89467810 samples [bytes] 4096 1048576 93813797294080
open                      136 samples [regs]
close                     96 samples [regs]
getattr                   41 samples [regs]
getxattr_hits             20 samples [regs]
"""
STATS_215 = """\
snapshot_time             1700000000.123456789 secs.nsecs
start_time                1690000000.000000000 secs.nsecs
elapsed_time              10000000.123456789 secs.nsecs
read_bytes                3 samples [bytes] 4096 4194304 8388609 17592186044416
write_bytes               7 samples [bytes] 1 1048576 7340032 7696581394432
read                      3 samples [usec] 10 900 1000 810200
write                     7 samples [usec] 20 500 2100 900000
open                      136 samples [usec] 0 80 1234 23456
fsync                     2 samples [usec] 1000 5000 6000 26000000
"""
OSC_STATS = """\
snapshot_time             1510950459.787092770 secs.nsecs
req_waittime              18215581 samples [usec] 69 1348857 110282569237 8342874290406023
req_active                18215582 samples [reqs] 1 17 83626277 470089669
write_bytes               18210280 samples [bytes] 4096 4194304 65298098221056 10009909738331963392
ost_write                 18210286 samples [usec] 119 1348857 110277857878 8341476394008222
obd_ping                  5153 samples [usec] 141 6497 1765137 747091377
"""
IMPORT = """\
import:
    name: scratch-OST0000-osc-ffff88105db50000
    target: scratch-OST0000_UUID
    state: {state}
    connect_flags: [ write_grant, server_lock, version ]
    connect_data:
       flags: 0x20405af0e3440478
       instance: 3
    import_flags: [ replayable, pingable, connect_tried ]
    connection:
       failover_nids: [ 10.0.0.5@o2ib, 10.0.0.6@o2ib ]
       current_connection: 10.0.0.5@o2ib
       connection_attempts: 4
       generation: 1
       in-progress_invalidations: 0
    rpcs:
       inflight: 8
       unregistering: 0
       timeouts: {timeouts}
       avg_waittime: 6054 usec
"""


def write_client(root: Path, stats: str, place: str = OLD, name: str = "scratch", mount: str = MOUNT) -> Path:
    write(
        root,
        f"{place}/llite/{name}-{mount}/read_ahead_stats",
        "snapshot_time 1 secs\nhits 9 samples [pages]\n",
    )
    return write(root, f"{place}/llite/{name}-{mount}/stats", stats)


def write_target(root: Path, target: str, state: str = "FULL", timeouts: int = 0, place: str = OLD) -> None:
    kind = "mdc" if "MDT" in target else "osc"
    folder = f"{place}/{kind}/{target}-{kind}-{MOUNT}"
    write(root, f"{folder}/stats", OSC_STATS)
    write(root, f"{folder}/import", IMPORT.format(state=state, timeouts=timeouts))


def test_a_client_of_version_2_10(tmp_path: Path) -> None:
    write_client(tmp_path, STATS_210)
    source = open_source(LustreSource, tmp_path, 1000)
    assert values(source) == {
        "lustre.reads/scratch": 3,
        "lustre.read_bytes/scratch": 8388609,
        "lustre.writes/scratch": 89467810,
        "lustre.write_bytes/scratch": 93813797294080,
        "lustre.open/scratch": 136,
        "lustre.close/scratch": 96,
        "lustre.getattr/scratch": 41,
        "lustre.read_ahead_hits/scratch": 9,
    }
    assert not source.columns.unknown
    assert not source.columns.errors


def test_a_client_of_version_2_15_tells_times_and_lies_in_debugfs(tmp_path: Path) -> None:
    write_client(tmp_path, STATS_215, NEW)
    found = values(open_source(LustreSource, tmp_path, 1000))
    assert found["lustre.read_time/scratch"] == 1000
    assert found["lustre.write_time/scratch"] == 2100
    assert found["lustre.write_bytes/scratch"] == 7340032
    assert found["lustre.open/scratch"] == 136
    assert found["lustre.fsync/scratch"] == 2


def test_counters_move_and_a_clearing_begins_at_zero(tmp_path: Path) -> None:
    stats = write_client(tmp_path, STATS_210)
    source = open_source(LustreSource, tmp_path, 1000)
    stats.write_text(STATS_210.replace("open                      136", "open                      140"))
    assert read(source)["lustre.open/scratch"] == 140
    stats.write_text("snapshot_time             1510950460.772792457 secs.nsecs\n")
    assert read(source)["lustre.open/scratch"] == 0
    stats.write_text(STATS_210)
    assert read(source)["lustre.open/scratch"] == 136


def test_two_mounts_of_one_file_system_are_told_apart(tmp_path: Path) -> None:
    write_client(tmp_path, STATS_210)
    write_client(tmp_path, STATS_215, mount="ffff99000000ab00")
    write_client(tmp_path, STATS_210, name="home")
    found = values(open_source(LustreSource, tmp_path, 1000))
    assert {name.partition("/")[2] for name in found} == {
        "scratch-ffff88105db50000",
        "scratch-ffff99000000ab00",
        "home",
    }


def test_targets(tmp_path: Path) -> None:
    write_target(tmp_path, "scratch-OST0000")
    write_target(tmp_path, "scratch-OST0001", state="DISCONN", timeouts=3)
    write_target(tmp_path, "scratch-MDT0000", state="IDLE")
    write(tmp_path, f"{OLD}/osc/scratch-OST0000-osc-MDT0000/stats", OSC_STATS)  # a server's own
    source = open_source(LustreTargetsSource, tmp_path, 5000)
    found = values(source)
    assert {name: value for name, value in found.items() if name.endswith("OST0001")} == {
        "lustre.req_samples/scratch-OST0001": 18215581,
        "lustre.req_waittime/scratch-OST0001": 110282569237,
        "lustre.target_write_bytes/scratch-OST0001": 65298098221056,
        "lustre.ost_write/scratch-OST0001": 18210286,
        "lustre.ost_write_time/scratch-OST0001": 110277857878,
        "lustre.import_state/scratch-OST0001": 3,
        "lustre.timeouts/scratch-OST0001": 3,
        "lustre.rpcs_inflight/scratch-OST0001": 8,
        "lustre.connection_attempts/scratch-OST0001": 4,
    }
    assert found["lustre.import_state/scratch-OST0000"] == 9
    assert found["lustre.import_state/scratch-MDT0000"] == 9  # idle is as good as full
    assert {name.partition("/")[2] for name in found} == {
        "scratch-OST0000",
        "scratch-OST0001",
        "scratch-MDT0000",
    }
    write_target(tmp_path, "scratch-OST0000", state="EVICTED", timeouts=1)
    found = read(source)
    assert found["lustre.import_state/scratch-OST0000"] == 10
    assert found["lustre.timeouts/scratch-OST0000"] == 1


def test_a_state_that_nobody_knows_and_a_torn_import(tmp_path: Path) -> None:
    write_target(tmp_path, "scratch-OST0000", state="DREAMING")
    source = open_source(LustreTargetsSource, tmp_path, 5000)
    found = values(source)
    assert found["lustre.import_state/scratch-OST0000"] is None
    assert found["lustre.rpcs_inflight/scratch-OST0000"] == 8
    write(tmp_path, f"{OLD}/osc/scratch-OST0000-osc-{MOUNT}/import", "import:\n    state: FULL\n    conn")
    found = read(source)
    assert found["lustre.import_state/scratch-OST0000"] == 9
    assert found["lustre.timeouts/scratch-OST0000"] is None


def test_statistics_in_one_place_and_imports_in_another(tmp_path: Path) -> None:
    folder = f"osc/scratch-OST0000-osc-{MOUNT}"
    write(tmp_path, f"{NEW}/{folder}/stats", OSC_STATS)
    write(tmp_path, f"{OLD}/{folder}/import", IMPORT.format(state="FULL", timeouts=0))
    found = values(open_source(LustreTargetsSource, tmp_path, 5000))
    assert found["lustre.ost_write/scratch-OST0000"] == 18210286
    assert found["lustre.import_state/scratch-OST0000"] == 9


def test_a_file_system_is_mounted_and_unmounted(tmp_path: Path) -> None:
    write_client(tmp_path, STATS_210)
    source = open_source(LustreSource, tmp_path, 1000)
    assert isinstance(source, HotplugSource)
    write_client(tmp_path, STATS_210, name="home")
    source.reads_to_rescan = 0
    assert read(source)["lustre.open/home"] == 136
    shutil.rmtree(tmp_path / f"{OLD}/llite/scratch-{MOUNT}")
    source.reads_to_rescan = 0
    assert {name.partition("/")[2] for name in read(source)} == {"home"}
    source.close()


def test_metadata_targets_come_first_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LustreTargetsSource, "most", 2)
    for target in ("scratch-OST0000", "scratch-OST0001", "scratch-OST0002", "scratch-MDT0000"):
        write_target(tmp_path, target)
    source = open_source(LustreTargetsSource, tmp_path, 5000)
    assert {name.partition("/")[2] for name in values(source)} == {"scratch-MDT0000", "scratch-OST0000"}
    assert source.notes == ["2 more targets are there than the 2 that are read"]


def test_every_name_is_in_the_catalogue() -> None:
    names = {metric for table in (LLITE, READ_AHEAD, TARGET) for pair in table.values() for metric in pair}
    names |= {*NUMBERS.values(), "lustre.import_state"}
    assert names - {None} <= load_catalog().keys()


@settings(max_examples=60, deadline=None)
@given(at=st.integers(0, 600), junk=st.binary(max_size=8), cut=st.integers(0, 40))
def test_torn_statistics_are_missing_or_what_they_say(at: int, junk: bytes, cut: int) -> None:
    text = STATS_215.encode()

    class File:
        path = Path("stats")
        data = text[:at] + junk + text[at + cut :]

        def read(self) -> bytes:
            return self.data

        def close(self) -> None:
            pass

    columns = Columns("lustre", 1000, load_catalog(), load_left_out())
    file = File()
    part = StatsPart(file, columns, LLITE, "scratch")
    part.update()
    assert all(isinstance(value, int) for value in columns.row)
    file.data = text
    assert part.update()
    by_name = {c.channel.metric: columns.row[slot] for slot, c in enumerate(columns.slots) if c is not None}
    assert by_name["lustre.write_time"] == 2100
    assert MISSING not in by_name.values()


def test_a_host_without_lustre_says_so(tmp_path: Path) -> None:
    for kind in (LustreSource, LustreTargetsSource):
        reason = kind(tmp_path, Columns(kind.name, 1000, load_catalog(), {})).probe()
        assert reason is not None
        assert "no Lustre is mounted" in reason
    (tmp_path / "sys/fs/lustre").mkdir(parents=True)
    reason = LustreSource(tmp_path, Columns("lustre", 1000, load_catalog(), {})).probe()
    assert reason is not None
    assert "mount -t debugfs" in reason
