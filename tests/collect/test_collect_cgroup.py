"""Control groups of both versions, made up from what kernels write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from collect_parts import open_source, read, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect import groups
from reveal_core.collect.columns import Columns
from reveal_core.collect.parts import Part
from reveal_core.collect.source import Source
from reveal_core.collect.sources.cgroup import CgroupSource
from reveal_core.collect.sources.cgroup_detail import BYTES, BlkioPart, CgroupDetailSource, IoStatPart

TOP = "sys/fs/cgroup"


def write_v1(root: Path, name: str, usage: int, throttled: int = 0, memory: int = 4096) -> None:
    for controller, file, text in (
        (
            "cpu,cpuacct",
            "cpu.stat",
            f"nr_periods 90\nnr_throttled {throttled}\nthrottled_time 5000\nnr_bursts 0\n",
        ),
        ("cpu,cpuacct", "cpuacct.usage", f"{usage}\n"),
        ("memory", "memory.usage_in_bytes", f"{memory}\n"),
        ("memory", "memory.failcnt", "3\n"),
        (
            "memory",
            "memory.stat",
            "cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\ntotal_dirty 30\ntotal_pgfault 40\n",
        ),
        ("memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        (
            "blkio",
            "blkio.throttle.io_service_bytes",
            "254:0 Read 100\n254:0 Write 7\n254:0 Total 107\n8:0 Read 1\n8:0 Write 2\nTotal 110\n",
        ),
    ):
        write(root, f"{TOP}/{controller}/{name}/{file}", text)


def write_v2(root: Path, name: str, usage: int, throttled: int = 0) -> None:
    for file, text in (
        (
            "cpu.stat",
            f"usage_usec {usage}\nuser_usec 1\nsystem_usec 2\nnr_throttled {throttled}\nthrottled_usec 9\n",
        ),
        ("memory.current", "4096\n"),
        ("memory.stat", "anon 20\nfile 10\nfile_dirty 30\npgfault 40\npgscan 50\n"),
        ("memory.events", "low 0\nhigh 0\nmax 3\noom 0\noom_kill 2\n"),
        (
            "io.stat",
            "254:0 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2 rios=1 wios=1\n",
        ),
        (
            "cpu.pressure",
            "some avg10=0 avg60=0 avg300=0 total=77\nfull avg10=0 avg60=0 avg300=0 total=5\n",
        ),
    ):
        write(root, f"{TOP}/{name}/{file}", text)


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    write_v1(tmp_path, ".", 10**12)
    write_v1(tmp_path, "slurm/job7", 5_000_000, throttled=4)
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    write(tmp_path, f"{TOP}/cgroup.controllers", "cpu io memory\n")
    write_v2(tmp_path, "system.slice/a.service", 5_000, throttled=4)
    return tmp_path


def rediscover(source: Source) -> dict[str, int | None]:
    """Read a source until it has looked for groups again."""
    assert isinstance(source, groups.GroupSource)
    source.reads_to_rescan = 0
    return read(source)


def test_version_1(v1: Path) -> None:
    source = open_source(CgroupSource, v1)
    name = "slurm/job7"
    assert values(source) == {
        f"cgroup.cpu_usage/{name}": 5_000_000,
        f"cgroup.nr_periods/{name}": 90,
        f"cgroup.nr_throttled/{name}": 4,
        f"cgroup.throttled_time/{name}": 5000,
        f"cgroup.memory_usage/{name}": 4096,
        f"cgroup.memory_failcnt/{name}": 3,
    }
    detail = open_source(CgroupDetailSource, v1, 500)
    assert values(detail) == {
        f"cgroup.memory_rss/{name}": 20,
        f"cgroup.memory_cache/{name}": 10,
        f"cgroup.memory_dirty/{name}": 30,
        f"cgroup.pgfault/{name}": 40,
        f"cgroup.memory_oom_kill/{name}": 2,
        f"cgroup.io_read_bytes/{name}": 101,
        f"cgroup.io_write_bytes/{name}": 9,
    }


def test_version_2_in_the_same_metrics_and_units(v2: Path) -> None:
    source = open_source(CgroupSource, v2)
    name = "system.slice/a.service"
    found = values(source)
    assert found[f"cgroup.memory_failcnt/{name}"] == 3
    assert found[f"cgroup.memory_oom_kill/{name}"] == 2
    scale = {c.channel.metric: c.scale for c in source.columns.slots if c is not None}
    assert found[f"cgroup.cpu_usage/{name}"] == 5_000
    assert scale["cgroup.cpu_usage"] == 1000  # microseconds to nanoseconds
    assert scale["cgroup.throttled_time"] == 1000
    detail = values(open_source(CgroupDetailSource, v2, 500))
    assert detail[f"cgroup.io_read_bytes/{name}"] == 101
    assert detail[f"cgroup.io_write_bytes/{name}"] == 9
    assert detail[f"cgroup.psi_cpu_some/{name}"] == 77
    assert detail[f"cgroup.pgscan/{name}"] == 50


@pytest.mark.parametrize("write_group", [write_v1, write_v2], ids=["v1", "v2"])
def test_groups_come_and_go(tmp_path: Path, write_group: object) -> None:
    assert callable(write_group)
    if write_group is write_v2:
        write(tmp_path, f"{TOP}/cgroup.controllers", "cpu\n")
    write_group(tmp_path, ".", 5)
    write_group(tmp_path, "a", 5)
    source = open_source(CgroupSource, tmp_path)
    write_group(tmp_path, "b", 5)
    assert "cgroup.cpu_usage/b" not in read(source)  # only looked for now and then
    found = rediscover(source)
    assert found["cgroup.cpu_usage/b"] == 5
    for folder in list((tmp_path / TOP).glob("**/a")):
        shutil.rmtree(folder)
    found = rediscover(source)
    assert "cgroup.cpu_usage/a" not in found
    assert found["cgroup.cpu_usage/b"] == 5


def test_a_group_that_uses_nothing_is_left_out_until_it_does(v1: Path) -> None:
    write_v1(v1, "idle", 0, memory=0)
    source = open_source(CgroupSource, v1)
    assert "cgroup.cpu_usage/idle" not in values(source)
    write_v1(v1, "idle", 12, memory=0)
    assert rediscover(source)["cgroup.cpu_usage/idle"] == 12


def test_the_busiest_groups_come_first_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 3)
    write_v1(tmp_path, ".", 10**12)
    for number in range(8):
        write_v1(tmp_path, f"g{number}", 100 * number)
    source = open_source(CgroupSource, tmp_path)
    assert {name.split("/")[1] for name in values(source)} == {"g5", "g6", "g7"}
    assert source.notes == ["5 more groups are active than the 3 that are read"]


def test_a_file_that_does_not_answer_costs_only_its_own_samples(v1: Path) -> None:
    source = open_source(CgroupSource, v1)
    write(v1, f"{TOP}/memory/slurm/job7/memory.failcnt", "broken\n")
    found = read(source)
    assert found["cgroup.memory_failcnt/slurm/job7"] is None
    assert found["cgroup.cpu_usage/slurm/job7"] == 5_000_000


HOLD_MEMORY = """
import sys
open(sys.argv[1], "w").write("0")
block = bytearray(8 << 20)
print("ready", flush=True)
input()
"""


@pytest.mark.root
def test_a_group_of_this_machine_is_found_while_it_lives() -> None:
    if os.geteuid() != 0:
        pytest.skip("making a control group needs root")
    places = groups.hierarchies(Path("/sys/fs/cgroup"))
    base = places.get("memory") or places.get(groups.UNIFIED)
    if base is None:
        pytest.skip("this machine has no memory controller")
    name = f"reveal-test-{uuid.uuid4().hex[:8]}"
    folder = Path(base, name)
    folder.mkdir()
    source = open_source(CgroupSource, Path("/"))
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD_MEMORY, str(folder / "cgroup.procs")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        usage = rediscover(source)[f"cgroup.memory_usage/{name}"]
        assert usage is not None
        assert usage >= 8 << 20
    finally:
        child.communicate("\n")
        folder.rmdir()
    assert f"cgroup.memory_usage/{name}" not in rediscover(source)
    source.close()


PRESSURE = (
    "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n"
)


def test_version_2_tells_requests_tasks_swap_pressure_and_memory_events(v2: Path) -> None:
    name = "system.slice/a.service"
    folder = f"{TOP}/{name}"
    write(v2, f"{folder}/memory.events", "low 0\nhigh 7\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n")
    write(v2, f"{folder}/memory.swap.current", "8192\n")
    write(v2, f"{folder}/pids.current", "12\n")
    write(v2, f"{folder}/pids.events", "max 5\n")
    write(v2, f"{folder}/memory.pressure", PRESSURE.format(11, 12))
    write(v2, f"{folder}/io.pressure", PRESSURE.format(13, 14))
    found = values(open_source(CgroupSource, v2))
    assert found[f"cgroup.memory_high/{name}"] == 7
    assert found[f"cgroup.memory_failcnt/{name}"] == 3
    assert found[f"cgroup.memory_oom/{name}"] == 2
    assert found[f"cgroup.memory_oom_kill/{name}"] == 1
    source = open_source(CgroupDetailSource, v2, 500)
    detail = values(source)
    expected = {
        "io_reads": 2,
        "io_writes": 2,
        "memory_swap": 8192,
        "pids": 12,
        "pids_max": 5,
        "psi_memory_some": 11,
        "psi_memory_full": 12,
        "psi_io_some": 13,
        "psi_io_full": 14,
    }
    assert {key: detail.get(f"cgroup.{key}/{name}") for key in expected} == expected
    assert not source.columns.unknown


def test_version_1_tells_requests_tasks_and_swap(v1: Path) -> None:
    name = "slurm/job7"
    write(
        v1,
        f"{TOP}/blkio/{name}/blkio.throttle.io_serviced",
        "254:0 Read 5\n254:0 Write 6\n8:0 Read 1\nTotal 12\n",
    )
    write(v1, f"{TOP}/memory/{name}/memory.stat", "swap 1\ntotal_rss 20\ntotal_swap 8192\n")
    write(v1, f"{TOP}/pids/cgroup.procs", "1\n")
    write(v1, f"{TOP}/pids/{name}/pids.current", "12\n")
    write(v1, f"{TOP}/pids/{name}/pids.events", "max 5\n")
    detail = values(open_source(CgroupDetailSource, v1, 500))
    expected = {
        "io_reads": 6,
        "io_writes": 6,
        "io_read_bytes": 101,
        "memory_swap": 8192,
        "pids": 12,
        "pids_max": 5,
    }
    assert {key: detail.get(f"cgroup.{key}/{name}") for key in expected} == expected


def test_files_that_include_the_groups_below_go_before_those_that_do_not(v1: Path) -> None:
    name = "slurm/job7"
    folder = f"{TOP}/blkio/{name}"
    write(
        v1,
        f"{folder}/blkio.throttle.io_service_bytes_recursive",
        "254:0 Read 900\n254:0 Write 80\nTotal 980\n",
    )
    detail = values(open_source(CgroupDetailSource, v1, 500))
    assert detail[f"cgroup.io_read_bytes/{name}"] == 900
    assert detail[f"cgroup.io_write_bytes/{name}"] == 80


@pytest.fixture
def hybrid(v1: Path) -> Path:
    """A host of version 1 with the hierarchy of version 2 that systemd keeps beside it."""
    write(v1, f"{TOP}/unified/cgroup.controllers", "hugetlb\n")
    for name in (".", "slurm/job7", "system.slice/b.service"):
        folder = f"{TOP}/unified/{name}"
        write(v1, f"{folder}/cpu.stat", "usage_usec 777\nuser_usec 1\nsystem_usec 2\n")
        write(v1, f"{folder}/cpu.pressure", PRESSURE.format(21, 22))
        write(v1, f"{folder}/memory.pressure", PRESSURE.format(23, 24))
        write(v1, f"{folder}/io.pressure", PRESSURE.format(25, 26))
    return v1


def test_a_host_of_both_versions_has_each_count_once_and_pressure_too(hybrid: Path) -> None:
    source = open_source(CgroupSource, hybrid)
    found = values(source)
    scale = {c.channel.name: c.scale for c in source.columns.slots if c is not None}
    assert found["cgroup.cpu_usage/slurm/job7"] == 5_000_000  # of version 1, in ns
    assert scale["cgroup.cpu_usage/slurm/job7"] == 1
    assert found["cgroup.cpu_usage/system.slice/b.service"] == 777  # version 1 does not know this group
    assert scale["cgroup.cpu_usage/system.slice/b.service"] == 1000
    assert found["cgroup.memory_usage/slurm/job7"] == 4096
    detail = values(open_source(CgroupDetailSource, hybrid, 500))
    for name in ("slurm/job7", "system.slice/b.service"):
        assert detail[f"cgroup.psi_cpu_some/{name}"] == 21
        assert detail[f"cgroup.psi_memory_full/{name}"] == 24
        assert detail[f"cgroup.psi_io_some/{name}"] == 25
    assert detail["cgroup.memory_rss/slurm/job7"] == 20
    assert detail["cgroup.io_read_bytes/slurm/job7"] == 101


def test_a_controller_that_version_1_left_to_version_2_is_read_there(hybrid: Path) -> None:
    shutil.rmtree(hybrid / TOP / "memory")
    write(hybrid, f"{TOP}/unified/slurm/job7/memory.current", "12288\n")
    found = values(open_source(CgroupSource, hybrid))
    assert found["cgroup.memory_usage/slurm/job7"] == 12288
    assert found["cgroup.cpu_usage/slurm/job7"] == 5_000_000


@pytest.mark.parametrize("kind", [CgroupSource, CgroupDetailSource])
def test_groups_of_jobs_have_names(hybrid: Path, kind: type[groups.GroupSource]) -> None:
    write_v1(hybrid, "slurm/uid_1000/job_123/step_0", 9)
    source = open_source(kind, hybrid)
    assert isinstance(source, groups.GroupSource)
    assert source.jobs == {
        "slurm/uid_1000/job_123/step_0": "slurm job 123 step 0",
        "system.slice/b.service": "service b",
    }


def test_a_group_that_sleeps_gives_its_place_to_a_job_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "MAX_GROUPS", 2)
    monkeypatch.setattr(groups, "IDLE_LOOKS", 3)
    write_v1(tmp_path, ".", 10**12)
    write_v1(tmp_path, "service", 500)
    write_v1(tmp_path, "worker", 500)
    source = open_source(CgroupSource, tmp_path)
    write_v1(tmp_path, "job", 900)
    seen = []
    for look in range(6):
        write_v1(tmp_path, "worker", 600 + look)
        write_v1(tmp_path, "job", 1000 + look)
        found = rediscover(source)
        seen.append({name.partition("/")[2] for name, value in found.items() if value is not None})
    assert seen[0] == {"service", "worker"}
    assert seen[-1] == {"job", "worker"}
    assert source.notes == ["1 more groups are active than the 2 that are read"]  # it has memory still


def test_a_group_that_sleeps_stays_while_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "IDLE_LOOKS", 1)
    write_v1(tmp_path, ".", 10**12)
    write_v1(tmp_path, "service", 500)
    source = open_source(CgroupSource, tmp_path)
    for _ in range(4):
        assert rediscover(source)["cgroup.cpu_usage/service"] == 500


@settings(max_examples=40, deadline=None)
@given(at=st.integers(0, 90), junk=st.binary(max_size=6), cut=st.integers(0, 20))
@pytest.mark.parametrize("form", ["io.stat", "blkio"])
def test_torn_io_is_missing_or_a_count(form: str, at: int, junk: bytes, cut: int) -> None:
    text = (
        b"254:0 rbytes=100 wbytes=7 rios=1 wios=1 dbytes=0 dios=0\n8:0 rbytes=1 wbytes=2 rios=1 wios=1\n"
        if form == "io.stat"
        else b"254:0 Read 100\n254:0 Write 7\n254:0 Total 107\n8:0 Read 1\n8:0 Write 2\nTotal 110\n"
    )

    class File:
        path = Path("io")
        data = text[:at] + junk + text[at + cut :]

        def read(self) -> bytes:
            return self.data

        def close(self) -> None:
            pass

    columns = Columns("cgroup_detail", 500, load_catalog(), load_left_out())
    file = File()
    part: Part
    part = IoStatPart(file, columns, "a") if form == "io.stat" else BlkioPart(file, columns, BYTES, "a")
    part.update()
    assert all(isinstance(value, int) for value in columns.row)
    file.data = text
    assert part.update()
    assert columns.row[:2] == [101, 9]
