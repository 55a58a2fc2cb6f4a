from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from reveal_core.evaluate.detection import EventScores, event_scores, find_alarms, pooled, ranking_scores
from reveal_core.evaluate.labelled import runs

MINUTE = 60.0


@st.composite
def scored(draw, least=4, most=60):
    """Return scores of few levels, so that ties are common, and labels of both kinds."""
    rows = draw(st.integers(least, most))
    scores = draw(hnp.arrays(np.float64, rows, elements=st.integers(0, 12).map(float)))
    labels = draw(hnp.arrays(bool, rows))
    assume(labels.any() and not labels.all())
    return scores, labels


@settings(max_examples=30)  # a curve is drawn for each
@given(scored())
def test_rising_transforms_of_scores_change_no_ranking_score(case):
    scores, labels = case
    plain = ranking_scores(scores, labels, window=4)
    for transformed in (np.exp(scores), 3 * scores - 100, np.arctan(scores), np.log1p(scores) ** 3):
        assert ranking_scores(transformed, labels, window=4) == plain


@settings(max_examples=30)  # a curve is drawn for each
@given(scored())
def test_turned_scores_turn_the_auc(case):
    scores, labels = case
    assert ranking_scores(-scores, labels).auc == pytest.approx(1 - ranking_scores(scores, labels).auc)


@settings(max_examples=30)  # a curve is drawn for each
@given(scored())
def test_a_perfect_ranking_is_one_and_its_reverse_is_the_worst(case):
    noise, labels = case
    best = ranking_scores(labels * 100.0 + noise, labels, window=0)
    worst = ranking_scores(labels * -100.0 + noise, labels, window=0)
    any_other = ranking_scores(noise, labels, window=0)
    assert (best.average_precision, best.auc) == (pytest.approx(1), pytest.approx(1))
    assert worst.auc == pytest.approx(0)
    # One anomaly after another at the very end: precision i / (normal rows + i) at the i-th.
    count, normal = int(labels.sum()), int((~labels).sum())
    apart = np.argsort(np.argsort(labels * -100.0 + noise)).astype(float)
    expected = np.mean([i / (normal + i) for i in range(1, count + 1)])
    assert ranking_scores(apart, labels, window=0).average_precision == pytest.approx(expected)
    assert worst.average_precision <= any_other.average_precision + 1e-12


def test_equal_scores_are_chance():
    labels = np.array([1, 0, 0, 1, 0, 0, 0, 0], dtype=bool)
    found = ranking_scores(np.ones(8), labels, window=0)
    assert (found.average_precision, found.auc, found.vus_pr) == (0.25, 0.5, 0.25)


@pytest.mark.parametrize("label", [False, True])
def test_labels_of_one_kind_cannot_be_ranked(label):
    found = ranking_scores(np.arange(5.0), np.full(5, label))
    assert np.isnan([found.average_precision, found.auc, found.vus_pr]).all()


def test_scores_have_to_be_finite_and_as_many_as_labels():
    labels = np.array([True, False])
    with pytest.raises(ValueError, match="1 scores are not finite"):
        ranking_scores(np.array([np.nan, 1]), labels)
    with pytest.raises(ValueError, match="shape"):
        ranking_scores(np.ones(3), labels)
    with pytest.raises(ValueError, match="thresholds"):
        event_scores(np.ones(2), np.ones(3), labels, MINUTE)


@pytest.mark.parametrize(("quiet", "merged"), [(0, True), (28, True), (29, True), (30, False)])
def test_alarms_half_an_hour_apart_are_one(quiet, merged):
    scores = np.concatenate(([0, 1, 1], np.zeros(quiet), [1, 0]))
    found = find_alarms(scores, 0.5, MINUTE)
    assert found == ([(1, 4 + quiet)] if merged else [(1, 3), (33, 34)])


def test_a_threshold_may_differ_by_row_and_a_missing_score_is_no_alarm():
    scores = np.array([2, 2, np.nan, 2.0])
    assert find_alarms(scores, np.array([1, 2, 1, 3.0]), MINUTE, merge_s=0) == [(0, 1)]


