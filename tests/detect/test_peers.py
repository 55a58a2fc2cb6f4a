"""Peers against each other: who is named, who is not, and what is not said where nothing can be said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from reveal_core.detect.across import known_median, weighted_median
from reveal_core.detect.peer_windows import align_windows
from reveal_core.detect.peers import PeerDetector
from reveal_core.errors import UsageError
from reveal_core.windows import Feature, Windows

HOSTS = tuple(f"node-{number}" for number in range(8))
METRICS = ("ipc", "memory", "flops", "network", "reads", "busy")
LEVELS = np.array([1.5, 60.0, 200.0, 3e8, 40.0, 95.0])


def job(windows: int = 120, hosts: int = 8, seed: int = 0) -> np.ndarray:
    """Return a job whose hosts follow one rhythm, each with a noise of 2 %."""
    draw = np.random.default_rng(seed)
    rhythm = 1.0 + 0.3 * np.sin(np.arange(windows) / 7.0)
    noise = draw.normal(1.0, 0.02, size=(windows, hosts, len(METRICS)))
    return np.asarray(LEVELS * rhythm[:, None, None] * noise)


def slowed(values: np.ndarray, host: int, by: float = 0.1, metrics: tuple[int, ...] = (0, 1)) -> np.ndarray:
    values[:, host, metrics] *= 1.0 - by
    return values


def test_a_slow_host_is_named_with_the_metrics_behind_it() -> None:
    values = slowed(job(), 5)
    # A burst of a few windows on another host is no lasting difference.
    values[40:44, 2] *= 4.0
    (odd,) = PeerDetector().odd_hosts(values, HOSTS, METRICS)
    assert odd.host == "node-5"
    assert odd.score > 5.0
    assert odd.deviation_pct == pytest.approx(10.0, abs=1.5)
    assert [one.metric for one in odd.metrics[:2]] in (["ipc", "memory"], ["memory", "ipc"])
    memory = next(one for one in odd.metrics if one.metric == "memory")
    assert (memory.direction, memory.deviation_pct) == ("down", pytest.approx(-10.0, abs=1.5))
    assert memory.value == pytest.approx(0.9 * memory.peers, rel=0.02)
    assert memory.peers == pytest.approx(60.0, rel=0.05)
    assert sum(one.share for one in odd.metrics) == pytest.approx(1.0)
    assert sum(one.share for one in odd.metrics[:2]) > 0.8


def test_a_host_that_does_more_than_its_peers_is_named_too() -> None:
    (odd,) = PeerDetector().odd_hosts(slowed(job(), 1, by=-0.2, metrics=(3,)), HOSTS, METRICS)
    assert (odd.host, odd.metrics[0].metric, odd.metrics[0].direction) == ("node-1", "network", "up")


def test_what_is_certain_but_small_is_not_named() -> None:
    values = slowed(job(windows=2000), 5, by=0.03, metrics=tuple(range(6)))
    scores = PeerDetector().compare(values)
    assert scores.score[0, 5] > 5.0
    assert scores.deviation[0, 5] == pytest.approx(0.03, abs=0.01)
    assert not scores.named.any()


def test_one_slow_host_does_not_hide_the_next() -> None:
    values = slowed(slowed(slowed(job(), 0, by=0.3), 3, by=0.15), 6)
    assert PeerDetector().odd_hosts(values, HOSTS, METRICS)[0].host == "node-0"
    assert set(np.flatnonzero(PeerDetector().compare(values).named[0])) == {0, 3, 6}


def test_most_hosts_are_never_odd() -> None:
    values = job(hosts=4)
    for host, factor in enumerate((1.0, 1.5, 2.0, 3.0)):
        values[:, host] *= factor
    assert PeerDetector().compare(values).named.sum() <= 1


def test_spans_are_judged_one_after_the_other_and_do_not_see_what_comes() -> None:
    values = job(windows=200)
    values[100:, 4, :2] *= 0.85
    scores = PeerDetector(span=60, every=20).compare(values)
    assert scores.ends.tolist() == [60, 80, 100, 120, 140, 160, 180, 200]
    assert not scores.named[:3].any()
    assert scores.named[-3:, 4].all()
    assert np.delete(scores.named, 4, axis=1).sum() == 0
    early = PeerDetector(span=60, every=20).compare(values[:160])
    np.testing.assert_array_equal(early.score, scores.score[:6])
    assert scores.contributions.shape == (8, 8, 6)
    np.testing.assert_allclose(scores.contributions.sum(axis=2), scores.score)


def test_few_of_many_features_are_found_by_the_strongest() -> None:
    draw = np.random.default_rng(3)
    values = draw.normal(100.0, 2.0, size=(60, 8, 300))
    values[:, 6, :12] *= 0.9
    mean, strongest = (PeerDetector(strongest=count).compare(values) for count in (None, 10))
    assert not mean.named.any()
    assert np.flatnonzero(strongest.named[0]).tolist() == [6]
    assert np.delete(strongest.score[0], 6).max() < 3.0
    assert np.flatnonzero(strongest.contributions[0, 6]).max() < 12


def test_missing_samples_windows_and_hosts_are_left_out() -> None:
    values = slowed(job(), 5)
    values[np.random.default_rng(1).random(values.shape[:2]) < 0.1] = np.nan
    values[:, 7] = np.nan
    values[90:, 3] = np.nan
    values[20:30] = np.nan
    scores = PeerDetector().compare(values)
    assert np.isnan(scores.score[0]).tolist() == [False] * 7 + [True]
    assert np.flatnonzero(scores.named[0]).tolist() == [5]
    # With a third of the samples a host is not judged.
    values[45:, 3] = np.nan
    assert np.isnan(PeerDetector().anomaly_score(values)[0, [3, 7]]).all()


def test_a_host_seen_in_one_half_only_shows_nothing_that_lasts() -> None:
    values = slowed(job(), 5, by=0.4)
    values[60:, 5] = np.nan
    scores = PeerDetector().compare(values)
    assert scores.score[0, 5] > 3.0
    assert (scores.deviation[0, 5], scores.named.any()) == (0.0, False)


def test_a_metric_that_is_the_same_everywhere_does_not_count() -> None:
    values = slowed(job(), 5)
    still = np.concatenate([values, np.full((120, 8, 4), 7.0), np.zeros((120, 8, 2))], axis=2)
    plain, diluted = (PeerDetector().compare(one) for one in (values, still))
    np.testing.assert_allclose(plain.score, diluted.score)
    nothing = PeerDetector().compare(np.full((10, 8, 3), 5.0))
    assert np.isnan(nothing.score).all()
    assert not nothing.named.any()


def test_an_event_on_one_host_alone_counts_as_far_as_its_floor_says() -> None:
    values = job()
    values[:, :, 4] = 0.0
    values[:, 2, 4] = 50.0
    (odd,) = PeerDetector().odd_hosts(values, HOSTS, METRICS)
    assert (odd.host, odd.metrics[0].metric) == ("node-2", "reads")
    assert odd.metrics[0].deviation_pct == pytest.approx(100.0)
    floors = np.array([0.0, 0.0, 0.0, 0.0, 5000.0, 0.0])
    assert PeerDetector(floors=floors).odd_hosts(values, HOSTS, METRICS) == ()


def test_too_few_hosts_or_windows_are_refused_and_hosts_that_are_not_there_do_not_count() -> None:
    with pytest.raises(UsageError, match="3 hosts are too few to compare with each other: 4 at least"):
        PeerDetector().compare(job(hosts=3))
    with pytest.raises(UsageError, match="120 windows are too few to compare peers over 121"):
        PeerDetector(span=121).compare(job())
    values = job(hosts=5)
    values[:, :2] = np.nan
    assert np.isnan(PeerDetector().anomaly_score(values)).all()


@pytest.mark.parametrize(
    ("detector", "values", "message"),
    [
        (PeerDetector(), np.zeros((5, 8)), "windows by hosts by metrics"),
        (PeerDetector(), np.zeros((5, 8, 0)), "windows by hosts by metrics"),
        (PeerDetector(), np.full((5, 8, 2), np.inf), "infinite"),
        (PeerDetector(least_hosts=2), np.zeros((5, 8, 2)), "least_hosts must be 3"),
        (PeerDetector(every=0), np.zeros((5, 8, 2)), "must be 1 at least"),
        (PeerDetector(span=0), np.zeros((5, 8, 2)), "must be 1 at least"),
        (PeerDetector(strongest=0), np.zeros((5, 8, 2)), "strongest must be 1"),
        (PeerDetector(floors=[1.0]), np.zeros((5, 8, 2)), "1 floors for 2 metrics"),
    ],
)
def test_what_makes_no_sense_is_refused(detector: PeerDetector, values: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        detector.anomaly_score(values)
    with pytest.raises(ValueError, match="8 hosts and 2 metrics"):
        PeerDetector().odd_hosts(job(), HOSTS, METRICS[:2])


def test_it_is_an_estimator_with_nothing_to_learn() -> None:
    detector = PeerDetector(span=30, effect=0.1)
    assert clone(detector).get_params() == detector.get_params()
    values = slowed(job(), 5)
    assert detector.compare(values).score.tobytes() == clone(detector).compare(values).score.tobytes()


@settings(max_examples=25, deadline=None)
@given(
    values=arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(4, 7), st.integers(1, 3)),
        elements=st.one_of(st.just(np.nan), st.floats(-1e6, 1e6)),
    ),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_hosts_does_not_matter_and_nothing_is_infinite(values: np.ndarray, order) -> None:
    scores = PeerDetector().compare(values)
    assert not np.isinf(scores.score).any()
    assert (scores.score[~np.isnan(scores.score)] >= 0.0).all()
    assert not (scores.named & np.isnan(scores.score)).any()
    assert (scores.contributions >= 0.0).all()
    places = list(range(values.shape[1]))
    order.shuffle(places)
    shuffled = PeerDetector().compare(values[:, places])
    # Hosts that are exactly alike may change places; who stands alone keeps its score.
    if not scores.named.any():
        np.testing.assert_allclose(shuffled.score, scores.score[:, places])


def test_medians_across_hosts() -> None:
    values = np.array([[1.0, np.nan, 5.0, 2.0], [np.nan] * 4, [4.0, 2.0, np.nan, np.nan]])
    np.testing.assert_allclose(known_median(values, 1)[:, 0], [2.0, np.nan, 3.0])
    weights = np.array([[1.0, 0.0, 5.0, 1.0], [0.0] * 4, [1.0, 1.0, 0.0, 0.0]])
    np.testing.assert_allclose(weighted_median(values, weights), [5.0, np.nan, 2.0])


def windows_of(host: str, values: np.ndarray, first: int, features: tuple[str, ...] = METRICS) -> Windows:
    """Return windows of 3 s, one a second, of a host whose telemetry begins a while after the others'."""
    begin = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)
    starts = [begin + timedelta(seconds=first + number) for number in range(len(values))]
    columns = {f"{name}:value:level": values[:, place] for place, name in enumerate(features)}
    frame = pl.DataFrame(
        {"start": starts, "end": [start + timedelta(seconds=3) for start in starts], **columns},
        schema_overrides={"start": pl.Datetime("ns", "UTC"), "end": pl.Datetime("ns", "UTC")},
    ).with_columns(coverage=pl.lit(1.0))
    made = tuple(Feature(f"{name}:value:level", name, "value", "level", "cpu", "") for name in features)
    return Windows(host, frame.fill_nan(None), made)


