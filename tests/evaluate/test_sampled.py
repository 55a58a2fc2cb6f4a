"""The method on sampled telemetry: what it must find, must not look at, and must give twice alike."""

from __future__ import annotations

import numpy as np
import pytest

from reveal_core.detect.growing import as_told
from reveal_core.errors import UsageError
from reveal_core.evaluate.detection import event_scores
from reveal_core.evaluate.labelled import runs
from reveal_core.evaluate.sampled import (
    DEFAULT,
    FUSED,
    PAPER,
    SampledScores,
    explain,
    flagged,
    sampled_profile,
    score_sampled,
)

PERIOD_S = 600.0
PER_DAY = 144
FAULTS = ((400, 412, 2), (700, 706, 5))
"""Start, end and metric of what is wrong in the second part."""


def host(days: int = 14, metrics: int = 8, seed: int = 0) -> np.ndarray:
    """Return a host with a daily rhythm that two loads share, and noise."""
    draw = np.random.default_rng(seed)
    rows = np.arange(days * PER_DAY)
    rhythm = 0.5 + 0.2 * np.sin(2 * np.pi * rows / PER_DAY)
    loads = np.column_stack([rhythm, 1 - rhythm]) @ draw.uniform(0.2, 0.8, (2, metrics))
    return loads + draw.normal(scale=0.02, size=loads.shape)


@pytest.fixture(scope="module")
def split() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    values = host()
    history, test = values[: 7 * PER_DAY], values[7 * PER_DAY :].copy()
    labels = np.zeros(len(test), dtype=bool)
    for start, end, metric in FAULTS:
        test[start:end, metric] += np.random.default_rng(start).uniform(0.3, 0.5, end - start)
        labels[start:end] = True
    return history, test, labels


@pytest.mark.parametrize("name", ["default", "paper"])
def test_faults_rank_first_and_are_named(split: tuple[np.ndarray, np.ndarray, np.ndarray], name: str) -> None:
    history, test, labels = split
    scores = score_sampled(history, test, PERIOD_S, sampled_profile(name))
    healthy = ~labels
    for _, end, _ in FAULTS:
        # The longest spread remembers a fault for as many samples as it is taken over.
        healthy[end : end + max(DEFAULT.spread_samples)] = False
    for start, end, metric in FAULTS:
        assert explain(scores, start, end)[0] == metric
        assert scores.test[FUSED][start:end].max() > np.quantile(scores.test[FUSED][healthy], 0.99)


def test_the_budget_bounds_false_alarms_and_faults_are_found(
    split: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    history, test, labels = split
    scores = score_sampled(history, test, PERIOD_S)
    flags = flagged(scores, FUSED, PERIOD_S, 0.5)
    found = event_scores(flags.astype(float), 0.5, labels, PERIOD_S)
    assert found.found == len(FAULTS)
    assert found.false_per_day <= 1.0
    assert flagged(scores, FUSED, PERIOD_S, 5.0).sum() > flags.sum()


def test_the_threshold_of_a_day_is_set_on_the_past_as_that_day_sees_it() -> None:
    # Below what is certain to be a fault, by the first calibrations too.
    noise = 0.25 * np.random.default_rng(0).exponential(size=5 * PER_DAY)
    noise[4 * PER_DAY + 70] = 5.0
    # What the first calibrations called four times as strange, those of the last day do not.
    first, last = 4.0 * noise[: 4 * PER_DAY], noise
    told = as_told([first, last])
    scores, unaware = (
        SampledScores(
            {FUSED: told[2 * PER_DAY :]}, {FUSED: told[: 2 * PER_DAY]}, np.zeros((3 * PER_DAY, 1)), by_day
        )
        for by_day in ((first, last), (told,))
    )
    aware_flags, unaware_flags = (flagged(one, FUSED, PERIOD_S, 1.0) for one in (scores, unaware))
    at = 2 * PER_DAY + 70
    assert aware_flags[at]
    assert not unaware_flags[at]
    np.testing.assert_array_equal(aware_flags[: 2 * PER_DAY], unaware_flags[: 2 * PER_DAY])


def test_calibrations_are_made_anew_each_day_until_they_rest_on_a_week(
    split: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    history, test, _ = split
    scores = score_sampled(history, test, PERIOD_S)
    held_out = len(scores.held_out[FUSED])
    ends = [len(part) for part in scores.recalibrated]
    assert ends == [*(held_out + day * PER_DAY for day in range(1, 6)), held_out + len(test)]
    together = np.concatenate([scores.held_out[FUSED], scores.test[FUSED]])
    np.testing.assert_array_equal(as_told(scores.recalibrated), together)
    assert len(score_sampled(history, test, PERIOD_S, PAPER).recalibrated) == 1


def test_agreement_needs_so_many_detectors(split: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    history, test, _ = split
    scores = score_sampled(history, test, PERIOD_S, PAPER)
    votes = sum(flagged(scores, m.name, PERIOD_S, 1.0, PAPER).astype(int) for m in PAPER.members)
    assert (flagged(scores, FUSED, PERIOD_S, 1.0, PAPER) == (votes >= 2)).all()


def test_a_score_knows_nothing_of_what_comes_later(
    split: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    history, test, _ = split
    cut = 500
    later = test.copy()
    later[cut:] += 0.7
    before, after = (score_sampled(history, values, PERIOD_S) for values in (test, later))
    for name in before.test:
        np.testing.assert_array_equal(before.test[name][:cut], after.test[name][:cut])
    flags = [flagged(scores, FUSED, PERIOD_S, 1.0)[:cut] for scores in (before, after)]
    assert runs(flags[0]) == runs(flags[1])


def test_the_same_input_gives_the_same_bytes(split: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    history, test, _ = split
    one, two = (score_sampled(history, test, PERIOD_S, seed=3) for _ in range(2))
    assert all(one.test[name].tobytes() == two.test[name].tobytes() for name in one.test)
    assert list(one.test) == [*(member.name for member in DEFAULT.members), FUSED]


def test_missing_samples_and_still_metrics_do_no_harm() -> None:
    values = host(days=6)
    values[:, 3] = 0.25
    values[50:60, 1] = np.nan
    values[5 * PER_DAY : 5 * PER_DAY + 9, 1] = np.nan
    scores = score_sampled(values[: 4 * PER_DAY], values[4 * PER_DAY :], PERIOD_S)
    assert all(np.isfinite(score).all() for score in scores.test.values())


def test_too_little_history_and_unknown_profiles_are_refused() -> None:
    with pytest.raises(UsageError, match="99 samples of history are too few"):
        score_sampled(np.zeros((99, 2)), np.zeros((10, 2)), 60.0)
    with pytest.raises(UsageError, match="unknown profile 'x': choose from default, paper"):
        sampled_profile("x")
