import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import average_precision_score

from reveal_core.evaluate.labelled import runs
from reveal_core.evaluate.vus import buffered_labels, vus_pr

REFERENCE = {
    0: 0.3763399245265254,
    1: 0.3763399245265254,
    2: 0.40106160266341506,
    7: 0.47705734355797513,
    20: 0.6479087062957575,
    40: 0.7282027013166524,
}
"""VUS-PR by the authors' program (vus 0.0.6) of `reference_case`, by window."""


def reference_case():
    """Return scores and labels without chance: events at both ends and close together, and ties."""
    rows = np.arange(400)
    labels = np.isin(rows, [*range(6), *range(100, 130), *range(138, 140), 250, *range(395, 400)])
    scores = np.round((rows * 7919 % 1009) / 1009 + 0.6 * np.roll(labels, 4), 2)
    return scores, labels


@pytest.mark.parametrize("window", REFERENCE)
def test_the_authors_program_gives_the_same(window):
    scores, labels = reference_case()
    assert vus_pr(scores, labels, window) == pytest.approx(REFERENCE[window], abs=1e-9)


@st.composite
def scored(draw):
    rows = draw(st.integers(3, 50))
    scores = draw(hnp.arrays(np.float64, rows, elements=st.integers(0, 9).map(float)))
    labels = draw(hnp.arrays(bool, rows))
    assume(labels.any() and not labels.all())
    return scores, labels


def plain_area(scores, labels, buffer):
    """One curve, a threshold at a time, with weights row by row."""
    rows, events = range(len(scores)), runs(labels)
    reach = buffer // 2
    weights = []
    for row in rows:
        weight = float(labels[row])
        for start, end in events:
            distance = max(start - row, row - end + 1)
            if 0 < distance <= reach:
                weight += (1 - distance / buffer) ** 0.5
        weights.append(min(weight, 1))
    groups = []
    for start, end in events:
        near = {row for row in rows if start - reach <= row < end + reach}
        if groups and groups[-1] & near:
            groups[-1] |= near
        else:
            groups.append(near)
    area, before = 0.0, 0.0
    for level in sorted(set(scores), reverse=True):
        flagged = [row for row in rows if scores[row] >= level]
        hit = sum(weights[row] for row in flagged)
        beside = sum(weights[row] for row in flagged if not labels[row])
        caught = sum(bool(group & set(flagged)) for group in groups) / len(groups)
        recall = min(hit / (sum(labels) + beside / 2), 1) * caught
        area += (recall - before) * hit / len(flagged)
        before = recall
    return area


@given(scored(), st.integers(0, 12))
def test_it_is_the_mean_of_plain_curves(case, window):
    scores, labels = case
    expected = np.mean([plain_area(scores, labels, buffer) for buffer in range(window + 1)])
    assert vus_pr(scores, labels, window) == pytest.approx(expected)


@given(scored(), st.integers(0, 49), st.integers(1, 9))
def test_with_one_event_and_no_buffer_it_is_average_precision(case, start, length):
    scores, _ = case
    labels = np.zeros(len(scores), dtype=bool)
    labels[min(start, len(scores) - 1) :][:length] = True
    assert vus_pr(scores, labels, window=0) == pytest.approx(average_precision_score(labels, scores))


@given(scored(), st.integers(0, 30))
def test_it_lies_within_bounds_and_is_one_for_the_labels_themselves(case, window):
    scores, labels = case
    assert 0 < vus_pr(scores, labels, window) <= 1 + 1e-12
    assert vus_pr(labels.astype(float), labels, window) == pytest.approx(1)


def test_scores_a_little_early_are_forgiven_by_buffers_only():
    labels = np.zeros(500, dtype=bool)
    labels[200:230] = True
    early = np.roll(labels, -5).astype(float)
    assert vus_pr(early, labels, window=0) < 0.72
    assert vus_pr(early, labels, window=20) > 0.8
    assert vus_pr(early, labels, window=20) > vus_pr(np.roll(labels, -25).astype(float), labels, window=20)


def test_buffers_fall_off_and_stay_within_the_rows():
    labels = np.array([0, 1, 1, 0, 0, 0, 0, 1], dtype=bool)
    found = buffered_labels(labels, runs(labels), 4)
    one, two = (3 / 4) ** 0.5, (2 / 4) ** 0.5
    assert found == pytest.approx([one, 1, 1, one, two, two, one, 1])
    assert buffered_labels(np.array([1, 0, 0, 1], dtype=bool), [(0, 1), (3, 4)], 4).max() == 1


@pytest.mark.parametrize(("window", "thresholds"), [(-1, 250), (5, 1)])
def test_senseless_settings_are_refused(window, thresholds):
    with pytest.raises(ValueError, match="below"):
        vus_pr(np.arange(2.0), np.array([True, False]), window, thresholds)
