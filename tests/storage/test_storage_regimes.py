"""Regimes and what was scored before, in the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from reveal_core.regimes import Regime
from reveal_core.scores import Scores
from storage.layout import parse_scores_model
from storage.store import Store

START = datetime(2026, 11, 29, 20, 59, 58, tzinfo=UTC)


def scored(host: str, fused: list[float], start: datetime = START) -> Scores:
    starts = [start + timedelta(seconds=i) for i in range(len(fused))]
    time = pl.Datetime("ns", "UTC")
    frame = pl.DataFrame(
        {
            "start": pl.Series(starts, dtype=time),
            "end": pl.Series([s + timedelta(seconds=3) for s in starts], dtype=time),
            "coverage": [1.0] * len(fused),
            "score/zscore": fused,
            "fused": fused,
            "threshold": [2.0] * len(fused),
        }
    )
    return Scores(host, frame, ("zscore",))


def test_the_newest_version_of_a_model_speaks_for_a_window(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put_scores("reveal-x@2", scored("a", [1.0, 2.0, 3.0, 4.0]))
    store.put_scores("reveal-x@10", scored("a", [30.0, 40.0], START + timedelta(seconds=2)))
    store.put_scores("reveal-x-2@11", scored("a", [99.0]))
    store.put_scores("reveal-x@11", scored("b", [99.0]))
    past = store.read_past("reveal-x", "a", START, START + timedelta(seconds=4))
    assert past["fused"].to_list() == [1.0, 2.0, 30.0, 40.0]
    assert past["version"].to_list() == [2, 2, 10, 10]
    assert past.columns == ["start", "coverage", "fused", "threshold", "version"]
    some = store.read_past("reveal-x", "a", START + timedelta(seconds=1), START + timedelta(seconds=3))
    assert some["fused"].to_list() == [2.0, 30.0]
    nothing = store.read_past("reveal-y", "a", START, START + timedelta(seconds=4))
    assert (nothing.height, nothing.columns) == (0, past.columns)


@pytest.mark.parametrize(
    ("part", "parsed"),
    [
        ("model=reveal-2cpu@3", ("reveal-2cpu", 3)),
        ("model=a%2Fb@12", ("a/b", 12)),
        ("model=investigate@20261129T2015Z", None),
        ("model=reveal", None),
        ("host=reveal@3", None),
    ],
)
def test_scores_of_a_registered_model_are_told_from_others(part: str, parsed) -> None:
    assert parse_scores_model(part) == parsed


def test_a_regime_comes_back_as_it_was_and_replaces_the_one_before(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert store.read_regime("reveal-x", "rack 7/a") is None
    regime = Regime("rack 7/a", "reveal-x", START)
    store.put_regime(regime)
    assert store.read_regime("reveal-x", "rack 7/a") == regime
    accepted = regime.acknowledge(START + timedelta(hours=1), "me", "new kernel")
    store.put_regime(accepted)
    store.put_regime(Regime("b", "reveal-x", START, until=START + timedelta(hours=3)))
    assert [r.host for r in store.regimes()] == ["b", "rack 7/a"]
    assert store.regimes()[1] == accepted


def test_a_damaged_regime_is_put_aside_and_costs_the_others_nothing(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.put_regime(Regime("a", "reveal-x", START))
    key = store.put_regime(Regime("b", "reveal-x", START))
    (tmp_path / key).write_text('{"host": "b"}')
    assert [r.host for r in store.regimes()] == ["a"]
    assert store.read_regime("reveal-x", "b") is None
    assert list((tmp_path / "quarantine").rglob("*.json"))
