"""Counters of network cards' drivers: captured outputs of 17 drivers, and the kernel of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from collect_parts import SHARED, open_source, values
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.sources.ethtool import EthtoolPart, EthtoolSource, load_tables
from reveal_core.collect.sources.ethtool_ioctl import Counters, EthtoolFile, Labels
from reveal_core.collect.sources.link import cards

OUTPUTS = SHARED / "data/ethtool_stats"
NET = Path("/sys/class/net")

# Of each captured output: how many counters it has, how many are read as its table stands, and the kinds that
# are not zero: those were checked against the file by hand.
GOLDEN: dict[str, tuple[int, int, dict[str, int]]] = {
    "be2net": (222, 130, {"rx_errors": 93862, "rx_frame_errors": 7419, "rx_csum_errors": 115460}),
    "bnx2": (47, 13, {"tx_pause": 332}),
    "bnx2x": (189, 23, {"pause_storms": 2, "tx_errors": 2}),
    "bnxt_en": (
        499,
        60,
        {"rx_dropped": 49337, "rx_no_buffer": 655430134, "rx_csum_errors": 428620, "buffer_threshold": 417},
    ),
    "e1000e": (53, 15, {}),
    "ena": (104, 50, {}),
    "fsl_dpaa2_eth": (73, 14, {}),
    "i40e-v2.3.2k": (418, 37, {"rx_dropped": 179160}),
    "i40e": (202, 34, {}),
    "iavf": (76, 3, {}),
    "ice": (602, 36, {}),
    "mlx5_core": (751, 34, {"pci_errors": 34}),
    "r8169": (13, 4, {}),
    "sfc": (152, 21, {"rx_dropped": 27}),
    "tg3": (72, 17, {}),
    "virtio_net": (8, 0, {}),
    "vmxnet3": (71, 19, {}),
}


class FakeCard:
    """A card whose counters a test sets."""

    path = "driver counters of eth0"

    def __init__(self, driver: str, counters: list[tuple[str, int]]) -> None:
        self.driver = driver
        self.failure: OSError | None = None
        self.set(counters)

    def set(self, counters: list[tuple[str, int]]) -> None:
        self.labels = Labels(self.driver, tuple(name for name, _ in counters))
        self.count([value for _, value in counters])

    def count(self, numbers: list[int]) -> None:
        self.raw = struct.pack(f"={len(numbers)}Q", *numbers)

    def read(self) -> Counters:
        if self.failure is not None:
            raise self.failure
        return self.labels, self.raw

    def close(self) -> None:
        pass


def new_columns() -> Columns:
    return Columns("ethtool", 1000, load_catalog(), load_left_out())


def new_part(card: FakeCard) -> EthtoolPart:
    part = EthtoolPart(card, new_columns(), "eth0")
    assert part.update()
    return part


def found(part: EthtoolPart) -> dict[str, int | None]:
    columns = part.columns
    return {
        column.channel.name.removeprefix("nic."): None if columns.row[slot] == MISSING else columns.row[slot]
        for slot, column in enumerate(columns.slots)
        if column is not None and slot not in columns.gone
    }


def captured(text: str) -> list[tuple[str, int]]:
    """Return names and values of an output of ``ethtool -S``."""
    pairs = (line.rpartition(":") for line in text.splitlines() if ": " in line)
    return [(name.strip(), int(value)) for name, _, value in pairs]


@pytest.mark.shared
@pytest.mark.parametrize("output", GOLDEN)
def test_every_captured_driver_is_read_as_it_says(output: str) -> None:
    file = OUTPUTS / f"{output}.txt"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    counters = captured(file.read_text())
    part = new_part(FakeCard(output.partition("-")[0], counters))
    count, read, nonzero = GOLDEN[output]
    assert (len(counters), part.read_names) == (count, read)
    assert {name.removesuffix("/eth0"): value for name, value in found(part).items() if value} == nonzero
    assert part.note == f"eth0 ({output.partition('-')[0]}): {read} of {count} counters are read"
    assert not part.columns.unknown
    assert not part.columns.errors


@pytest.mark.shared
def test_no_captured_driver_was_forgotten() -> None:
    if not OUTPUTS.exists():
        pytest.skip(f"{OUTPUTS} is not there")
    assert {file.stem for file in OUTPUTS.glob("*.txt")} == set(GOLDEN)


@pytest.mark.shared
def test_a_driver_that_nobody_knows_is_read_by_the_usual_names() -> None:
    file = SHARED / "data/node_exporter/ethtool/eth0/statistics"
    if not file.exists():
        pytest.skip(f"{file} is not there")
    part = new_part(FakeCard("brand_new", captured(file.read_text())))
    assert found(part) == {"rx_missed/eth0": 401, "rx_frame_errors/eth0": 0, "tx_errors/eth0": 0}
    assert part.note.endswith("of 16 counters are read, by their usual names, for the driver is not known")


def test_every_kind_is_in_the_catalogue_and_every_metric_is_made_by_a_driver() -> None:
    kinds = {kind for table in load_tables().values() for kind in table}
    catalog = {name.removeprefix("nic.") for name in load_catalog() if name.startswith("nic.")}
    assert kinds == catalog


@pytest.mark.parametrize("driver", load_tables())
def test_no_counter_of_a_driver_is_read_twice(driver: str) -> None:
    table = load_tables()[driver]
    samples = [
        wanted.pattern.replace("\\d+", "3").replace("(?P<priority>3)", "3").replace("\\", "")
        for counters in table.values()
        for alternatives in counters
        for wanted in alternatives
    ]
    assert len(samples) == len(set(samples))
    for name in samples:
        hits = [
            (kind, wanted.pattern)
            for kind, counters in table.items()
            for alternatives in counters
            for wanted in alternatives
            if wanted.fullmatch(name)
        ]
        assert len(hits) == 1, (name, hits)


def test_priorities_are_instances_and_queues_are_added_up() -> None:
    counters = [(f"rx_prio{number}_pause", 10 + number) for number in range(8)]
    counters += [("rx_prio3_pause_duration", 1234), ("rx_prio3_buf_discard", 5), ("rx_prio3_cong_discard", 2)]
    counters += [("rx_err_lane_0_phy", 1), ("rx_err_lane_1_phy", 2), ("rx0_packets", 99)]
    result = found(new_part(FakeCard("mlx5_core", counters)))
    assert result == {
        **{f"rx_pfc/eth0:prio{number}": 10 + number for number in range(8)},
        "rx_pfc_duration/eth0:prio3": 1234,
        "rx_priority_dropped/eth0:prio3": 7,
        "rx_lane_errors/eth0": 3,
    }


def test_of_two_names_for_one_thing_the_first_is_read() -> None:
    both = [("rx_prio1_discards", 4), ("rx_prio1_buf_discard", 4), ("rx_out_of_buffer", 1)]
    assert found(new_part(FakeCard("mlx5_core", both))) == {
        "rx_priority_dropped/eth0:prio1": 4,
        "rx_no_buffer/eth0": 1,
    }
    rings = [("[0]: rx_discards", 3), ("[11]: rx_discards", 4)]
    assert found(new_part(FakeCard("bnxt_en", rings))) == {"rx_no_buffer/eth0": 7}
    assert found(new_part(FakeCard("bnxt_en", [*rings, ("rx_total_ring_discards", 9)]))) == {
        "rx_no_buffer/eth0": 9
    }


def test_queues_that_come_and_go_are_laid_out_anew() -> None:
    card = FakeCard("ena", [("queue_0_tx_queue_stop", 5)])
    part = new_part(card)
    card.set([("tx_timeout", 1), ("queue_0_tx_queue_stop", 5), ("queue_1_tx_queue_stop", 6)])
    assert part.update()
    assert found(part) == {"tx_queue_full/eth0": 11, "tx_timeout/eth0": 1}
    card.set([("queue_0_tx_queue_stop", 7)])
    assert part.update()
    assert found(part) == {"tx_queue_full/eth0": 7}


@pytest.mark.parametrize("value", [2**64 - 1, 2**63])
def test_what_is_no_count_is_missing(value: int) -> None:
    part = new_part(FakeCard("r8169", [("rx_missed", value), ("tx_errors", 2)]))
    assert found(part) == {"rx_missed/eth0": None, "tx_errors/eth0": 2}


def test_a_card_that_fails_is_missing_and_comes_back() -> None:
    card = FakeCard("r8169", [("rx_missed", 1)])
    part = new_part(card)
    card.failure = OSError(errno.ENODEV, os.strerror(errno.ENODEV))
    assert not part.update()
    assert found(part) == {"rx_missed/eth0": None}
    assert part.columns.errors == {"driver counters of eth0: No such device": 1}
    card.failure = None
    assert part.update()
    assert found(part) == {"rx_missed/eth0": 1}


@given(st.binary(max_size=64))
def test_values_that_do_not_fit_the_names_are_missing(raw: bytes) -> None:
    card = FakeCard("r8169", [("rx_missed", 1), ("tx_errors", 2)])
    part = new_part(card)
    card.raw = raw
    part.update()
    pair = struct.unpack("=2Q", raw) if len(raw) == 16 else (None, None)
    right = [value if value is not None and value < 2**63 - 1 else None for value in pair]
    assert found(part) == {"rx_missed/eth0": right[0], "tx_errors/eth0": right[1]}


@settings(max_examples=50)
@given(
    st.sampled_from(sorted(load_tables())),
    st.lists(st.tuples(st.text(max_size=32), st.integers(0, 2**64 - 1))),
)
def test_any_names_are_read_or_passed_over(driver: str, counters: list[tuple[str, int]]) -> None:
    part = new_part(FakeCard(driver, counters))
    assert all(value is None or value >= 0 for value in found(part).values())


def test_a_captured_tree_has_no_kernel_to_ask(tmp_path: Path) -> None:
    assert str(tmp_path) in str(EthtoolSource(tmp_path, new_columns()).probe())


def test_the_kernel_tells_of_the_cards_of_this_machine() -> None:
    names = [name for name in cards(NET) if (NET / name / "device/driver").exists()]
    if not names:
        pytest.skip("this machine has no network card with a driver")
    source = open_source(EthtoolSource, Path("/"))
    assert not source.columns.errors
    assert len(source.notes) >= len(names)
    for name in names:
        driver = os.path.basename(os.readlink(NET / name / "device/driver"))
        labels, raw = EthtoolFile(name).read()
        assert labels.driver == driver
        assert len(raw) == 8 * len(labels.names)
        assert all(labels.names)
        if driver in load_tables() and driver != "virtio_net":
            assert any(channel.endswith(f"/{name}") for channel in values(source))
    source.close()


def test_loopback_has_no_counters() -> None:
    labels, raw = EthtoolFile("lo").read()
    assert (labels.driver, labels.names, raw) == ("", (), b"")


def test_an_interface_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OSError, match="device") as caught:
        EthtoolFile("no-such-card").read()
    assert caught.value.errno == errno.ENODEV


@contextlib.contextmanager
def veth() -> Iterator[tuple[str, str]]:
    pyroute2 = pytest.importorskip("pyroute2")
    one, other = f"rvt{os.getpid() % 100000}a", f"rvt{os.getpid() % 100000}b"
    with pyroute2.IPRoute() as network:
        try:
            network.link("add", ifname=one, kind="veth", peer=other)
        except pyroute2.NetlinkError as error:
            pytest.skip(f"this kernel makes no veth pair: {error}")
        try:
            yield one, other
        finally:
            network.link("del", ifname=one)


@pytest.mark.root
def test_values_lie_beside_their_names() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make a pair of interfaces")
    with veth() as (one, other):
        file = EthtoolFile(one)
        labels, raw = file.read()
        counters = dict(zip(labels.names, memoryview(raw).cast("Q"), strict=True))
        assert labels.driver == "veth"
        assert counters["peer_ifindex"] == socket.if_nametoindex(other)
        assert file.read()[0] is labels
    with pytest.raises(OSError, match="device"):
        file.read()
    file.close()


@pytest.mark.root
def test_a_driver_whose_queues_change_is_asked_anew() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make a pair of interfaces")
    with veth() as (one, other):
        short, long = EthtoolFile(one), EthtoolFile("lo")
        first = short.read()[0]
        long.labels = Labels(
            "veth", (*first.names, "another")
        )  # what a driver with one queue more would have said
        long.interface = other
        labels, raw = long.read()
        assert labels.names == first.names
        assert len(raw) == 8 * len(first.names)
        short.close()
        long.close()
