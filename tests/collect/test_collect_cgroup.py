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

from reveal_core.collect import groups
from reveal_core.collect.source import Source
from reveal_core.collect.sources.cgroup import CgroupSource
from reveal_core.collect.sources.cgroup_detail import CgroupDetailSource

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
    source.reads_to_discovery = 0
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
