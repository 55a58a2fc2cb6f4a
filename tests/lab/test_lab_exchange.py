"""The gradient exchange: right sums, one state on both ranks, and a life after the connection breaks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.lab.exchange import Exchange, LinkLost
from reveal_core.lab.lossfilter import loss_program
from reveal_core.lab.model import FEATURES, PARAMETERS, ROWS, Network


def together(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """Run both ranks' sides at once and return what each returned or raised."""
    results: list[Any] = [None, None]

    def run(index: int, work: Callable[[], Any]) -> None:
        try:
            results[index] = work()
        except LinkLost as loss:
            results[index] = loss

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results


@pytest.fixture
def pair():
    zero = Exchange(0, ("127.0.0.1", 0))
    one = Exchange(1, ("127.0.0.1", zero.port))
    together(zero.connect, one.connect)
    yield zero, one
    for exchange in (zero, one):
        exchange.close()


@given(length=st.integers(2, 300_000), seed=st.integers(0, 100))
@settings(max_examples=15, deadline=None)
def test_all_reduce_sums_on_both_ranks(length: int, seed: int) -> None:
    zero = Exchange(0, ("127.0.0.1", 0))
    one = Exchange(1, ("127.0.0.1", zero.port))
    together(zero.connect, one.connect)
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal(length).astype(np.float32) for _ in range(2)]
    expected = values[0] + values[1]
    inboxes = [np.zeros(length, np.float32) for _ in range(2)]
    together(lambda: zero.all_reduce(values[0], inboxes[0]), lambda: one.all_reduce(values[1], inboxes[1]))
    for exchange in (zero, one):
        exchange.close()
    np.testing.assert_array_equal(values[0], expected)
    np.testing.assert_array_equal(values[1], expected)


def test_rank_1_follows_rank_0(pair) -> None:
    zero, one = pair
    assert together(lambda: zero.meet(7, 3, True), lambda: one.meet(7, 9, False)) == [(7, 3, True)] * 2
    weights = [np.arange(10, dtype=np.float32), np.zeros(10, np.float32)]
    got = together(lambda: zero.adopt(41, 3, weights[0]), lambda: one.adopt(12, 9, weights[1]))
    assert got == [(41, 3), (41, 3)]
    np.testing.assert_array_equal(weights[1], weights[0])


def test_ranks_at_different_steps_notice(pair) -> None:
    zero, one = pair
    results = together(lambda: zero.meet(7, 1, False), lambda: one.meet(8, 1, False))
    assert all(isinstance(result, LinkLost) for result in results)


def test_a_broken_connection_is_set_up_anew(pair) -> None:
    zero, one = pair
    one.close()
    inbox = bytearray(1 << 20)
    with pytest.raises(LinkLost):
        zero.transfer(memoryview(bytes(1 << 20)), memoryview(inbox))
    together(zero.connect, one.connect)
    assert together(lambda: zero.meet(1, 1, False), lambda: one.meet(1, 1, False)) == [(1, 1, False)] * 2


def test_rank_0_gives_up_a_connection_that_rank_1_has_replaced(pair) -> None:
    zero, one = pair
    with socket.create_connection(one.address), pytest.raises(LinkLost, match="new connection"):
        zero.transfer(None, memoryview(bytearray(8)))


@given(st.floats(0, 1))
def test_the_loss_program_rejects_below_its_threshold(probability: float) -> None:
    program = loss_program(probability)
    assert len(program) == 32
    threshold = int.from_bytes(program[12:16], "little" if np.little_endian else "big")
    assert threshold == min(round(probability * 2**32), 2**32 - 1)


@pytest.mark.parametrize("probability", [-0.1, 1.5, float("nan")])
def test_no_probability_no_program(probability: float) -> None:
    with pytest.raises(ValueError, match="no probability"):
        loss_program(probability)


def test_the_network_learns_and_its_gradient_is_right() -> None:
    network = Network(0)
    batch = np.random.default_rng(1).standard_normal((ROWS, FEATURES), dtype=np.float32)
    labels = batch[:, :10].argmax(axis=1)

    def loss() -> float:
        return float(-np.log(network.forward(batch)[np.arange(ROWS), labels]).mean())

    network.accumulate(batch)
    gradient = network.gradient.astype(np.float64)
    before, step = loss(), 1e-2
    direction = gradient / np.linalg.norm(gradient)
    network.weights += (step * direction).astype(np.float32)
    assert loss() - before == pytest.approx(step * np.linalg.norm(gradient), rel=0.2)
    network.weights -= (step * direction).astype(np.float32)
    for _ in range(5):
        network.gradient.fill(0)
        network.accumulate(batch)
        network.apply(1.0)
    assert loss() < before
    assert network.weights.shape == (PARAMETERS,)
