"""What is new of a host's telemetry, whatever order it comes in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from reveal_core.arrivals import Arrival, Judged, Watermark, new_stretches

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def segments(agents: list[tuple[str, list[int]]], pause_s: float = 5.0) -> list[Judged]:
    """Return the segments of agents that ran one after another, given the lengths of their segments."""
    made, now = [], 0.0
    for boot, lengths in agents:
        for number, length in enumerate(lengths):
            made.append((boot, number, at(now), at(now + length - 0.1)))
            now += length
        now += pause_s
    return made


AGENTS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.lists(st.integers(10, 90), min_size=1, max_size=8)),
    min_size=1,
    max_size=4,
)


@given(AGENTS, st.randoms(use_true_random=False), st.integers(1, 5))
def test_what_was_judged_is_known_whatever_came_when(agents, random, batch: int) -> None:
    made = segments(agents)
    judged = [one for one in made if random.random() < 0.7]
    random.shuffle(judged)
    mark = Watermark(NOON)
    for first in range(0, len(judged), batch):
        part = judged[first : first + batch]
        mark = mark.after(part)
        mark = mark.after(part)  # two runs at once
    assert {one for one in made if mark.has(one[0], one[1], one[2])} == set(judged)
    assert mark.until == max([NOON, *(one[3] for one in judged)])


@given(AGENTS)
def test_what_comes_in_order_is_remembered_in_a_run_for_each_agent(agents) -> None:
    mark = Watermark(NOON)
    for one in segments(agents):
        mark = mark.after([one])
    assert len(mark.seen) == len(agents)


def arrivals(*spans: tuple[float, float, bool], boot: str = "a") -> list[Arrival]:
    return [Arrival(at(a), at(b), boot, number, new) for number, (a, b, new) in enumerate(spans)]


def test_new_segments_side_by_side_are_one_stretch() -> None:
    (stretch,) = new_stretches(arrivals((0, 60, False), (60, 120, True), (120, 180, True)), HOUR)
    assert (stretch.start, stretch.end) == (at(60), at(180))
    assert (stretch.precedes, stretch.follows) == (True, False)
    assert [number for _, number, _, _ in stretch.segments] == [1, 2]


def test_a_late_segment_is_a_stretch_that_telemetry_follows() -> None:
    found = new_stretches(
        arrivals((0, 60, False), (60, 120, True), (120, 180, False), (180, 240, True)), HOUR
    )
    assert [(s.start, s.end, s.precedes, s.follows) for s in found] == [
        (at(60), at(120), True, True),
        (at(180), at(240), True, False),
    ]


def test_where_the_host_was_off_nothing_joins_on() -> None:
    spans = [(0, 60, True), (600, 660, True)]
    every = [Arrival(at(a), at(b), "a", 2 * number, new) for number, (a, b, new) in enumerate(spans)]
    found = new_stretches(every, HOUR)
    assert [(s.start, s.end, s.precedes, s.follows) for s in found] == [
        (at(0), at(60), False, False),
        (at(600), at(660), False, False),
    ]


def test_a_backlog_is_cut_into_pieces() -> None:
    backlog = arrivals(*((n * 600.0, n * 600.0 + 600.0, True) for n in range(10)))
    found = new_stretches(backlog, HOUR)
    assert [(s.end - s.start).total_seconds() for s in found] == [3600.0, 2400.0]
    assert [(s.precedes, s.follows) for s in found] == [(False, True), (True, False)]


@given(AGENTS, st.randoms(use_true_random=False))
def test_every_new_segment_lies_in_one_stretch(agents, random) -> None:
    every = [Arrival(s, e, boot, n, random.random() < 0.5) for boot, n, s, e in segments(agents)]
    random.shuffle(every)
    found = new_stretches(every, timedelta(minutes=5))
    told = [one for stretch in found for one in stretch.segments]
    assert sorted(told) == sorted((a.boot, a.number, a.start, a.end) for a in every if a.new)
    for stretch in found:
        inside = [a for a in every if a.new and stretch.start <= a.start < stretch.end]
        assert {(a.boot, a.number, a.start, a.end) for a in inside} == set(stretch.segments)
        assert stretch.end - stretch.start <= timedelta(minutes=5)
    assert [s.start for s in found] == sorted(s.start for s in found)
