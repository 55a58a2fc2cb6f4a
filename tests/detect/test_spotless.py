"""Spots in a healthy history: left out of the calibration when they stand out, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from reveal_core.detect.calibration import TailCalibration
from reveal_core.detect.spotless import FEW_WINDOWS, SHORT_TRIM, spotless


def fused(held_out: NDArray[np.float64], kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    return TailCalibration().fit(held_out[kept, 0]).log_tail(held_out[:, 0])


def history(n: int, spots: list[tuple[int, int]], height: float = 40.0, seed: int = 0) -> NDArray[np.float64]:
    """Return scores of a quiet history, with spots (first window, length) of some height on it."""
    rng = np.random.default_rng(seed)
    scores = 1.0 + rng.gamma(8.0, 0.1, n)
    for first, length in spots:
        spot = scores[first : first + length]
        spot[:] = height + rng.random(len(spot))
    return scores[:, None]


@pytest.mark.parametrize("length", [1, 2, 5, 7, FEW_WINDOWS - 3])
@pytest.mark.parametrize("n", [102, 300, 2000])
def test_a_command_of_some_seconds_is_left_out_however_short_the_history(n: int, length: int) -> None:
    kept = spotless(history(n, [(n // 3, length)]), fused, 0.06)
    spot = np.zeros(n, dtype=bool)
    spot[n // 3 : n // 3 + length] = True
    assert not kept[spot].any()
    assert (~kept & ~spot).sum() <= 3  # a neighbour may go with it


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(60, 400))
def test_an_even_history_loses_next_to_nothing(seed: int, n: int) -> None:
    kept = spotless(history(n, [], seed=seed), fused, 0.06)
    assert (~kept).sum() <= 3


def test_the_measure_does_not_depend_on_whether_the_history_is_a_window_longer() -> None:
    whole = history(140, [(5, 7)])
    measures = []
    for n in range(96, 140):
        kept = spotless(whole[:n], fused, 0.06)
        measures.append(float(fused(whole[:n], kept)[kept].max()))
    assert max(measures) < 2 * min(measures)


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(30, 400),
    spots=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 40)), max_size=6),
    trim=st.sampled_from([0.0, 0.02, 0.06, 0.2]),
)
def test_never_more_than_the_limit_is_left_out(n: int, spots: list[tuple[int, int]], trim: float) -> None:
    kept = spotless(history(n, [(first % n, length) for first, length in spots]), fused, trim)
    limit = max(trim * n, min(FEW_WINDOWS, SHORT_TRIM * n)) if trim else 0
    assert (~kept).sum() <= limit
