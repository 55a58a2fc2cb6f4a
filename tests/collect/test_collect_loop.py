"""The beat, on a clock that the test moves."""

from __future__ import annotations

import itertools
import threading

import pytest
from collect_parts import FakeClock
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.collect.loop import MIN_INTERVAL_S, check_interval, ticks
from reveal_core.errors import UsageError

MS = 1_000_000


def beat(work_ms: list[int], count: int, interval_s: float = 0.1) -> list[tuple[int, int, bool, int]]:
    """Return number, begin (ms), late and lost of each tick, given what each tick's work takes (ms)."""
    clock = FakeClock([work * MS for work in work_ms])
    start = clock.now + clock.wall_offset
    made = list(ticks(clock, interval_s, count, threading.Event()))
    return [(t.number, (t.wall_ns - start) // MS, t.late, t.lost) for t in made]


def test_work_does_not_make_it_drift() -> None:
    assert beat([30, 70, 20, 0], 5) == [(n, 100 * n, False, 0) for n in range(5)]


def test_a_tick_that_begins_late_is_counted_and_the_next_is_on_time() -> None:
    assert beat([160, 0, 0], 4) == [
        (0, 0, False, 0),
        (1, 160, True, 0),
        (2, 200, False, 0),
        (3, 300, False, 0),
    ]


def test_a_tick_a_little_behind_is_not_late() -> None:
    assert beat([140, 0], 3)[1] == (1, 140, False, 0)


def test_ticks_whose_time_has_passed_are_lost_and_counted() -> None:
    made = beat([350, 0], 6)
    assert made == [(0, 0, False, 0), (3, 350, False, 2), (4, 400, False, 0), (5, 500, False, 0)]


def test_the_grid_ends_where_it_should_even_when_its_last_ticks_are_lost() -> None:
    assert [number for number, _, _, _ in beat([10_000], 5)] == [0, 4]


@given(st.lists(st.integers(0, 1200), max_size=40), st.integers(1, 60), st.sampled_from([0.05, 0.1, 0.6]))
def test_made_and_lost_ticks_add_up_to_the_grid(work_ms: list[int], count: int, interval_s: float) -> None:
    made = beat(work_ms, count, interval_s)
    numbers = [number for number, _, _, _ in made]
    assert numbers[0] == 0
    assert numbers[-1] == count - 1
    assert len(made) + sum(lost for _, _, _, lost in made) == count
    for (before, _, _, _), (number, begin, _, lost) in itertools.pairwise(made):
        assert number == before + lost + 1
        assert begin >= number * interval_s * 1000 - 1


def test_a_step_of_the_wall_clock_changes_no_beat() -> None:
    clock = FakeClock()
    made = []
    for tick in ticks(clock, 0.1, 5, threading.Event()):
        made.append(tick)
        if tick.number == 1:
            clock.wall_offset -= 3_600_000_000_000
    assert [tick.number for tick in made] == [0, 1, 2, 3, 4]
    assert {b.boot_ns - a.boot_ns for a, b in itertools.pairwise(made)} == {100 * MS}
    assert made[2].wall_ns < made[1].wall_ns


def test_it_ends_when_told() -> None:
    stop = threading.Event()
    made = []
    for tick in ticks(FakeClock(), 0.1, None, stop):
        made.append(tick.number)
        if len(made) == 7:
            stop.set()
    assert made == list(range(7))


def test_it_wakes_from_a_long_sleep_when_told() -> None:
    stop = threading.Event()

    class Impatient(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            stop.set()

    clock = Impatient()
    assert [tick.number for tick in ticks(clock, 60.0, None, stop)] == [0]
    assert clock.now < 2_000_000_000


@pytest.mark.parametrize("interval", [0.0, -1.0, MIN_INTERVAL_S / 2, float("nan")])
def test_an_interval_that_cannot_be_kept_is_refused(interval: float) -> None:
    with pytest.raises(UsageError, match="too short"):
        check_interval(interval)


def test_a_stride_keeps_to_its_multiples_and_loses_nothing() -> None:
    clock = FakeClock()
    strides = iter([1, 1, 6, 6, 1, 1, 6, 6, 6])
    made = list(ticks(clock, 0.1, 30, threading.Event(), lambda: next(strides)))
    assert [t.number for t in made] == [0, 1, 2, 6, 12, 13, 14, 18, 24]
    assert sum(t.lost for t in made) == 0
    assert [t.interval_ms for t in made] == [100, 100, 100, 600, 600, 100, 100, 600, 600]


def test_a_sparse_tick_whose_time_has_passed_is_lost_once() -> None:
    clock = FakeClock([0, 1_900 * MS])
    made = list(ticks(clock, 0.1, 40, threading.Event(), lambda: 6))
    assert [(t.number, t.lost) for t in made][:4] == [(0, 0), (6, 0), (24, 2), (30, 0)]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-7_200, 7_200)), max_size=5))
def test_every_step_of_the_wall_clock_is_told_and_nothing_else_is(steps: list[tuple[int, int]]) -> None:
    clock = FakeClock([70 * MS] * 10)  # work within a tick, between the clocks, is no step
    moves: dict[int, int] = {}
    for number, seconds in steps:
        moves[number] = moves.get(number, 0) + seconds
    told = {}
    for tick in ticks(clock, 0.1, 11, threading.Event()):
        if tick.step_ns:
            told[tick.number - 1] = round(tick.step_ns / 1e9)
        clock.wall_offset += moves.get(tick.number, 0) * 10**9
    assert told == {number: seconds for number, seconds in moves.items() if seconds}