def test_events_alarms_and_delays_by_hand():
    labels, scores = np.zeros(1440, dtype=bool), np.zeros(1440)
    labels[100:130], labels[300:310], labels[600:700] = True, True, True
    scores[107:109] = 1  # finds the first, 7 minutes late
    scores[590:602] = 1  # begins before the third, so without delay
    scores[900] = scores[920] = 1  # false, and one alarm, for they are 20 minutes apart
    scores[1000] = 1  # false
    found = event_scores(scores, 0.5, labels, MINUTE)
    assert (found.events, found.found, found.alarms, found.false_alarms) == (3, 2, 4, 2)
    assert (found.recall, found.precision, found.f1) == (2 / 3, 0.5, pytest.approx(4 / 7))
    assert (found.days, found.false_per_day) == (1, 2)
    assert (found.delays_min, found.median_delay_min) == ((7, 0), 3.5)
    assert found.normal_flagged_share == 13 / 1300


def test_shares_of_nothing():
    quiet = event_scores(np.zeros(10), 0.5, np.zeros(10, dtype=bool), MINUTE)
    assert np.isnan([quiet.recall, quiet.precision, quiet.f1, quiet.median_delay_min]).all()
    assert (quiet.false_per_day, quiet.normal_flagged_share) == (0, 0)
    missed = event_scores(np.zeros(10), 0.5, np.ones(10, dtype=bool), MINUTE)
    assert (missed.recall, missed.f1) == (0, 0)
    assert np.isnan(missed.normal_flagged_share)


def plain_event_scores(scores, threshold, labels, period_s, merge_s, events):
    """Count by sets of rows, one pair of flagged rows at a time."""
    flagged = [row for row in range(len(scores)) if scores[row] > threshold[row]]
    alarms = []
    for row in flagged:
        # Neighbours are always one run; further apart, the time between decides.
        if alarms and (row - max(alarms[-1]) == 1 or (row - max(alarms[-1])) * period_s <= merge_s):
            alarms[-1] |= set(range(max(alarms[-1]), row + 1))
        else:
            alarms.append({row})
    true_rows = [set(range(*event)) for event in events]
    delays = []
    for event in true_rows:
        covered = [row for row in event if any(row in alarm for alarm in alarms)]
        if covered:
            delays.append((min(covered) - min(event)) * period_s / 60)
    return EventScores(
        events=len(events),
        found=len(delays),
        alarms=len(alarms),
        false_alarms=len([alarm for alarm in alarms if all(not alarm & event for event in true_rows)]),
        days=len(scores) * period_s / 86400,
        delays_min=tuple(delays),
        normal=sum(1 for label in labels if not label),
        normal_flagged=sum(1 for row in flagged if not labels[row]),
    )


@given(scored(), st.data(), st.sampled_from([60.0, 300.0, 3600.0]), st.sampled_from([0.0, 300.0, 1800.0]))
def test_event_scores_agree_with_a_plain_count(case, data, period_s, merge_s):
    scores, labels = case
    rows = len(scores)
    threshold = data.draw(hnp.arrays(np.float64, rows, elements=st.integers(4, 14).map(float)))
    pairs = st.lists(st.tuples(st.integers(0, rows - 1), st.integers(1, 9)), max_size=5)
    by_hand = [(start, min(start + length, rows)) for start, length in sorted(data.draw(pairs))]
    for events in (None, by_hand):
        found = event_scores(scores, threshold, labels, period_s, merge_s=merge_s, events=events)
        truth = runs(labels) if events is None else events
        assert found == plain_event_scores(scores, threshold, labels, period_s, merge_s, truth)


@given(scored())
def test_a_higher_threshold_flags_less_and_finds_no_more(case):
    scores, labels = case
    found = [event_scores(scores, level, labels, MINUTE, merge_s=0) for level in range(-1, 14)]
    for lower, higher in pairwise(found):
        assert higher.found <= lower.found
        assert higher.normal_flagged <= lower.normal_flagged
    assert found[0].recall == 1
    assert found[-1].recall == 0


@given(st.lists(scored(), min_size=1, max_size=4))
def test_pooled_hosts_weigh_by_events_and_days(cases):
    parts = [event_scores(scores, 6.0, labels, MINUTE) for scores, labels in cases]
    together = pooled(parts)
    assert together.events == sum(len(runs(labels)) for _, labels in cases)
    assert together.days == pytest.approx(sum(len(labels) for _, labels in cases) / 1440)
    assert len(together.delays_min) == together.found == sum(part.found for part in parts)
    assert min(p.recall for p in parts) <= together.recall <= max(p.recall for p in parts)


@given(hnp.arrays(bool, st.integers(0, 40)))
def test_runs_cover_exactly_the_flagged_rows(flags):
    spans = runs(flags)
    again = np.zeros(len(flags), dtype=bool)
    for start, end in spans:
        again[start:end] = True
    assert (again == flags).all()
    assert all(one[1] < other[0] for one, other in pairwise(spans))
