"""Calibration, thresholds, fusion and scaling."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.detect.calibration import TailCalibration
from reveal_core.detect.ensemble import DetectorEnsemble
from reveal_core.detect.fusion import fuse
from reveal_core.detect.scaling import BandScaler
from reveal_core.detect.threshold import (
    budget_threshold,
    choose_threshold,
    cluster_peaks,
    margin_threshold,
)
from reveal_core.errors import UsageError


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(0, 1e3), min_size=2, max_size=200),
    st.lists(st.floats(-10, 1e4), min_size=2, max_size=50),
)
def test_a_stranger_score_never_has_a_larger_tail_probability(history, scores):
    calibration = TailCalibration().fit(history)
    logs = calibration.log_tail(np.sort(scores))
    assert (np.diff(logs) >= -1e-9).all()
    assert (logs >= 0).all()
    assert np.isfinite(logs).all()


def test_tail_probabilities_are_those_of_the_distribution():
    rng = np.random.default_rng(0)
    calibration = TailCalibration().fit(rng.exponential(size=20_000))
    for p in (0.5, 0.1, 0.01, 1e-4, 1e-6):
        assert calibration.log_tail([-np.log(p)])[0] == pytest.approx(-np.log(p), rel=0.1)
    assert calibration.shape_ < 0.1


def test_a_heavy_tail_is_seen_as_one():
    rng = np.random.default_rng(0)
    calibration = TailCalibration().fit(rng.pareto(2.0, size=20_000))
    assert calibration.shape_ == pytest.approx(0.5, abs=0.12)


def test_with_a_short_history_the_tail_is_exponential():
    assert TailCalibration().fit(np.random.default_rng(0).pareto(1.0, size=100)).shape_ == 0.0


@pytest.mark.parametrize("bad", [[1.0], [1.0, np.nan], [[1.0, 2.0]]])
def test_scores_that_cannot_calibrate_are_refused(bad):
    with pytest.raises(ValueError, match="two finite scores"):
        TailCalibration().fit(bad)


def test_fusion_is_between_mean_and_maximum():
    logs = np.array([[1.0, 3.0], [2.0, 2.0]])
    assert fuse(logs) == pytest.approx([np.sqrt(5.0), 2.0])


def test_peaks_closer_than_the_gap_are_one():
    times = np.array([0.0, 10, 20, 5000, 5010])
    scores = np.array([1.0, 5, 2, 3, 1])
    assert cluster_peaks(scores, times, 0.5, 1800.0).tolist() == [5.0, 3.0]
    assert cluster_peaks(scores, times, 9.0, 1800.0).tolist() == []


def test_the_budget_is_kept_on_the_history_it_was_set_on():
    rng = np.random.default_rng(0)
    times = np.arange(10 * 86400.0, step=60.0)
    scores = rng.exponential(size=len(times))
    threshold = budget_threshold(scores, times, 2.0, 1.5)
    events = cluster_peaks(scores, times, threshold.value - 1e-9, 1800.0)
    # One more than the 20 asked for where a cluster falls apart at the level that was chosen.
    assert 18 <= len(events) <= 22
    assert not threshold.provisional


def test_a_rarer_budget_than_the_history_reaches_beyond_it():
    rng = np.random.default_rng(0)
    times = np.arange(2 * 86400.0, step=60.0)
    scores = rng.exponential(size=len(times))
    often, rarely = (budget_threshold(scores, times, b, 1.5).value for b in (1.0, 0.01))
    assert rarely > often


def test_minutes_of_history_give_a_margin_that_says_it_is_provisional():
    scores, times = np.array([1.0, 2.0]), np.array([0.0, 60.0])
    chosen = choose_threshold(scores, times, rule="budget", margin=1.5, percentile=99, budget_per_day=1)
    # Two windows a minute apart are two minutes that were watched.
    assert chosen == margin_threshold(scores, 120.0, 1.5)
    assert chosen.value == pytest.approx(4.5)
    assert margin_threshold(scores, 3600.0, 1.5).value == pytest.approx(3.05)
    assert chosen.provisional
    with pytest.raises(UsageError, match="guess"):
        choose_threshold(scores, times, rule="guess", margin=1.5, percentile=99, budget_per_day=1)


def test_the_scaler_measures_in_standard_units_and_from_the_healthy_band():
    X = np.array([[0.0, 5.0], [2.0, 5.0], [1.0, 5.0], [1.0, np.nan]])
    scaler = BandScaler(floors=[0.0, 2.0]).fit(X)
    assert scaler.excess([[1.5, 5.0]]).tolist() == [[0.0, 0.0]]
    z, excess = scaler.transform([[1.0, 11.0]]), scaler.excess([[1.0, 11.0]])
    assert z[0].tolist() == [0.0, 3.0]
    assert excess[0].tolist() == [0.0, 3.0]
    assert scaler.transform([[np.nan, np.nan]]).tolist() == [[0.0, 0.0]]
    assert scaler.excess([[-5.0, 5.0]])[0, 0] < 0


def ensemble(**changes):
    settings = {
        "detectors": (("z", "ZScoreDetector", ()), ("x", "ExcessDetector", (("count", 2),))),
        "floors": np.full(6, 0.1),
        "kept": np.array([0, 1, 2, 4]),
    }
    return DetectorEnsemble(**{**settings, **changes})


def test_held_out_scores_come_from_detectors_that_did_not_see_the_window():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 6))
    X[50, 0] = 30.0
    fitted = ensemble(trim=0.0).fit(X, np.arange(100.0))
    # A detector that had seen the odd window would have it inside its range.
    assert fitted.held_out_.argmax() == 50
    assert fitted.held_out_[50] > 2 * np.quantile(fitted.held_out_, 0.9)


def test_detectors_do_not_see_pruned_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 6))
    fitted = ensemble().fit(X, np.arange(100.0))
    other = X.copy()
    other[:, 3] += 100.0
    assert (fitted.member_scores(other) == fitted.member_scores(X)).all()


def test_an_unknown_detector_is_named():
    with pytest.raises(UsageError, match="Oracle"):
        ensemble(detectors=(("o", "Oracle", ()),)).fit(np.zeros((60, 6)), np.arange(60.0))


def test_a_blip_in_healthy_history_does_not_set_the_measure_for_faults():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    clean = ensemble().fit(X, np.arange(120.0))
    X[50:54, :3] += 40.0
    blip = ensemble().fit(X, np.arange(120.0))
    untrimmed = ensemble(trim=0.0).fit(X, np.arange(120.0))
    assert blip.n_trimmed_ >= 4
    fault = np.zeros((1, 6))
    fault[0, 4] = 30.0

    def ratio(fitted):
        return fuse(fitted.log_tails(fitted.member_scores(fault)))[0] / fitted.threshold_

    assert ratio(clean) > 1.0
    assert ratio(blip) > 1.0
    assert ratio(untrimmed) < ratio(blip)


def test_no_more_than_its_share_of_the_history_is_trimmed():
    rng = np.random.default_rng(1)
    for trim in (0.0, 0.05, 0.2):
        fitted = ensemble(trim=trim).fit(rng.normal(size=(200, 6)), np.arange(200.0))
        assert fitted.n_trimmed_ <= trim * 200
        assert len(fitted.held_out_) == 200 - fitted.n_trimmed_


def test_a_certain_fault_in_the_past_uses_up_nothing_of_the_budget():
    times = np.arange(3 * 1440) * 60.0
    scores = np.random.default_rng(0).exponential(size=len(times))
    struck = scores.copy()
    struck[[500, 1500, 2500, 3500]] = [60.0, 70.0, 80.0, 90.0]
    calm = budget_threshold(scores, times, 1.0, 1.5).value
    assert budget_threshold(struck, times, 1.0, 1.5).value > 2.0 * calm
    assert budget_threshold(struck, times, 1.0, 1.5, certain=50.0).value == pytest.approx(calm, rel=0.05)
    assert budget_threshold(scores, times, 1.0, 1.5, certain=0.0).value == calm
