"""What models said of hosts, whichever judged them last."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
from storage_parts import SECOND, T0
from storage_parts import scores as plain_scores

from reveal_core.scores import Scores
from storage.store import Store

HOUR = 3600 * SECOND


def scores(start: datetime, windows: int, **more: Any) -> Scores:
    found = plain_scores(start, windows, **more)
    return replace(found, frame=found.frame.with_columns(pl.lit(2.0).alias("threshold")))


def fused(store: Store, host: str = "node-1") -> list[float]:
    found = store.read_judged([host], T0, T0 + HOUR).get(host)
    return [] if found is None else found["fused"].to_list()


def test_windows_of_several_hosts_are_found_by_range(store: Store) -> None:
    start = T0 + 44 * 60 * SECOND + 55 * SECOND  # the hour changes within
    store.put_scores("m@1", scores(start, 10))
    store.put_scores("m@1", scores(T0, 5, host="rack 7/node-2", fused=2.0))
    store.put_scores("m@1", scores(T0, 5, host="node-3"))
    found = store.read_judged(["node-1", "rack 7/node-2", "node-4"], T0, T0 + HOUR)
    assert sorted(found) == ["node-1", "rack 7/node-2"]
    frame = found["node-1"]
    assert frame.columns == ["start", "end", "coverage", "fused", "threshold"]
    assert frame["start"].to_list() == [start + SECOND * number for number in range(10)]
    cut = store.read_judged(["node-1"], start + 3 * SECOND, start + 7 * SECOND)["node-1"]
    assert cut["start"].to_list() == [start + SECOND * number for number in range(3, 7)]
    assert store.read_judged(["node-1"], T0 + HOUR, T0 + 2 * HOUR) == {}


def test_of_a_window_that_several_versions_scored_the_newest_speaks(local_store: Store) -> None:
    local_store.put_scores("m@10", scores(T0 + 2 * SECOND, 2, fused=10.0))
    local_store.put_scores("m@9", scores(T0, 5, fused=9.0))
    assert fused(local_store) == [9.0, 9.0, 10.0, 10.0, 9.0]


def test_the_model_that_judged_the_newest_window_speaks(local_store: Store) -> None:
    local_store.put_scores("other@7", scores(T0, 4, fused=7.0))
    local_store.put_scores("m@1", scores(T0, 5, fused=1.0))
    assert fused(local_store) == [1.0] * 5
    local_store.put_scores("other@7", scores(T0 + 5 * SECOND, 1, fused=7.0))
    assert fused(local_store) == [7.0] * 5


def test_scores_of_an_investigation_do_not_count(local_store: Store) -> None:
    local_store.put_scores("investigate@20261129T201500Z-investigate-0a", scores(T0, 5))
    assert fused(local_store) == []


def test_a_damaged_file_is_put_aside(local_store: Store) -> None:
    (key,) = local_store.put_scores("m@1", scores(T0, 5))
    local_store.put_scores("m@1", scores(T0, 5, host="node-2"))
    Path(local_store.url, key).write_bytes(b"PAR1?")
    assert sorted(local_store.read_judged(["node-1", "node-2"], T0, T0 + HOUR)) == ["node-2"]
    assert Path(local_store.url, "quarantine", key).read_bytes() == b"PAR1?"
