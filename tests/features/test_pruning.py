"""Pruning: what is kept, and what it stands for."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.features.pruning import prune
from reveal_core.windows import Feature


def features(n):
    return [Feature(f"f{i}", f"f{i}", "value", "level", "cpu", "%") for i in range(n)]


def names(pruned, what="kept"):
    return [f"f{i}" for i in getattr(pruned, what)]


def test_one_of_a_correlated_group_stays_and_names_the_others():
    rng = np.random.default_rng(0)
    a = rng.normal(size=100)
    values = np.column_stack([a, -2 * a + 1, rng.normal(size=100)])
    pruned = prune(values, features(3), np.zeros(3, dtype=bool), 0.9)
    assert names(pruned) == ["f0", "f2"]
    assert pruned.groups == {"f0": ("f1",)}
    assert names(pruned, "alive") == ["f0", "f1", "f2"]


def test_a_still_event_stays_and_a_still_gauge_goes():
    values = np.column_stack([np.zeros(50), np.full(50, 7.0), np.arange(50.0)])
    pruned = prune(values, features(3), np.array([True, False, False]), 0.9)
    assert names(pruned) == ["f0", "f2"]
    assert pruned.still == ("f1",)


def test_a_feature_that_was_never_there_goes_even_if_it_is_an_event():
    values = np.column_stack([np.full(50, np.nan), np.arange(50.0)])
    pruned = prune(values, features(2), np.array([True, False]), 0.9)
    assert names(pruned) == ["f1"]


def test_levels_stand_for_other_statistics():
    a = np.random.default_rng(0).normal(size=50)
    columns = [
        Feature("s", "m", "value", "spread", "cpu", "%"),
        Feature("l", "m", "value", "level", "cpu", "%"),
    ]
    pruned = prune(np.column_stack([a, a]), columns, np.zeros(2, dtype=bool), 0.9)
    assert pruned.groups == {"l": ("s",)}


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.3, 0.99))
def test_every_moving_feature_is_kept_or_stood_for_exactly_once(seed, threshold):
    rng = np.random.default_rng(seed)
    base = rng.normal(size=(40, 3))
    values = base @ rng.normal(size=(3, 12)) + 0.1 * rng.normal(size=(40, 12))
    pruned = prune(values, features(12), np.zeros(12, dtype=bool), threshold)
    stood_for = [n for group in pruned.groups.values() for n in group]
    assert sorted(names(pruned) + stood_for) == sorted(f"f{i}" for i in range(12))
    assert prune(values, features(12), np.zeros(12, dtype=bool), threshold) == pruned
