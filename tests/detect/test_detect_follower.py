"""The threshold of each hour, from what a host scored before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.detect.following import HOUR_NS, Follower, Past
from reveal_core.detect.threshold import DAY_S, Threshold, budget_threshold

OWN = Threshold(9.0, "own", provisional=True)
STEP_NS = 10 * 10**9


def past(days: float, scale: float = 1.0, seed: int = 0, end_ns: int = 2000 * HOUR_NS) -> Past:
    n = round(days * DAY_S * 1e9 / STEP_NS)
    start = end_ns + (np.arange(n) - n) * STEP_NS
    return Past(start, np.random.default_rng(seed).exponential(scale, n))


def follower(before: Past, **settings) -> Follower:
    return Follower(before, OWN, budget_per_day=1.0, margin=1.5, **settings)


def now(hours: float = 1.0, begin_ns: int = 2000 * HOUR_NS) -> tuple[np.ndarray, np.ndarray]:
    n = round(hours * HOUR_NS / STEP_NS)
    return begin_ns + np.arange(n) * STEP_NS, np.random.default_rng(7).exponential(1.0, n)


def test_with_less_than_a_day_the_models_own_threshold_stands() -> None:
    assert (follower(past(0.9)).thresholds(*now()) == 9.0).all()
    assert (follower(Past(np.empty(0, dtype=np.int64), np.empty(0))).thresholds(*now()) == 9.0).all()


def test_then_it_is_the_level_that_the_days_before_exceed_as_often_as_the_budget_allows() -> None:
    before = past(3.0)
    levels = follower(before).thresholds(*now())
    assert len(set(levels)) == 1
    times_s = (before.start_ns - before.start_ns[0]) / 1e9
    assert levels[0] == budget_threshold(before.fused, times_s, 1.0, 1.5).value


def test_what_lies_beyond_the_memory_does_not_count() -> None:
    recent, old = past(3.0), past(3.0, scale=50.0, end_ns=2000 * HOUR_NS - round(3 * DAY_S * 1e9))
    both = Past(np.concatenate([old.start_ns, recent.start_ns]), np.concatenate([old.fused, recent.fused]))
    np.testing.assert_array_equal(follower(both).thresholds(*now()), follower(recent).thresholds(*now()))


def test_an_hour_that_was_set_before_is_not_set_again() -> None:
    levels = follower(past(3.0), known={2000 * HOUR_NS: 4.5}).thresholds(*now(2.0))
    assert (levels[: len(levels) // 2] == 4.5).all()
    assert levels[-1] != 4.5


def test_while_held_nothing_after_the_change_is_learned() -> None:
    """A fault of two days that is learned lifts the threshold; held, the alarm stays on."""
    calm, fault = past(3.0, end_ns=1952 * HOUR_NS), past(2.0, scale=30.0, seed=1)
    both = Past(np.concatenate([calm.start_ns, fault.start_ns]), np.concatenate([calm.fused, fault.fused]))
    learned = follower(both).thresholds(*now())[0]
    held = follower(both, frozen_ns=1952 * HOUR_NS).thresholds(*now())[0]
    assert held == pytest.approx(follower(calm).thresholds(*now(begin_ns=1952 * HOUR_NS))[0])
    assert learned > 2.0 * held


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(0, 5), st.integers(1, 6))
def test_runs_of_any_length_set_the_same_thresholds(days: int, seed: int, pieces: int) -> None:
    """Scored in one run or in several that read back what those before stored: the same."""
    before = past(float(days), seed=seed)
    times, fused = now(6.0)
    whole = follower(before).thresholds(times, fused)
    parts: list[np.ndarray] = []
    for piece in np.array_split(np.arange(len(times)), pieces):
        earlier = slice(0, piece[0])
        known = Past(
            np.concatenate([before.start_ns, times[earlier]]), np.concatenate([before.fused, fused[earlier]])
        )
        parts.append(follower(known).thresholds(times[piece], fused[piece]))
    np.testing.assert_array_equal(whole, np.concatenate(parts))
