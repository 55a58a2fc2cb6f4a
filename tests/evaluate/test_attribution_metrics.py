import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.evaluate.attribution import attribution_scores, hit_rate
from reveal_core.evaluate.labelled import Segment

METRICS = ("cpu", "load", "mem", "disk_r", "disk_w", "net")
SUBSYSTEMS = {"cpu": "cpu", "load": "cpu", "mem": "memory", "disk_r": "storage", "disk_w": "storage"}
"""That of ``net`` is not known."""

rankings = st.permutations(METRICS)
labelled = st.lists(st.sampled_from(METRICS), min_size=1, unique=True).map(tuple)


def segment(*metrics):
    return Segment(0, 5, metrics)


def test_shares_by_hand():
    found = attribution_scores(
        [
            ("cpu", "mem", "disk_r"),
            ("disk_r", "disk_w", "net", "load"),
            ("mem", "load", "cpu"),
            ("disk_w", "disk_r"),
        ],
        [segment("cpu", "mem"), segment("load", "mem"), segment("cpu"), segment("disk_r")],
        SUBSYSTEMS,
    )
    assert found.segments == found.subsystem_segments == 4
    assert (found.top1, found.top3) == (0.25, 0.75)
    # Both of two; none of two, nor of the third at 150 %; mem is not cpu; disk_w is not disk_r.
    assert found.hit100 == found.hit150 == 0.25
    assert (found.subsystem, found.no_storage_segments, found.subsystem_no_storage) == (0.5, 3, 1 / 3)


@pytest.mark.parametrize(
    ("percent", "share"),
    [(100, 1 / 3), (133, 1 / 3), (134, 2 / 3), (150, 2 / 3), (167, 1)],
)
def test_the_hit_rate_looks_at_a_rounded_down_number_of_metrics(percent, share):
    assert hit_rate(("cpu", "x", "y", "mem", "net"), ("cpu", "mem", "net"), percent) == share


@given(rankings, labelled)
def test_a_perfect_ranking_hits_everything_and_its_reverse_what_it_must(ranking, right):
    perfect = sorted(ranking, key=lambda name: name not in right)
    best = attribution_scores([perfect], [segment(*right)], SUBSYSTEMS)
    assert (best.top1, best.top3, best.hit100, best.hit150) == (1, 1, 1, 1)
    worst = attribution_scores([perfect[::-1]], [segment(*right)], SUBSYSTEMS)
    wrong = len(METRICS) - len(right)
    assert worst.top1 == (wrong == 0)
    assert worst.top3 == (wrong < 3)
    assert worst.hit100 == max(len(right) - wrong, 0) / len(right)


@given(st.lists(st.tuples(rankings, labelled), min_size=1, max_size=8))
def test_what_always_holds(cases):
    found = attribution_scores([r for r, _ in cases], [segment(*m) for _, m in cases], SUBSYSTEMS)
    assert found.top1 <= found.top3
    assert found.hit100 <= found.hit150
    assert found.no_storage_segments <= found.subsystem_segments <= found.segments == len(cases)
    single = [attribution_scores([r], [segment(*m)], SUBSYSTEMS) for r, m in cases]
    assert found.hit150 == pytest.approx(np.mean([one.hit150 for one in single]))


def test_storage_beside_another_subsystem_is_not_storage_only():
    found = attribution_scores(
        [("disk_r",)] * 2, [segment("disk_r", "disk_w"), segment("disk_r", "cpu")], SUBSYSTEMS
    )
    assert (found.subsystem_segments, found.no_storage_segments) == (2, 1)


def test_unknown_subsystems_are_never_right():
    found = attribution_scores([("net",), ("net",)], [segment("net"), segment("net", "cpu")], SUBSYSTEMS)
    assert (found.segments, found.subsystem_segments, found.subsystem) == (2, 1, 0)
    assert np.isnan(attribution_scores([("cpu",)], [segment("cpu")]).subsystem)


def test_segments_without_metrics_are_left_out_and_an_empty_ranking_is_wrong():
    found = attribution_scores([("cpu",), ()], [segment(), segment("cpu")], SUBSYSTEMS)
    assert (found.segments, found.top1, found.top3, found.hit100, found.subsystem) == (1, 0, 0, 0, 0)
    nothing = attribution_scores([], [])
    assert nothing.segments == 0
    assert np.isnan(nothing.top1)


def test_rankings_have_to_be_one_per_segment_without_repeats():
    with pytest.raises(ValueError, match="names a metric twice"):
        attribution_scores([("cpu", "cpu")], [segment("cpu")])
    with pytest.raises(ValueError):
        attribution_scores([("cpu",)], [])
