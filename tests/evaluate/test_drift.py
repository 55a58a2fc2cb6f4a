"""Drift: what lasts is told, what is short is not, and a reference survives the trip to the tracker."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.errors import UsageError
from reveal_core.evaluate.drift import Drift, DriftRules, find_drift
from reveal_core.evaluate.reference import make_reference, reference_from, stability_index

N, F = 600, 20
RULES = DriftRules()
NAMES = [f"metric-{j}" for j in range(F)]


def healthy(seed: int, n: int = N) -> np.ndarray:
    """A periodic host: features of one level and spread, a third of them following the job's cycle."""
    rng = np.random.default_rng(seed)
    cycle = np.sin(2 * np.pi * np.arange(n) / 37)[:, None] * (np.arange(F) % 3 == 0)
    return 50 + 5 * cycle + rng.normal(size=(n, F))


TRAINED = healthy(0)
CENTRE, SCALE = np.median(TRAINED, axis=0), TRAINED.std(axis=0)
REFERENCE = make_reference(NAMES, (TRAINED - CENTRE) / SCALE)
HELD_OUT = np.random.default_rng(1).gamma(2.0, size=N)


def drift(X: np.ndarray, scores: np.ndarray | None = None, rules: DriftRules = RULES) -> Drift:
    if scores is None:
        scores = np.random.default_rng(2).gamma(2.0, size=len(X))
    return find_drift(REFERENCE, (X - CENTRE) / SCALE, scores=scores, held_out=HELD_OUT, rules=rules)


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_same_host_later_has_not_drifted(seed: int) -> None:
    found = drift(healthy(seed))
    assert not found.drifted
    assert found.feature_share == 0.0
    assert found.score_share < 0.1
    assert found.why.startswith("no lasting change: 0.0% of 20 features have moved")


def test_a_lasting_shift_is_named_with_what_moved() -> None:
    X = healthy(1)
    X[:, [4, 7]] += 3.0 * SCALE[[4, 7]]
    X[:, 2] -= 1.5 * SCALE[2]
    found = drift(X)
    assert found.drifted
    assert {feature.name for feature in found.features if feature.drifted} == {
        "metric-4",
        "metric-7",
        "metric-2",
    }
    assert found.features[0].name in {"metric-4", "metric-7"}
    assert found.feature_share == pytest.approx(0.15)
    assert found.why == "15.0% of 20 features have moved"
    moved = {feature.name: feature.shift for feature in found.features}
    assert moved["metric-2"] < -1.0 < 2.0 < moved["metric-4"]


@pytest.mark.parametrize(
    ("begin", "length", "is_drift"),
    [
        (0, 200, False),
        (60, 200, False),
        (250, 200, False),
        (400, 200, False),
        (0, 400, True),
        (150, 400, True),
    ],
)
def test_an_incident_of_a_third_of_the_span_is_no_drift_and_a_change_of_most_of_it_is(
    begin: int, length: int, is_drift: bool
) -> None:
    X = healthy(1)
    X[begin : begin + length] += 20.0
    scores = np.random.default_rng(2).gamma(2.0, size=N)
    scores[begin : begin + length] += 100.0
    found = drift(X, scores)
    assert found.drifted == is_drift, found.why
    assert (found.feature_share > 0.0) == is_drift
    assert (found.score_share > RULES.score_share) == is_drift


def test_scores_that_stay_high_are_drift_even_where_no_single_feature_tells() -> None:
    found = drift(healthy(1), np.random.default_rng(2).gamma(2.0, size=N) + 2.0)
    assert found.drifted
    assert found.feature_share == 0.0
    assert "of the windows score higher than 95% of the healthy ones did" in found.why
    assert 0.0 < found.score_ks <= 1.0


def test_a_shift_below_what_is_worth_noticing_is_none() -> None:
    wide = SCALE * 10.0  # as the model's floors make it
    reference = make_reference(NAMES, (TRAINED - CENTRE) / wide)
    Z = (healthy(1) + 3.0 * SCALE - CENTRE) / wide
    found = find_drift(reference, Z, scores=HELD_OUT, held_out=HELD_OUT, rules=RULES)
    assert max(feature.psi for feature in found.features) > RULES.psi
    assert found.feature_share == 0.0


def test_a_feature_that_is_gone_counts_and_is_told() -> None:
    X = healthy(1)
    X[:, 3] = np.nan
    found = drift(X)
    assert found.drifted
    assert found.features[0].missing
    assert "5.0% of 20 features have moved (1 are gone)" in found.why


def test_single_missing_values_and_constant_features_do_no_harm() -> None:
    trained = (TRAINED - CENTRE) / SCALE
    trained[:, 0] = 0.0
    trained[:, 1] = np.nan
    reference = make_reference(NAMES, trained)
    Z = (healthy(1) - CENTRE) / SCALE
    Z[::3, 5] = np.nan
    Z[:, 0] = 0.0
    found = find_drift(reference, Z, scores=HELD_OUT, held_out=HELD_OUT, rules=RULES)
    assert found.feature_share == 0.0
    assert "metric-1" not in {feature.name for feature in found.features}


def test_too_few_windows_are_refused() -> None:
    with pytest.raises(UsageError, match="239 windows are too few to tell drift from an incident"):
        drift(healthy(1, 239))


def test_a_reference_survives_json() -> None:
    back = reference_from(json.loads(json.dumps(REFERENCE.to_dict())))
    assert back.names == REFERENCE.names
    assert all(np.array_equal(a, b) for a, b in zip(back.edges, REFERENCE.edges, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(back.shares, REFERENCE.shares, strict=True))
    assert np.array_equal(back.natural, REFERENCE.natural)
    with pytest.raises(ValueError, match="no reference distribution"):
        reference_from({"windows": 3})


counts = st.lists(st.integers(0, 1000), min_size=2, max_size=11).filter(any)


@settings(max_examples=50)
@given(counts)
def test_the_index_is_zero_for_itself_and_positive_and_symmetric_for_others(one: list[int]) -> None:
    left, right = np.array(one), np.array(one[::-1])
    assert stability_index(left, left) == pytest.approx(0.0, abs=1e-12)
    assert stability_index(left, right) >= -1e-12
    assert stability_index(left, right) == pytest.approx(stability_index(right, left))


def test_the_index_is_the_published_sum() -> None:
    # (a - e) ln(a / e): 0.5 against 0.2 and 0.5 against 0.8.
    expected = 0.3 * np.log(0.5 / 0.2) - 0.3 * np.log(0.5 / 0.8)
    assert stability_index(np.array([20, 80]), np.array([50, 50])) == pytest.approx(expected)
