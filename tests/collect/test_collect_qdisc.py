"""Queueing disciplines: built and damaged answers, interfaces that come and go."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from collect_parts import open_source, read
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect import netlink
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.netlink import HEADER, NLMSG_DONE, NLMSG_ERROR
from reveal_core.collect.sources import qdisc
from reveal_core.collect.sources.qdisc import (
    RTM_NEWQDISC,
    TC_H_ROOT,
    QdiscFile,
    QdiscPart,
    QdiscSource,
    Root,
    Row,
    roots,
)

ROOT = Path("/")
BELOW_MQ, CLSACT = 0x80020004, 0xFFFFFFF1
"""Parents that are no root."""
NEWER, OLDER = 7, 3
"""``TCA_STATS2`` and ``TCA_STATS``."""
HEAD = struct.pack("=BxxxiIII", 0, 2, 0, TC_H_ROOT, 2)
U32 = st.integers(0, 2**32 - 1)


def attribute(kind: int, body: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(body), kind) + body + b"\0" * (-len(body) % 4)


def message(kind: int, body: bytes, sequence: int = 1) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, 2, sequence, 0) + body


def statistics(form: int, sent: int, counts: tuple[int, ...]) -> bytes:
    """Return statistics as a kernel writes them; the counts are in the order of `qdisc.METRICS`."""
    drops, overlimits, requeues, size, waiting = counts
    if form == OLDER:
        return attribute(OLDER, struct.pack("=QIIIIIII", 9, sent, drops, overlimits, 0, 0, waiting, size))
    basic = attribute(1, struct.pack("=QIxxxx", 9, sent))
    queue = attribute(3, struct.pack("=IIIII", waiting, size, drops, requeues, overlimits))
    return attribute(NEWER, basic + queue)


def discipline(
    index: int,
    counts: tuple[int, ...],
    sent: int = 1,
    parent: int = TC_H_ROOT,
    kind: bytes = b"fq_codel",
    forms: tuple[int, ...] = (NEWER, OLDER),
) -> bytes:
    body = struct.pack("=BxxxiIII", 0, index, 0x80010000, parent, 2)
    body += attribute(1, kind + b"\0") + attribute(2, b"\3\0\0\0\1") + attribute(12, b"\0")
    for form in forms:
        body += statistics(form, sent, counts)
    return message(RTM_NEWQDISC, body)


DISCIPLINES = st.fixed_dictionaries(
    {
        "index": st.integers(1, 2**31 - 1),
        "counts": st.tuples(U32, U32, U32, U32, U32),
        "sent": U32,
        "parent": st.sampled_from([TC_H_ROOT, TC_H_ROOT, BELOW_MQ, CLSACT]),
        "kind": st.sampled_from([b"tbf", b"mq", b"noqueue", b"noqueue2", b""]),
        "forms": st.sampled_from([(NEWER, OLDER), (NEWER,), (OLDER,), ()]),
    }
)


def expected(given: dict) -> list[Root]:
    if given["parent"] != TC_H_ROOT or given["kind"] == b"noqueue" or not given["forms"]:
        return []
    counts = given["counts"]
    if given["forms"] == (OLDER,):
        counts = (*counts[:2], MISSING, *counts[3:])
    used = bool(given["sent"]) or any(count not in (0, MISSING) for count in counts)
    return [(given["index"], used, counts)]


@given(st.lists(DISCIPLINES, max_size=4), st.data())
def test_an_answer_is_taken_apart_and_a_torn_one_refused(built: list[dict], data: st.DataObject) -> None:
    pieces = [discipline(**fields) for fields in built]
    whole = b"".join(pieces)
    told = [root for fields in built for root in expected(fields)]
    assert roots(whole) == (told, False)
    assert roots(whole + message(NLMSG_DONE, b"\0\0\0\0")) == (told, True)
    cut = data.draw(st.integers(0, len(whole)))
    if cut in {sum(len(piece) for piece in pieces[:count]) for count in range(len(pieces) + 1)}:
        assert not roots(whole[:cut])[1]
    else:
        with pytest.raises(ValueError, match="a message"):
            roots(whole[:cut])


def refused_or_rows_of_counts(piece: bytes) -> None:
    try:
        found, _ = roots(piece)
    except (OSError, ValueError):
        return
    for index, used, counts in found:
        assert 0 <= index < 2**32
        assert isinstance(used, bool)
        assert len(counts) == 5
        assert all(0 <= count < 2**32 or count == MISSING for count in counts)


@given(st.lists(DISCIPLINES, min_size=1, max_size=3), st.data())
def test_damage_is_refused_or_gives_counts(built: list[dict], data: st.DataObject) -> None:
    piece = bytearray(b"".join(discipline(**fields) for fields in built))
    for at in data.draw(st.lists(st.integers(0, len(piece) - 1), min_size=1, max_size=6)):
        piece[at] = data.draw(st.sampled_from([0, 1, 3, 4, 5, 7, 0x40, 0x80, 0xFF]))
    refused_or_rows_of_counts(bytes(piece))


@given(st.binary(max_size=120))
def test_attributes_of_garbage_are_refused_or_give_counts(rest: bytes) -> None:
    refused_or_rows_of_counts(message(RTM_NEWQDISC, HEAD + rest))
    refused_or_rows_of_counts(rest)


@pytest.mark.parametrize(
    "rest",
    [
        attribute(NEWER, attribute(3, b"\0" * 19)),
        attribute(NEWER, attribute(3, b"\0" * 20) + attribute(1, b"\0" * 11)),
        attribute(OLDER, b"\0" * 35),
        attribute(NEWER, b"\0\0\0\0"),
        struct.pack("=HH", 3, 1),
        struct.pack("=HH", 8, 1),
        b"\0\0",
    ],
)
def test_attributes_that_are_too_short_or_too_long_are_refused(rest: bytes) -> None:
    with pytest.raises(ValueError, match="an attribute"):
        roots(message(RTM_NEWQDISC, HEAD + rest))


def test_an_error_of_the_kernel_is_one() -> None:
    with pytest.raises(PermissionError):
        roots(message(NLMSG_ERROR, struct.pack("=i", -1)))


class FakeSocket:
    """The kernel's side of a netlink socket: gives its pieces, the last again and again."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)
        self.closed = False

    def send(self, data: bytes) -> None:
        assert data[4:6] == struct.pack("=H", qdisc.RTM_GETQDISC)

    def recv(self, size: int) -> bytes:
        return self.pieces.pop(0) if len(self.pieces) > 1 else self.pieces[0]

    def close(self) -> None:
        self.closed = True


