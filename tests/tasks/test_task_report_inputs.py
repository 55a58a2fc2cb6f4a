"""What a report reads of a fleet: all of it for a few hosts, of the others their own incidents' metrics."""

from __future__ import annotations

import pytest
from incident_samples import incident_at

from tasks import report_inputs
from tasks.report_inputs import kept_metrics

SHARED = {"cpu.busy"}
"""What every incident of the samples names beside its own metric."""


def struck(number: int) -> tuple[str, list]:
    host = f"node-{number:03d}"
    return host, [incident_at(0, 10, host=host, score=100.0 - number, metric=f"own.{number}")]


def test_a_bad_day_of_many_hosts_keeps_every_metric_for_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_inputs, "FEW_HOSTS", 2)
    monkeypatch.setattr(report_inputs, "MOST_DRAWN", 6)
    found = dict([*map(struck, range(8)), *((f"quiet-{n}", []) for n in range(4))])
    every = SHARED | {f"own.{number}" for number in range(6)}
    own = {f"node-{number:03d}": SHARED | {f"own.{number}"} for number in range(2, 6)}
    peers = dict.fromkeys(["node-000", "node-001", "quiet-0", "quiet-2"], every)
    assert kept_metrics(found) == {**own, **peers}


def test_hosts_of_a_small_fleet_are_all_peers() -> None:
    found = dict(struck(number) for number in range(3))
    every = SHARED | {f"own.{number}" for number in range(3)}
    assert kept_metrics(found) == dict.fromkeys(found, every)


def test_a_fleet_without_an_incident_still_tells_what_some_hosts_collect() -> None:
    found = {f"quiet-{n:03d}": [] for n in range(100)}
    kept = kept_metrics(found)
    assert len(kept) == report_inputs.FEW_HOSTS
    assert not any(kept.values())
