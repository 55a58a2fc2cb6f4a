"""Listen queues of real sockets on loopback, and answers that are none."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from collect_parts import open_source, read, values
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import Columns
from reveal_core.collect.netlink import HEADER, NLMSG_DONE, NLMSG_ERROR
from reveal_core.collect.sources.listen import (
    SOCK_DIAG_BY_FAMILY,
    ListenFile,
    ListenPart,
    ListenSource,
    queues,
)
from reveal_core.lab.namespaces import libc_call, set_link

ROOT = Path("/")
CLONE_NEWNET = 0x40000000
NONE = 4294967295
"""Port number of nobody."""


def new_columns() -> Columns:
    return Columns("listen", 1000, load_catalog(), load_left_out())


@pytest.fixture
def alone() -> Iterator[None]:
    """A network of our own, where that is allowed: others may begin and end to listen on the host's."""
    if os.geteuid() != 0:
        yield
        return
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        libc_call("unshare", CLONE_NEWNET)
        try:
            set_link("lo", True)
            yield
        finally:
            libc_call("setns", before, CLONE_NEWNET)
    finally:
        os.close(before)


@pytest.fixture
def source(alone: None) -> Iterator[ListenSource]:
    reason = ListenSource(ROOT, new_columns()).probe()
    if reason is not None:
        pytest.skip(reason)
    opened = open_source(ListenSource, ROOT)
    assert isinstance(opened, ListenSource)
    yield opened
    opened.close()


@contextlib.contextmanager
def listener(family: socket.AddressFamily, backlog: int) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        try:
            listening.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        except OSError as error:
            pytest.skip(f"loopback has no address of this family: {error}")
        listening.listen(backlog)
        yield listening


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_backlog_that_fills_shows(source: ListenSource, family: socket.AddressFamily) -> None:
    before = values(source)
    with listener(family, 4) as listening, contextlib.ExitStack() as stack:
        assert read(source)["listen.sockets/host"] == (before["listen.sockets/host"] or 0) + 1
        address = listening.getsockname()
        for waiting in range(1, 6):
            stack.enter_context(socket.create_connection(address[:2], timeout=5))
            found = read(source)
            assert found["listen.queue_max/host"] is not None
            assert found["listen.queue_max/host"] >= waiting
            assert found["listen.queue_total/host"] >= waiting  # type: ignore[operator]
            assert found["listen.fullest/host"] >= waiting * 2000  # type: ignore[operator]
        # Five wait where the limit says four: the next one is turned away.
        assert read(source)["listen.fullest/host"] == 10_000
        for _ in range(5):
            stack.enter_context(listening.accept()[0])
        assert read(source)["listen.fullest/host"] == before["listen.fullest/host"]
    assert read(source)["listen.sockets/host"] == before["listen.sockets/host"]


def test_the_scale_makes_a_percentage(source: ListenSource) -> None:
    column = next(c for c in source.columns.slots if c is not None and c.channel.metric == "listen.fullest")
    assert (column.scale, column.channel.unit) == (0.01, "%")


def test_an_unchanged_host_gives_the_same_answer(source: ListenSource) -> None:
    with listener(socket.AF_INET, 1):
        file = source.parts[0].file
        assert file.read() == file.read()


def test_hundreds_of_listeners_come_in_many_pieces(source: ListenSource) -> None:
    before = values(source)["listen.sockets/host"] or 0
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(listener(socket.AF_INET, 1))
        assert read(source)["listen.sockets/host"] == before + 300


def test_a_socket_that_failed_is_replaced(source: ListenSource) -> None:
    file = source.parts[0].file
    assert isinstance(file, ListenFile)
    assert file.socket is not None
    os.close(file.socket.detach())
    assert set(read(source).values()) == {None}
    assert source.columns.errors
    assert read(source)["listen.sockets/host"] is not None


def test_a_captured_tree_has_no_kernel_to_ask(tmp_path: Path) -> None:
    assert str(tmp_path) in str(ListenSource(tmp_path, new_columns()).probe())


def test_lengths_and_shares() -> None:
    part = ListenPart(ListenFile(), new_columns())
    for data, expected in (
        ((), [0, 0, 0, 0]),
        (((0, 0), (0, 128)), [2, 0, 0, 0]),
        (((1, 0),), [1, 1, 1, 10_000]),
        (((2, 7), (3, 4095), (0, 1)), [3, 5, 3, 2500]),
        (((200, 128),), [1, 200, 200, 10_000]),
    ):
        part.parse(data)
        assert part.columns.row == expected


def message(kind: int, body: bytes, sequence: int = 1) -> bytes:
    padded = body + b"\0" * (-len(body) % 4)
    return HEADER.pack(HEADER.size + len(body), kind, 0, sequence, 0) + padded


def answer(length: int, limit: int, attributes: bytes = b"") -> bytes:
    return message(
        SOCK_DIAG_BY_FAMILY, struct.pack("=BBBB48xIIIII", 2, 10, 0, 0, 0, length, limit, 0, 7) + attributes
    )


def test_answers_with_attributes_are_taken_apart() -> None:
    piece = answer(3, 128, b"\x05\x00\x08\x00\x00") + answer(0, NONE)
    assert queues(piece) == ([(3, 128), (0, NONE)], False)
    assert queues(piece + message(NLMSG_DONE, b"\0\0\0\0")) == ([(3, 128), (0, NONE)], True)


def test_an_error_of_the_kernel_is_one() -> None:
    with pytest.raises(FileNotFoundError):
        queues(message(NLMSG_ERROR, struct.pack("=i", -2)))


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)), max_size=5), st.data())
def test_a_torn_answer_is_refused_or_right(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    pieces = [answer(length, limit) for length, limit in pairs]
    whole = b"".join(pieces)
    cut = data.draw(st.integers(0, len(whole)))
    sizes = {sum(len(piece) for piece in pieces[:count]): count for count in range(len(pieces) + 1)}
    if cut in sizes:
        assert queues(whole[:cut]) == (pairs[: sizes[cut]], False)
    else:
        with pytest.raises(ValueError, match="a message"):
            queues(whole[:cut])


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_gives_pairs_of_counts(piece: bytes) -> None:
    try:
        found, _ = queues(piece)
    except (OSError, ValueError):
        return
    assert all(len(pair) == 2 for pair in found)
