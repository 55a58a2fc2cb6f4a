"""Scheduled scoring follows a host: its threshold, and a change that stays."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from reveal_core.detect.threshold import Threshold
from reveal_core.errors import UsageError
from reveal_core.profiles import load_profile
from reveal_core.scores import Scores
from storage.store import Store
from tasks.following import acknowledge_regimes, follow_regime, follower_of, list_regimes
from tasks.tracking import ModelRef

NAME = "reveal-2cpu"
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
REFERENCE = ModelRef(NAME, "3", "champion", "run")


OWN = Threshold(9.0, "own", provisional=True)


@dataclass
class Fitted:
    """What following asks of a model."""

    profile: dict[str, Any]
    threshold: Threshold = OWN


MODEL: Any = Fitted(load_profile("default", {"stride_s": 60.0, "window_s": 60.0, "hold_s": 3600.0}).to_dict())


def scored(start: datetime, fused: np.ndarray, threshold: float = 5.0) -> Scores:
    time = pl.Datetime("ns", "UTC")
    starts = [start + timedelta(minutes=i) for i in range(len(fused))]
    frame = pl.DataFrame(
        {
            "start": pl.Series(starts, dtype=time),
            "end": pl.Series([s + timedelta(minutes=1) for s in starts], dtype=time),
            "coverage": np.ones(len(fused)),
            "score/z": fused,
            "fused": fused,
            "threshold": np.full(len(fused), threshold),
        }
    )
    return Scores("a", frame, ("z",))


def calm(minutes: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).exponential(0.5, minutes)


def test_the_first_run_of_an_hour_reads_days_and_later_ones_read_its_level_back(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put_scores(f"{NAME}@2", scored(NOW - timedelta(days=3), calm(3 * 1440)))
    first = follower_of(store, MODEL, REFERENCE, "a", NOW, NOW + timedelta(minutes=5))
    assert first is not None
    assert len(first.past.fused) == 3 * 1440  # what an earlier version scored counts too
    level = first.thresholds(np.array([round(NOW.timestamp()) * 10**9]), np.array([0.1]))[0]
    assert 1.0 < level < 9.0
    store.put_scores(f"{NAME}@3", scored(NOW, calm(5), threshold=level))
    later = follower_of(store, MODEL, REFERENCE, "a", NOW + timedelta(minutes=5), NOW + timedelta(minutes=10))
    assert later is not None
    assert len(later.past.fused) == 5
    ns = np.array([round(NOW.timestamp() + 300) * 10**9])
    assert later.thresholds(ns, np.array([0.1]))[0] == level
    across = follower_of(store, MODEL, REFERENCE, "a", NOW + timedelta(minutes=5), NOW + timedelta(hours=2))
    assert across is not None
    assert len(across.past.fused) > 1440


def test_a_profile_without_a_budget_follows_nothing(tmp_path: Path) -> None:
    paper: Any = Fitted(load_profile("paper").to_dict())
    store = Store(str(tmp_path))
    assert follower_of(store, paper, REFERENCE, "a", NOW, NOW + timedelta(minutes=5)) is None
    assert follow_regime(store, paper, REFERENCE, "a", scored(NOW, calm(5) + 100.0)) is None


def test_an_alarm_for_hours_is_held_frozen_and_listed_until_it_is_accepted(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put_scores(f"{NAME}@3", scored(NOW - timedelta(days=2), calm(2 * 1440)))
    regime = None
    for begin in range(0, 90, 5):
        run = scored(NOW + timedelta(minutes=begin), calm(5, begin) + 20.0)
        store.put_scores(f"{NAME}@3", run)
        regime = follow_regime(store, MODEL, REFERENCE, "a", run)
        assert (regime is not None) == (begin >= 60), begin
    assert regime is not None
    assert regime.since == NOW
    frozen = follower_of(
        store, MODEL, REFERENCE, "a", NOW + timedelta(hours=2), NOW + timedelta(hours=2, minutes=5)
    )
    assert frozen is not None
    ns = np.array([round(NOW.timestamp() + 7200) * 10**9])
    held = frozen.thresholds(ns, np.array([20.0]))[0]
    assert held < 9.0
    assert [(r["host"], r["held"]) for r in list_regimes(str(tmp_path))] == [("a", True)]
    with pytest.raises(UsageError, match=r"no host 'b' is held .* held are: a"):
        acknowledge_regimes(str(tmp_path), host="b", why="")
    done = acknowledge_regimes(str(tmp_path), host="*", why="new kernel")
    assert [(r["held"], r["why"]) for r in done] == [(False, "new kernel")]
    run = scored(NOW + timedelta(minutes=90), calm(5, 1) + 20.0)
    store.put_scores(f"{NAME}@3", run)
    assert follow_regime(store, MODEL, REFERENCE, "a", run) is None
    learns = follower_of(
        store, MODEL, REFERENCE, "a", NOW + timedelta(hours=2), NOW + timedelta(hours=2, minutes=5)
    )
    assert learns is not None
    assert learns.frozen_ns is None


def test_an_alarm_that_ends_is_over_and_scoring_it_again_changes_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    whole = scored(NOW, np.concatenate([calm(120) + 20.0, calm(60)]))
    store.put_scores(f"{NAME}@3", whole)
    fault = Scores("a", whole.frame.head(120), whole.detectors)
    assert follow_regime(store, MODEL, REFERENCE, "a", fault) is not None
    assert follow_regime(store, MODEL, REFERENCE, "a", fault) is not None
    assert follow_regime(store, MODEL, REFERENCE, "a", whole) is None
    regime = store.read_regime(NAME, "a")
    assert regime is not None
    assert regime.until == NOW + timedelta(minutes=119)
    assert follow_regime(store, MODEL, REFERENCE, "a", fault) is None
    assert store.read_regime(NAME, "a") == regime
