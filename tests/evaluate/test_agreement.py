"""Agreement between settings: overlap of flagged windows, hit rates, and alarms against their budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.evaluate.agreement import (
    Extent,
    flagged_seconds,
    hit_rate,
    incident_hit_rate,
    overlap,
    stability,
    within_budget,
)
from reveal_core.scores import Scores

SECONDS = st.frozensets(st.integers(0, 30))
FLAGS = st.dictionaries(st.sampled_from(["a/0", "a/1", "b/0"]), SECONDS)


@given(FLAGS, FLAGS)
def test_overlap_is_symmetric_within_bounds_and_one_for_the_same(one, other) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert 0.0 <= overlap(one, other) <= 1.0
    assert overlap(one, one) == 1.0
    hits = hit_rate(one, other)
    assert hits is None if not any(one.values()) else overlap(one, other) <= hits <= 1.0


def test_what_one_flags_in_a_copy_that_the_other_flags_not_counts() -> None:
    assert overlap({"a/0": {1}, "a/1": {1}}, {"a/0": {1}}) == 0.5
    assert hit_rate({"a/0": {1}, "a/1": {1}}, {"a/0": {1}}) == 0.5
    assert hit_rate({}, {"a/0": {1}}) is None


def test_an_incident_is_hit_by_any_flagged_window_within_it() -> None:
    incidents = [Extent("a/0", 10, 14), Extent("a/0", 20, 21), Extent("a/1", 10, 14)]
    assert incident_hit_rate(incidents, {"a/0": {14}}) == pytest.approx(1 / 3)
    assert incident_hit_rate([], {"a/0": {14}}) is None


def test_stability_is_the_mean_over_pairs() -> None:
    runs = [{"a": {1, 2}}, {"a": {1, 2}}, {"a": {2}}]
    assert stability(runs) == pytest.approx((1.0 + 0.5 + 0.5) / 3)
    assert stability(runs[:1]) is None


def scores(window_s: float, stride_s: float, flagged: list[int], count: int) -> Scores:
    start = datetime(2026, 11, 29, 20, tzinfo=UTC)
    ends = [start + timedelta(seconds=window_s + stride_s * number) for number in range(count)]
    frame = pl.DataFrame(
        {
            "end": pl.Series(ends, dtype=pl.Datetime("ns", "UTC")),
            "anomalous": [number in flagged for number in range(count)],
        }
    )
    return Scores("a", frame, ())


def test_windows_of_another_length_and_stride_are_compared_by_where_they_end() -> None:
    long = flagged_seconds(scores(3.0, 1.0, [2, 3], 10))
    short = flagged_seconds(scores(2.0, 1.0, [3, 4], 10))
    dense = flagged_seconds(scores(2.0, 0.5, [6, 7, 8, 9], 20))
    assert long == short == dense


def test_a_count_is_held_against_what_chance_allows() -> None:
    assert within_budget(0, 1 / 24, 1.0)
    assert not within_budget(1, 1 / 24, 1.0)  # one in an hour at one a day: 4 %
    assert within_budget(1, 2 / 24, 1.0)
    assert within_budget(14, 10.0, 1.0)
    assert not within_budget(20, 10.0, 1.0)
