"""Which anomalous windows are one incident."""

import numpy as np
import pytest
from excursion_samples import excursions, feature
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.attribute.spans import group_windows, similarity
from reveal_core.profiles import load_profile

A, B = feature("stat.ctxt"), feature("vmstat.pgfault")
PROFILE = load_profile("default")


def spans(ratio, moved=None, profile=PROFILE):
    ratio = np.array(ratio, dtype=float)
    e = excursions(moved or {A: {range(len(ratio)): 5.0}}, len(ratio))
    return [s.windows for s in group_windows(ratio > 1.0, ratio, e.excess, profile)]


def test_neighbouring_windows_are_one_incident():
    assert spans([0, 2, 2, 2, 0, 0]) == [(1, 2, 3)]


def test_a_short_calm_does_not_end_an_incident_and_a_long_one_does():
    assert len(spans([2, 2] + [0] * 4 + [2, 2])) == 1
    different = {A: {range(0, 2): 5.0}, B: {range(40, 42): 5.0}}
    assert len(spans([2, 2] + [0] * 38 + [2, 2], different)) == 2


def test_an_incident_goes_on_while_the_score_is_near_the_threshold():
    assert len(spans([2] + [0.8] * 20 + [2])) == 1
    assert len(spans([2] + [0.1] * 20 + [2])) == 2


def test_the_same_signals_soon_after_belong_to_it_and_others_do_not():
    ratio = [2.0] * 5 + [0] * 10 + [2.0] * 5
    assert len(spans(ratio, {A: {range(0, 20): 5.0}, B: {range(0): 0.0}})) == 1
    assert len(spans(ratio, {A: {range(0, 5): 5.0}, B: {range(15, 20): 5.0}})) == 2


def test_another_fault_during_an_incident_is_an_incident_of_its_own():
    """An alarm that stays on after the first fault must not hide the second."""
    ratio = [3.0] * 20
    found = spans(ratio, {A: {range(0, 10): 8.0, range(10, 20): 0.2}, B: {range(10, 20): 8.0}})
    assert found == [tuple(range(10)), tuple(range(10, 20))]


def test_what_is_left_of_a_fault_when_it_ends_is_no_fault_of_its_own():
    ratio = [6.0] * 10 + [1.5] * 10
    found = spans(ratio, {A: {range(0, 10): 8.0, range(10, 20): 0.2}, B: {range(10, 20): 8.0}})
    assert found == [tuple(range(20))]


def test_an_onset_that_builds_up_is_not_split():
    ratio = [3.0] * 12
    e = {A: {range(0, 12): 5.0}, B: {range(3, 12): 5.0}}
    assert len(spans(ratio, e)) == 1


def test_a_minimum_duration_drops_shorter_ones():
    assert spans([0, 2, 0], profile=load_profile("default", {"minimum_windows": 2})) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 4), min_size=1, max_size=80), st.integers(0, 2**32 - 1))
def test_every_anomalous_window_is_in_exactly_one_incident(ratio, seed):
    rng = np.random.default_rng(seed)
    ratio = np.array(ratio)
    excess = rng.normal(size=(len(ratio), 5)) * 4
    found = group_windows(ratio > 1.0, ratio, excess, PROFILE)
    assert sorted(w for s in found for w in s.windows) == np.flatnonzero(ratio > 1.0).tolist()
    assert all(s.first <= s.last for s in found)
    assert [s.first for s in found] == sorted(s.first for s in found)


def test_similarity_is_1_for_the_same_and_0_for_nothing_in_common():
    e = excursions({A: {range(0, 5): 5.0}, B: {range(5, 10): 5.0}}, 10).excess
    assert similarity(e, [0, 1], [2, 3]) == pytest.approx(1.0)
    assert similarity(e, [0, 1], [6, 7]) == 0.0


def test_a_host_that_stays_a_little_out_of_its_habits_does_not_hide_the_next_fault():
    lasting = {A: {range(0, 50): 2.0}}
    ratio = [2.0] * 5 + [0.8] * 40 + [2.0] * 5
    assert spans(ratio, lasting) == [tuple(range(5)), tuple(range(45, 50))]
    slower = load_profile("default", {"cooldown_s": 40.0})
    assert spans(ratio, lasting, slower) == [(*range(5), *range(45, 50))]
