"""Huge pages per node and size, transparent ones, and kernels that have neither."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import open_source, read, values, write
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.hotplug import HotplugSource
from reveal_core.collect.sources.hugepages import HugepagesSource, ModePart

NODE = "sys/devices/system/node"
POOLS = "sys/kernel/mm/hugepages"
THP = "sys/kernel/mm/transparent_hugepage"


def write_pool(root: Path, folder: str, size_kb: int, **counts: int) -> None:
    for name, count in counts.items():
        write(root, f"{folder}/hugepages-{size_kb}kB/{name}_hugepages", f"{count}\n")


@pytest.fixture
def two_nodes(tmp_path: Path) -> Path:
    for node in (0, 1):
        for size in (2048, 1048576):
            write_pool(tmp_path, f"{NODE}/node{node}/hugepages", size, nr=10 * node, free=node, surplus=0)
    write_pool(tmp_path, POOLS, 2048, nr=10, free=1, surplus=0, resv=3, nr_overcommit=4)
    write(tmp_path, f"{THP}/enabled", "always [madvise] never\n")
    write(tmp_path, f"{THP}/khugepaged/pages_collapsed", "12\n")
    write(tmp_path, f"{THP}/khugepaged/full_scans", "7\n")
    return tmp_path


def test_pools_of_each_node_and_size_in_bytes(two_nodes: Path) -> None:
    source = open_source(HugepagesSource, two_nodes, 1000)
    found = values(source)
    scale = {c.channel.name: c.scale for c in source.columns.slots if c is not None}
    for name, size in (
        ("hugepages.nr_hugepages/node1:2048kB", 2 << 20),
        ("hugepages.nr_hugepages/node1:1048576kB", 1 << 30),
    ):
        assert found[name] == 10
        assert scale[name] == size
    assert found["hugepages.free_hugepages/node0:2048kB"] == 0
    assert found["hugepages.resv_hugepages/2048kB"] == 3
    assert found["hugepages.nr_overcommit_hugepages/2048kB"] == 4
    assert "hugepages.nr_hugepages/2048kB" not in found  # the sum of the nodes
    assert found["hugepages.thp_enabled"] == 1
    assert found["hugepages.khugepaged_pages_collapsed"] == 12
    assert found["hugepages.khugepaged_full_scans"] == 7
    assert len(found) == 2 * 2 * 3 + 2 + 3
    assert load_catalog()["hugepages.nr_hugepages"].unit == "B"


def test_a_host_without_nodes_has_its_own_pools(tmp_path: Path) -> None:
    write_pool(tmp_path, POOLS, 2048, nr=10, free=1, surplus=2, resv=3, nr_overcommit=4)
    assert values(open_source(HugepagesSource, tmp_path, 1000)) == {
        "hugepages.nr_hugepages/2048kB": 10,
        "hugepages.free_hugepages/2048kB": 1,
        "hugepages.surplus_hugepages/2048kB": 2,
        "hugepages.resv_hugepages/2048kB": 3,
        "hugepages.nr_overcommit_hugepages/2048kB": 4,
    }


def test_pages_set_aside_and_a_node_that_appears_later(two_nodes: Path) -> None:
    source = open_source(HugepagesSource, two_nodes, 1000)
    write_pool(two_nodes, f"{NODE}/node0/hugepages", 2048, nr=512)
    assert read(source)["hugepages.nr_hugepages/node0:2048kB"] == 512
    write_pool(two_nodes, f"{NODE}/node2/hugepages", 2048, nr=6, free=6, surplus=0)
    assert isinstance(source, HotplugSource)
    source.reads_to_rescan = 0
    assert read(source)["hugepages.nr_hugepages/node2:2048kB"] == 6


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("[always] madvise never", 2),
        ("always [madvise] never", 1),
        ("always madvise [never]", 0),
        ("always madvise never", None),
        ("[sometimes]", None),
        ("", None),
    ],
)
def test_modes_of_transparent_huge_pages(tmp_path: Path, text: str, mode: int | None) -> None:
    write(tmp_path, f"{THP}/enabled", text)
    assert values(open_source(HugepagesSource, tmp_path, 1000)) == {"hugepages.thp_enabled": mode}


@given(data=st.binary(max_size=60))
def test_whatever_a_mode_file_holds_is_a_known_mode_or_missing(data: bytes) -> None:
    columns = Columns("x", 1000, load_catalog(), {})

    class File:
        path = Path("enabled")

        def read(self) -> bytes:
            return data

        def close(self) -> None:
            pass

    ModePart(File(), columns, "hugepages.thp_enabled").update()
    assert columns.row[0] in (0, 1, 2, MISSING)


def test_a_kernel_without_huge_pages_says_so(tmp_path: Path) -> None:
    source = HugepagesSource(tmp_path, Columns("hugepages", 1000, load_catalog(), {}))
    reason = source.probe()
    assert reason is not None
    assert "CONFIG_HUGETLBFS" in reason
