"""InfiniBand and RoCE ports on captured hosts, and when an adapter fails."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, read, unpack_ttar, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.lanes import Lanes
from reveal_core.collect.source import Source
from reveal_core.collect.sources.infiniband import (
    FAST,
    MAX_PORTS,
    WIDTHS,
    InfinibandDetailSource,
    InfinibandSource,
)
from reveal_core.collect.valuefiles import ValueFiles, count

KINDS = (InfinibandSource, InfinibandDetailSource)
PORT = "sys/class/infiniband/mlx5_0/ports/1"


def port_tree(root: Path, files: dict[str, str], port: str = PORT) -> Path:
    for name, text in files.items():
        write(root, f"{port}/{name}", text)
    return root


def small_port(root: Path, port: str = PORT) -> Path:
    files = {
        "state": "4: ACTIVE\n",
        "phys_state": "5: LinkUp\n",
        "rate": "400 Gb/sec (4X NDR)\n",
        "link_layer": "InfiniBand\n",
        "counters/port_xmit_data": "1000\n",
        "counters/port_rcv_data": "2000\n",
        "counters/symbol_error": "3\n",
        "hw_counters/out_of_sequence": "4\n",
        "hw_counters/lifespan": "12\n",
    }
    return port_tree(root, files, port)


@pytest.fixture(scope="module")
def h100(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = SHARED / "data/gpud_samples/infiniband_h100_class.tsv"
    if not table.exists():
        pytest.skip(f"{table} is not there")
    root = tmp_path_factory.mktemp("h100")
    for line in table.read_text().splitlines():
        path, _, value = line.partition("\t")
        write(root, f"sys/class/infiniband/{path}", f"{value}\n")
    return root


@pytest.mark.shared
def test_a_host_with_nine_adapters_is_read_as_it_says(h100: Path) -> None:
    fast, detail = (open_source(kind, h100) for kind in KINDS)
    found = values(fast) | values(detail)
    table = (SHARED / "data/gpud_samples/infiniband_h100_class.tsv").read_text().splitlines()
    expected: dict[str, int | None] = {}
    for path, _, text in (line.partition("\t") for line in table):
        adapter, folder, name = path.partition("/")[0], *path.split("/")[-2:]
        if folder in ("counters", "hw_counters") and name != "lifespan":
            expected[f"ib.{name}/{adapter}:1"] = int(text)
    assert len(expected) == 9 * 46
    assert {name: found[name] for name in expected} == expected
    assert found["ib.rate/mlx5_4:1"] == 400_000_000_000
    assert found["ib.rate/mlx5_bond_0:1"] == 200_000_000_000
    assert (found["ib.state/mlx5_9:1"], found["ib.phys_state/mlx5_9:1"]) == (4, 5)
    assert len(found) == 9 * 49
    assert len(fast.parts) == len(detail.parts) == 9
    assert not values(fast).keys() & values(detail).keys()
    for source in (fast, detail):
        assert not source.columns.errors
        assert not source.columns.unknown
        source.close()


@pytest.mark.shared
def test_counters_that_stand_at_their_largest_value_are_told_of(h100: Path) -> None:
    source = open_source(InfinibandDetailSource, h100)
    assert any(
        note.startswith("mlx5_1:1: excessive_buffer_overrun_errors, link_downed stand at their largest value")
        for note in source.notes
    )
    assert len(source.notes) == 9
    source.close()


@pytest.mark.shared
def test_adapters_of_other_makers_are_read(tmp_path: Path) -> None:
    archive = SHARED / "data/node_exporter/sys.ttar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    unpack_ttar(archive, tmp_path)
    fast, detail = (open_source(kind, tmp_path) for kind in KINDS)
    found = values(fast) | values(detail)
    # "N/A (no PMA)" is no number, whatever the counter.
    assert {value for name, value in found.items() if name.endswith("i40iw0:1") and ".port_" in name} == {
        None
    }
    assert (found["ib.state/i40iw0:1"], found["ib.rate/i40iw0:1"]) == (4, 10_000_000_000)
    assert found["ib.port_rcv_packets/mlx4_0:1"] == 6825908347
    assert found["ib.port_xmit_data_64/mlx4_0:2"] == 3733440
    assert found["ib.port_xmit_discards/mlx4_0:1"] == 5
    # 4294967295 ticks of waiting: the counter stands and says nothing of now.
    assert found["ib.port_xmit_wait/mlx4_0:1"] is None
    assert fast.notes == [
        "mlx4_0:1: port_xmit_wait stand at their largest value and count no more: perfquery -R clears them"
    ]
    assert not detail.columns.unknown | fast.columns.unknown
    for source in (fast, detail):
        source.close()


@pytest.mark.shared
def test_the_catalogue_has_every_port_counter_of_perfquery() -> None:
    folder = SHARED / "data/infiniband_perfquery/perfquery"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    known = {
        name.removeprefix("ib.").replace("_", "").lower() for name in load_catalog() if name.startswith("ib.")
    }
    meant = {"pkts": "packets", "counter": ""}
    for file in folder.iterdir():
        for line in file.read_text().splitlines():
            name, colon, _ = line.partition(":")
            if not colon or "Select" in name or name.startswith("#") or name == "QP1Dropped":
                continue
            name = name.lower()
            for old, new in meant.items():
                name = name.replace(old, new)
            assert {name, name.removeprefix("port"), f"port{name}"} & known, line


def test_data_are_words_of_four_bytes_and_traffic_is_read_often() -> None:
    catalog = load_catalog()
    for name in ("ib.port_xmit_data", "ib.port_rcv_data"):
        assert (catalog[name].physical_unit, catalog[name].rate_scale) == ("B/s", 4)
    assert all(f"ib.{name}" in catalog for name in FAST)
    assert all(f"ib.{name}" in catalog for name in WIDTHS)


def test_rates_and_states_in_every_form(tmp_path: Path) -> None:
    root = small_port(tmp_path)
    source = open_source(InfinibandDetailSource, root)
    forms = {
        "2.5 Gb/sec (1X SDR)\n": 2_500_000_000,
        "100 Gb/sec (4X EDR)\n": 100_000_000_000,
        "1600 Gb/sec (8X XDR)\n": 1_600_000_000_000,
        "400 Mb/sec\n": None,
        "-1 Gb/sec\n": None,
        "2.55 Gb/sec\n": None,
        "\n": None,
        "": None,
    }
    for text, expected in forms.items():
        write(root, f"{PORT}/rate", text)
        assert read(source)["ib.rate/mlx5_0:1"] == expected, text
    for text, state in {"1: DOWN\n": 1, "garbage\n": None, "4\n": 4, ": ACTIVE\n": None}.items():
        write(root, f"{PORT}/state", text)
        assert read(source)["ib.state/mlx5_0:1"] == state, text
    source.close()


def test_one_unreadable_file_costs_only_itself(tmp_path: Path) -> None:
    root = small_port(tmp_path)
    source = open_source(InfinibandSource, root)
    before = values(source)
    source.parts[0].file.close()
    (root / PORT / "counters/port_xmit_data").unlink()
    assert read(source) == before | {"ib.port_xmit_data/mlx5_0:1": None}
    write(root, f"{PORT}/counters/port_xmit_data", "1001\n")
    assert read(source) == before | {"ib.port_xmit_data/mlx5_0:1": 1001}
    source.close()


def test_a_bad_port_costs_the_others_nothing_and_comes_back(tmp_path: Path) -> None:
    root = small_port(small_port(tmp_path), "sys/class/infiniband/mlx5_1/ports/1")
    source = open_source(InfinibandSource, root)
    before = values(source)
    source.parts[0].file.close()
    hidden = root / "hidden"
    (root / PORT).rename(hidden)
    without = read(source)
    assert {name: value for name, value in without.items() if name.endswith("mlx5_1:1")} == {
        name: value for name, value in before.items() if name.endswith("mlx5_1:1")
    }
    assert {value for name, value in without.items() if name.endswith("mlx5_0:1")} == {None}
    assert source.columns.errors
    hidden.rename(root / PORT)
    assert read(source) == before
    source.close()


def test_adapters_come_and_go(tmp_path: Path) -> None:
    root = small_port(tmp_path)
    source = open_source(InfinibandDetailSource, root, period_ms=5000)
    assert set(values(source)) == {
        f"ib.{name}/mlx5_0:1" for name in ("state", "phys_state", "rate", "symbol_error")
    }
    small_port(root, "sys/class/infiniband/bnxt_re0/ports/2")
    assert "ib.state/bnxt_re0:2" in read(source)
    shutil.rmtree(root / "sys/class/infiniband/mlx5_0")
    assert {name.partition("/")[2] for name in read(source)} == {"bnxt_re0:2"}
    source.close()


def test_the_number_of_ports_is_bounded_and_told(tmp_path: Path) -> None:
    for number in range(MAX_PORTS + 2):
        write(tmp_path, f"sys/class/infiniband/mlx5_{number}/ports/1/counters/port_rcv_data", "1\n")
    source = open_source(InfinibandSource, tmp_path)
    assert len(source.parts) == MAX_PORTS
    assert source.notes == [f"2 more ports are there than the {MAX_PORTS} that are read"]
    source.close()


def test_files_that_nobody_knows_are_told_and_not_read(tmp_path: Path) -> None:
    root = port_tree(small_port(tmp_path), {"hw_counters/brand_new": "1\n"})
    source = open_source(InfinibandDetailSource, root)
    assert source.columns.unknown == {"ib.brand_new"}
    assert not any("brand_new" in name for name in source.parts[0].file.names)  # type: ignore[attr-defined]
    source.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_host_without_adapters_says_what_would_help(kind: type[Source], tmp_path: Path) -> None:
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    reason = kind(tmp_path, Columns(kind.name, 100, load_catalog(), load_left_out())).probe()
    assert reason is not None
    assert "modprobe" in reason
    assert str(tmp_path) in reason


def test_no_file_stays_open_after_closing(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    source = open_source(InfinibandSource, small_port(tmp_path))
    assert len(os.listdir("/proc/self/fd")) > before
    source.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_read_that_hangs_closes_its_files_when_it_comes_back(tmp_path: Path) -> None:
    write(tmp_path, "value", "1\n")
    files = ValueFiles(tmp_path, ["value"])
    files.read()
    before = len(os.listdir("/proc/self/fd"))
    with files._reading:  # as a reader in another thread holds it
        files.close()
        assert len(os.listdir("/proc/self/fd")) == before
    assert files.read() == (b"1\n",)
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_firmware_that_hangs_costs_only_its_own_port(tmp_path: Path) -> None:
    bad, good = (f"sys/class/infiniband/mlx5_{number}/ports/1" for number in (0, 1))
    root = small_port(small_port(tmp_path, bad), good)
    stuck = root / bad / "counters/port_rcv_data"
    stuck.unlink()
    os.mkfifo(stuck)  # opening it waits until somebody writes, as a read of a dead adapter would
    source = InfinibandSource(root, Columns("infiniband", 100, load_catalog(), load_left_out()))
    source.open()
    source.refresh()
    lanes = Lanes(source.name, 0.1)
    try:
        for number in range(100):
            lanes.ask(source.parts, number)
            time.sleep(0.05)
            lanes.collect(number)
            lanes.close_round(number)
            if values(source)["ib.port_rcv_data/mlx5_1:1"] == 2000:
                break
        found = values(source)
        assert found["ib.port_rcv_data/mlx5_1:1"] == 2000
        assert {value for name, value in found.items() if name.endswith("mlx5_0:1")} == {None}
        assert lanes.hanging() == [str(root / bad)]
        source.close()  # does not wait for it
    finally:
        lanes.close()
        # Lets the thread that hangs go on, and waits for nobody should none hang.
        pipe = os.open(stuck, os.O_RDWR | os.O_NONBLOCK)
        os.write(pipe, b"5\n")
        os.close(pipe)


@given(st.binary(max_size=30) | st.integers(0, 2**70).map(lambda number: b"%d\n" % number))
def test_a_count_is_right_or_missing(text: bytes) -> None:
    digits = text.strip()
    right = digits.isdigit() and int(digits) < 2**63 - 1
    assert count(text) == (int(digits) if right else MISSING)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["counters/port_rcv_data", "hw_counters/out_of_sequence", "state", "rate"]),
        st.binary(max_size=80),
        max_size=4,
    )
)
def test_garbage_is_missing_and_passes(
    tmp_path_factory: pytest.TempPathFactory, texts: dict[str, bytes]
) -> None:
    root = small_port(tmp_path_factory.mktemp("garbage"))
    sources = [open_source(kind, root) for kind in KINDS]
    before = [values(source) for source in sources]
    for name, text in texts.items():
        (root / PORT / name).write_bytes(text)
    for source in sources:
        for name, value in read(source).items():
            assert value is None or value >= 0, name
    small_port(root)
    assert [read(source) for source in sources] == before
    for source in sources:
        source.close()
