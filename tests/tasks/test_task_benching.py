"""The bench of the collector: its figures are whole, and a peer that is not installed is named."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tasks import benching
from tasks.benching import bench_collector, wide_host_cost


def test_a_wide_host_is_sampled_and_its_cost_told() -> None:
    cost = wide_host_cost(ticks=3, cpus=16, interrupt_lines=8)
    assert cost["channels"] > 16 * 10
    assert 0 < cost["tick_cpu_ms_median"] <= cost["tick_cpu_ms_max"]
    assert cost["tick_wall_ms_max"] > 0


def test_figures_are_whole_and_a_missing_peer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benching, "wide_host_cost", partial(wide_host_cost, 2, 16, 8))
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    found = bench_collector(0.5, workload=False, peers=True, folder=str(tmp_path), say=said.append)
    assert set(found["collector"]) == set(benching.PACES)
    for pace, cost in found["collector"].items():
        assert cost["channels"] > 300, pace
        assert cost["samples"] > 300, pace
        assert cost["cpu_us_per_sample"] > 0
        assert cost["bytes_per_sample"] > 0
        assert cost["resident_mib"] > 10
    assert found["collector"]["100ms"]["ticks"] == 5
    assert "node_exporter" not in found
    assert [note for note in found["notes"] if "apt-get install prometheus-node-exporter" in note]
    assert [note for note in found["notes"] if "apt-get install netdata-core" in note]
    assert any("512" in text for text in said)
    assert not list(tmp_path.iterdir())
