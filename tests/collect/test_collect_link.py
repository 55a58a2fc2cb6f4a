"""Links of cards and bonds on captured hosts, on this one, and as they come, go and fall."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, read, unpack_ttar, values, write
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.sources.link import MAX_DEVICES, OPERSTATES, LinkSource, cards

NET = "sys/class/net"
HEALTHY = {
    "speed": "100000\n",
    "carrier": "1\n",
    "carrier_changes": "2\n",
    "carrier_down_count": "1\n",
    "duplex": "full\n",
    "mtu": "9000\n",
    "operstate": "up\n",
}
READ = {
    "link.speed": 100_000,
    "link.carrier": 1,
    "link.carrier_changes": 2,
    "link.carrier_down_count": 1,
    "link.duplex": 1,
    "link.mtu": 9000,
    "link.operstate": 6,
}


def card(root: Path, name: str, files: dict[str, str] | None = None) -> Path:
    for file, text in (files or HEALTHY).items():
        write(root, f"{NET}/{name}/{file}", text)
    (root / NET / name / "device").mkdir(exist_ok=True)
    return root


@pytest.mark.shared
def test_cards_and_bonds_of_a_captured_host(tmp_path: Path) -> None:
    archive = SHARED / "data/node_exporter/sys.ttar.xz"
    if not archive.exists():
        pytest.skip(f"{archive} is not there")
    unpack_ttar(archive, tmp_path)
    assert cards(tmp_path / NET) == ["bond0", "dmz", "eth0", "int"]
    source = open_source(LinkSource, tmp_path)
    found = values(source)
    assert found["link.speed/bond0"] is None  # the file says -1
    assert found["link.speed/dmz"] == 1000
    assert {name: found[f"{name}/dmz"] for name in ("link.carrier", "link.operstate", "link.duplex")} == {
        "link.carrier": 1,
        "link.operstate": 6,
        "link.duplex": 1,
    }
    assert found["link.carrier_down_count/eth0"] == 1
    assert len(found) == 4 * 7
    assert not source.columns.errors
    assert not source.columns.unknown
    source.close()


def test_a_card_is_read_as_it_says_and_speed_is_in_bits(tmp_path: Path) -> None:
    source = open_source(LinkSource, card(tmp_path, "ens1f0"))
    assert values(source) == {f"{name}/ens1f0": value for name, value in READ.items()}
    speed = next(c for c in source.columns.slots if c is not None and c.channel.metric == "link.speed")
    assert (speed.scale, speed.channel.unit) == (1e6, "bit/s")
    source.close()


def test_virtual_interfaces_are_no_cards(tmp_path: Path) -> None:
    card(tmp_path, "eth0")
    write(tmp_path, "sys/devices/virtual/net/veth1/speed", "10000\n")
    (tmp_path / NET / "veth1").symlink_to("../../devices/virtual/net/veth1")
    write(tmp_path, f"{NET}/bonding_masters", "bond0\n")
    write(tmp_path, "sys/devices/virtual/net/bond0/bonding/slaves", "eth0\n")
    write(tmp_path, "sys/devices/virtual/net/bond0/speed", "100000\n")
    (tmp_path / NET / "bond0").symlink_to("../../devices/virtual/net/bond0")
    assert cards(tmp_path / NET) == ["bond0", "eth0"]


@pytest.mark.parametrize("text", ["-1\n", "4294967295\n", "0\n", "unknown\n", "", "18446744073709551615\n"])
def test_an_unknown_speed_is_missing(tmp_path: Path, text: str) -> None:
    source = open_source(LinkSource, card(tmp_path, "eth0", HEALTHY | {"speed": text}))
    assert values(source)["link.speed/eth0"] is None
    source.close()


def test_a_link_that_falls_and_comes_back_slower(tmp_path: Path) -> None:
    source = open_source(LinkSource, card(tmp_path, "eth0"))
    card(
        tmp_path, "eth0", {"carrier": "0\n", "operstate": "down\n", "carrier_changes": "3\n", "speed": "-1\n"}
    )
    found = read(source)
    assert (found["link.carrier/eth0"], found["link.operstate/eth0"]) == (0, 2)
    assert (found["link.speed/eth0"], found["link.carrier_changes/eth0"]) == (None, 3)
    card(
        tmp_path, "eth0", {"carrier": "1\n", "operstate": "up\n", "carrier_changes": "4\n", "speed": "1000\n"}
    )
    assert read(source)["link.speed/eth0"] == 1000
    source.close()


def test_files_that_cannot_be_read_cost_only_themselves(tmp_path: Path) -> None:
    source = open_source(LinkSource, card(tmp_path, "eth0"))
    source.parts[0].file.close()
    (tmp_path / NET / "eth0/speed").unlink()
    assert read(source) == {f"{name}/eth0": value for name, value in (READ | {"link.speed": None}).items()}
    assert not source.columns.errors  # the kernel refuses to tell the speed of an interface that is down
    source.close()


def test_cards_come_and_go_and_their_number_is_bounded(tmp_path: Path) -> None:
    source = open_source(LinkSource, card(tmp_path, "eth0"), period_ms=5000)
    card(tmp_path, "eth1")
    assert "link.speed/eth1" in read(source)
    shutil.rmtree(tmp_path / NET / "eth0")
    assert not any(name.endswith("/eth0") for name in read(source))
    for number in range(MAX_DEVICES + 3):
        card(tmp_path, f"vf{number:03}", {"mtu": "1500\n"})
    read(source)
    assert len(source.parts) == MAX_DEVICES
    assert source.notes == [f"4 more interfaces are there than the {MAX_DEVICES} that are read"]
    source.close()


def test_without_cards_it_says_so(tmp_path: Path) -> None:
    source = LinkSource(tmp_path, Columns("link", 1000, load_catalog(), load_left_out()))
    assert source.probe() == f"{tmp_path / NET} holds no network card or bond"


def test_this_machine_gives_what_sysfs_says() -> None:
    names = cards(Path("/") / NET)
    if not names:
        pytest.skip("this machine has no network card")
    source = open_source(LinkSource, Path("/"))
    found = values(source)
    for name in names[:MAX_DEVICES]:
        assert found[f"link.mtu/{name}"] == int((Path("/") / NET / name / "mtu").read_text())
        state = (Path("/") / NET / name / "operstate").read_text().strip()
        assert found[f"link.operstate/{name}"] == OPERSTATES[state.encode()]
    source.close()


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(HEALTHY)), st.binary(max_size=80), max_size=7))
def test_garbage_is_missing_and_passes(
    tmp_path_factory: pytest.TempPathFactory, texts: dict[str, bytes]
) -> None:
    root = card(tmp_path_factory.mktemp("garbage"), "eth0")
    source = open_source(LinkSource, root)
    for name, text in texts.items():
        (root / NET / "eth0" / name).write_bytes(text)
    for name, value in read(source).items():
        assert value is None or value >= 0, name
        if name == "link.speed/eth0" and value is not None:
            assert value == int(texts.get("speed", b"100000"))
    card(root, "eth0")
    assert read(source) == {f"{name}/eth0": value for name, value in READ.items()}
    source.close()
