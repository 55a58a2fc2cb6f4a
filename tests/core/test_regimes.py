"""When an alarm that stays on is a regime, and when it is over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.regimes import CALM_S, Regime, find_regime, last_strange

START = datetime(2026, 11, 29, tzinfo=UTC)
SECOND = 10**9


def grid(minutes: int) -> np.ndarray:
    return (round(START.timestamp()) + np.arange(minutes) * 60) * SECOND


def strange(minutes: int, *spans: tuple[int, int]) -> np.ndarray:
    flags = np.zeros(minutes, dtype=bool)
    for begin, end in spans:
        flags[begin:end] = True
    return flags


def test_an_alarm_that_stays_on_for_hours_is_a_regime_from_its_beginning() -> None:
    times = grid(300)
    assert find_regime(times, strange(300, (150, 300)), 7200.0) == times[150]
    assert find_regime(times, strange(300, (150, 200), (205, 300)), 7200.0) == times[150]


def test_a_short_alarm_one_that_is_over_and_many_now_and_then_are_none() -> None:
    times = grid(300)
    assert find_regime(times, strange(300, (200, 300)), 7200.0) is None
    assert find_regime(times, strange(300, (50, 280)), 7200.0) is None
    now_and_then = strange(300)
    now_and_then[::6] = True
    assert find_regime(times, now_and_then, 7200.0) is None
    assert find_regime(times, strange(300), 7200.0) is None
    assert find_regime(times[:0], strange(0), 7200.0) is None


def test_it_is_over_after_calm_and_not_before() -> None:
    times = grid(300)
    since = START + timedelta(minutes=20)
    assert last_strange(times, strange(300, (20, 295)), since) is None
    assert last_strange(times, strange(300, (20, 200)), since) == START + timedelta(minutes=199)
    assert last_strange(times[:0], strange(0), since) is None


def test_it_is_held_until_it_is_over_or_accepted() -> None:
    regime = Regime("node-1", "reveal-x", START)
    assert regime.held
    assert not regime.acknowledge(START, "me", "new kernel").held
    assert not Regime("node-1", "reveal-x", START, until=START).held
    assert regime.acknowledge(START, "me", "new kernel").to_dict() == {
        "host": "node-1",
        "model": "reveal-x",
        "since": "2026-11-29T00:00:00.000Z",
        "until": None,
        "acknowledged": "2026-11-29T00:00:00.000Z",
        "by": "me",
        "why": "new kernel",
    }


@given(st.lists(st.booleans(), min_size=1, max_size=400), st.integers(10, 120))
def test_a_regime_begins_at_a_strange_window_and_is_as_long_as_asked(flags, minutes) -> None:
    times, odd = grid(len(flags)), np.array(flags)
    begun = find_regime(times, odd, minutes * 60.0)
    if begun is None:
        return
    assert odd[np.searchsorted(times, begun)]
    assert times[-1] - begun >= minutes * 60 * SECOND
    assert times[-1] - times[odd][-1] <= CALM_S * SECOND