DONE = message(NLMSG_DONE, b"\0\0\0\0")
NAMES = {1: "lo", 2: "eth0", 3: "eth1"}


def name_of(index: int) -> str:
    if index not in NAMES:
        raise OSError(6, os.strerror(6))
    return NAMES[index]


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Row, ...]]:
    """Return how to read pieces of a kernel whose interfaces are `NAMES`."""
    monkeypatch.setattr(qdisc.socket, "if_indextoname", name_of)
    file = QdiscFile()

    def read_pieces(*pieces: bytes) -> tuple[Row, ...]:
        file.netlink.socket = FakeSocket(*pieces)  # type: ignore[assignment]
        return file.read()

    return read_pieces


def test_loopback_and_interfaces_that_are_gone_are_left_out(ask: Callable[..., tuple[Row, ...]]) -> None:
    counts = (1, 2, 3, 4, 5)
    answer = [discipline(index, counts) for index in (1, 2, 9, 3)]
    assert ask(*answer, DONE) == (("eth0", True, counts), ("eth1", True, counts))


def test_another_name_is_seen_after_some_reads(
    ask: Callable[..., tuple[Row, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = discipline(2, (0, 0, 0, 0, 0)) + DONE
    assert ask(answer)[0][0] == "eth0"
    monkeypatch.setitem(NAMES, 2, "ens3")
    assert "ens3" in [ask(answer)[0][0] for _ in range(qdisc.NAMES_FOR)]


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(netlink, "MAX_PIECES", 20)
    endless = FakeSocket(discipline(2, (0, 0, 0, 0, 0)))
    file = QdiscFile()
    file.netlink.socket = endless  # type: ignore[assignment]
    with pytest.raises(ValueError, match="without an end"):
        file.read()
    assert endless.closed
    assert file.netlink.socket is None


def rows(columns: Columns) -> dict[str, int]:
    return {
        column.channel.name: columns.row[slot]
        for slot, column in enumerate(columns.slots)
        if column is not None and slot not in columns.gone
    }


def new_columns() -> Columns:
    return Columns("qdisc", 1000, load_catalog(), load_left_out())


def test_interfaces_come_and_go() -> None:
    columns = new_columns()
    part = QdiscPart(QdiscFile(), columns)
    idle, busy = (0, 0, 0, 0, 0), (1, 2, 3, 4000, 5)
    assert part.accept((("eth0", False, idle), ("eth1", True, busy)), None)
    assert rows(columns) == {
        "qdisc.drops/eth1": 1,
        "qdisc.overlimits/eth1": 2,
        "qdisc.requeues/eth1": 3,
        "qdisc.backlog_bytes/eth1": 4000,
        "qdisc.backlog_packets/eth1": 5,
    }
    assert part.accept((("eth0", True, idle), ("eth1", False, idle)), None)
    assert len(rows(columns)) == 10
    assert set(rows(columns).values()) == {0}
    assert not part.accept(None, ValueError("a message without its header"))
    assert set(rows(columns).values()) == {MISSING}
    assert columns.failures == 1
    assert part.accept((("eth0", True, busy),), None)
    assert set(rows(columns)) == {f"qdisc.{metric}/eth0" for metric in qdisc.METRICS}
    assert len(columns.gone) == 5
    assert part.accept((), None)
    assert rows(columns) == {}
    assert not columns.unknown


def test_the_counters_have_32_bits() -> None:
    counters = {f"qdisc.{metric}" for metric in ("drops", "overlimits", "requeues")}
    catalog = load_catalog()
    assert {catalog[name].bits for name in counters} == {32}


def test_a_captured_tree_has_no_kernel_to_ask(tmp_path: Path) -> None:
    assert str(tmp_path) in str(QdiscSource(tmp_path, new_columns()).probe())


def test_this_machine_answers_and_a_socket_that_failed_is_replaced() -> None:
    reason = QdiscSource(ROOT, new_columns()).probe()
    if reason is not None:
        pytest.skip(reason)
    source = open_source(QdiscSource, ROOT)
    file = source.parts[0].file
    assert isinstance(file, QdiscFile)
    assert not source.columns.failures
    assert file.netlink.socket is not None
    os.close(file.netlink.socket.detach())
    assert set(read(source).values()) <= {None}
    assert source.columns.failures == 1
    assert None not in read(source).values()
    source.close()
