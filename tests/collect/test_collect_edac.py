"""Memory errors per controller, module and row of chips."""

from __future__ import annotations

from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, read, unpack_ttar, values, write

from reveal_core.catalog import load_catalog
from reveal_core.collect.columns import Columns
from reveal_core.collect.hotplug import HotplugSource
from reveal_core.collect.sources.edac import EdacSource

TOP = "sys/devices/system/edac/mc"


def write_module(root: Path, place: str, label: str, ce: int, ue: int = 0) -> None:
    write(root, f"{TOP}/{place}/dimm_label", f"{label}\n")
    write(root, f"{TOP}/{place}/dimm_ce_count", f"{ce}\n")
    write(root, f"{TOP}/{place}/dimm_ue_count", f"{ue}\n")


@pytest.fixture
def server(tmp_path: Path) -> Path:
    for mc in (0, 1):
        for file in ("ce_count", "ue_count", "ce_noinfo_count", "ue_noinfo_count"):
            write(tmp_path, f"{TOP}/mc{mc}/{file}", f"{mc}\n")
        write(tmp_path, f"{TOP}/mc{mc}/csrow0/ce_count", "9\n")
        write_module(tmp_path, f"mc{mc}/dimm0", f"CPU_SrcID#{mc}_MC#0_Chan#0_DIMM#0", ce=3)
    write_module(tmp_path, "mc1/dimm10", "", ce=5, ue=1)
    return tmp_path


def test_modules_by_the_label_of_their_slot(server: Path) -> None:
    found = values(open_source(EdacSource, server, 2000))
    assert found["edac.ce_count/mc1"] == 1
    assert found["edac.dimm_ce_count/mc0:CPU_SrcID#0_MC#0_Chan#0_DIMM#0"] == 3
    assert found["edac.dimm_ue_count/mc1:dimm10"] == 1
    assert not [name for name in found if "csrow" in name]  # they say the same as the modules
    assert len(found) == 2 * 4 + 3 * 2


def test_modules_that_share_a_label_are_told_apart(server: Path) -> None:
    write_module(server, "mc0/dimm1", "DIMM", ce=1)
    write_module(server, "mc0/dimm2", "DIMM", ce=2)
    found = values(open_source(EdacSource, server, 2000))
    assert found["edac.dimm_ce_count/mc0:DIMM"] == 1
    assert found["edac.dimm_ce_count/mc0:DIMM@dimm2"] == 2


def test_errors_count_and_a_module_that_cannot_be_read_costs_itself(server: Path) -> None:
    source = open_source(EdacSource, server, 2000)
    write_module(server, "mc1/dimm10", "", ce=6, ue=1)
    write(server, f"{TOP}/mc0/dimm0/dimm_ce_count", "N/A\n")
    found = read(source)
    assert found["edac.dimm_ce_count/mc1:dimm10"] == 6
    assert found["edac.dimm_ce_count/mc0:CPU_SrcID#0_MC#0_Chan#0_DIMM#0"] is None
    assert found["edac.dimm_ue_count/mc0:CPU_SrcID#0_MC#0_Chan#0_DIMM#0"] == 0


def test_a_driver_that_is_loaded_while_the_collector_runs_is_found(server: Path) -> None:
    source = open_source(EdacSource, server, 2000)
    write(server, f"{TOP}/mc2/ce_count", "0\n")
    assert "edac.ce_count/mc2" not in read(source)
    assert isinstance(source, HotplugSource)
    source.reads_to_rescan = 0
    assert read(source)["edac.ce_count/mc2"] == 0


@pytest.mark.shared
def test_a_captured_host_that_has_rows_of_chips_only(tmp_path: Path) -> None:
    archive = SHARED / "data/node_exporter/sys.ttar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    unpack_ttar(archive, tmp_path)
    assert values(open_source(EdacSource, tmp_path, 2000)) == {
        "edac.ce_count/mc0": 1,
        "edac.ue_count/mc0": 5,
        "edac.ce_noinfo_count/mc0": 2,
        "edac.ue_noinfo_count/mc0": 6,
        "edac.csrow_ce_count/mc0:csrow0": 3,
        "edac.csrow_ue_count/mc0:csrow0": 4,
        "edac.csrow_ce_count/mc0:csrow1": 0,
        "edac.csrow_ue_count/mc0:csrow1": 4,
        "edac.csrow_ce_count/mc0:csrow2": 0,
        "edac.csrow_ue_count/mc0:csrow2": 5,
    }


def test_a_host_without_a_driver_is_told_which_to_load(tmp_path: Path) -> None:
    (tmp_path / TOP).mkdir(parents=True)  # the core is there, but found no controller
    reason = EdacSource(tmp_path, Columns("edac", 2000, load_catalog(), {})).probe()
    assert reason is not None
    assert "modprobe" in reason
    assert "\n" not in reason


def test_memory_errors_are_events() -> None:
    assert all(m.event for name, m in load_catalog().items() if name.startswith("edac."))