def test_windows_of_dense_telemetry_are_compared_by_their_start() -> None:
    values = slowed(job(windows=130), 5)
    values[50:54, 2] *= 3.0
    values[60:70, 1] = np.nan
    parts = []
    for number, host in enumerate(HOSTS):
        width = 5 if host == "node-7" else 6
        parts.append(windows_of(host, values[number:, number, :width], number, METRICS[:width]))
    peers = align_windows(parts)
    assert (peers.hosts, len(peers.features)) == (HOSTS, 6)
    assert peers.values.shape == (130, 8, 6)
    assert np.isnan(peers.values[:3, 3]).all()
    assert not np.isnan(peers.values[3, 3]).any()
    assert np.isnan(peers.values[:, 7, 5]).all()
    np.testing.assert_array_equal(np.diff(peers.start_ns), 10**9)
    np.testing.assert_array_equal(peers.values[20, 4], values[20, 4])
    (odd,) = PeerDetector().odd_hosts(peers.values, peers.hosts, peers.features)
    assert (odd.host, odd.metrics[0].direction) == ("node-5", "down")


def test_a_host_twice_or_none_cannot_be_aligned() -> None:
    with pytest.raises(UsageError, match="no hosts to compare"):
        align_windows([])
    with pytest.raises(UsageError, match="hosts to compare: a twice"):
        align_windows([windows_of("a", job()[:, 0], 0), windows_of("a", job()[:, 1], 0)])
