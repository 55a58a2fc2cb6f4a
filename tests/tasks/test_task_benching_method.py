"""The benches of features and scoring: figures are whole, and a peer that is not installed is named."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reveal_core.lab.sample_host import SampleHost
from storage.store import Store
from tasks import benching_method
from tasks.benching_method import bench_features, bench_scoring

START = datetime(2026, 1, 5, tzinfo=UTC)


def without(_seconds: float, _channels: int) -> dict:
    raise ImportError("No module named 'tsfresh'", name="tsfresh")


def test_features_are_measured_beside_pandas_and_a_missing_peer_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(benching_method, "apart", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(benching_method, "_tsfresh", without)
    said: list[str] = []
    found = bench_features(30.0, 20, peers=True, say=said.append)
    assert (found["rows"], found["channels"], found["windows"]) == (300, 20, 28)
    assert found["seconds"] > 0
    assert found["pandas_ratio"] == pytest.approx(found["pandas_seconds"] / found["seconds"], abs=0.06)
    assert "tsfresh_ratio" not in found
    assert found["notes"] == ["tsfresh was not measured, it is not installed (pip install tsfresh)"]
    assert len(said) == 3


def test_scoring_is_measured_from_the_store_to_incidents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benching_method, "apart", lambda function, *arguments: function(*arguments))
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setitem(os.environ, "POLARS_MAX_THREADS", "2")
    found = bench_scoring(330.0, 40, folder=str(tmp_path))
    assert (found["channels"], found["windows"], found["incidents"]) == (40, 328, 1)
    assert found["rows"] == 3400  # ten seconds before the range warm up
    assert found["score_seconds"] == pytest.approx(
        found["read_seconds"] + found["analyse_seconds"], abs=0.002
    )
    assert found["newest_seconds"] > 0
    assert found["publish_seconds"] > 0
    assert found["peak_mib"] >= found["resting_mib"] > 10
    assert not list(tmp_path.iterdir())


def test_a_sample_host_is_what_the_collector_would_have_written(tmp_path: Path) -> None:
    host = SampleHost("made-up", START, channels=120, seed=3, missing=0.01)
    store = Store(str(tmp_path))
    for segment in host.segments(90.0):
        store.put_segment(segment)
    telemetry = store.read_telemetry("made-up", START, host.end(90.0)).telemetry
    assert telemetry.frame.height == 900
    assert len(telemetry.channels) == 120
    nulls = telemetry.frame.null_count().row(0)
    assert 0 < max(nulls) < 30
    once, again = (
        [s.data for s in SampleHost("made-up", START, channels=120, seed=3).segments(10.0)] for _ in range(2)
    )
    assert once == again
