"""Statistics over the time before a sample, against a plain way to compute them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reveal_core.features.trailing import change_against, trailing_mean, trailing_spread

SERIES = arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(1, 3)), elements=st.floats(0, 1))


@given(values=SERIES, samples=st.integers(1, 12))
def test_mean_and_spread_are_those_of_the_samples_before(values: np.ndarray, samples: int) -> None:
    mean, spread = trailing_mean(values, samples), trailing_spread(values, samples)
    for row in range(len(values)):
        window = values[max(0, row - samples + 1) : row + 1]
        np.testing.assert_allclose(mean[row], window.mean(axis=0), atol=1e-9)
        np.testing.assert_allclose(spread[row], window.std(axis=0), atol=1e-6)


@given(values=SERIES, samples=st.integers(1, 40))
def test_change_looks_at_nothing_that_comes_later(values: np.ndarray, samples: int) -> None:
    whole = change_against(values, samples)
    for row in range(len(values)):
        before = values[max(0, row - samples) : row]
        expected = np.zeros(values.shape[1])
        if len(before) >= max(1, samples // 8):
            expected = values[row] - np.median(before, axis=0)
        np.testing.assert_allclose(whole[row], expected, atol=1e-9)


def test_a_missing_sample_is_left_out() -> None:
    values = np.array([[1.0], [np.nan], [3.0], [3.0]])
    assert trailing_mean(values, 3).ravel().tolist() == [1.0, 1.0, 2.0, 3.0]
    np.testing.assert_allclose(trailing_spread(values, 3).ravel(), [0.0, 0.0, 1.0, 0.0])
    assert change_against(values, 8)[2, 0] == 2.0
