"""Hosts of a job held against each other by scoring: on the real stages, over a real store."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from incident_samples import incident_at
from job_samples import HOSTS, job, minutes, put_work, scored

from flows.peers import with_peers
from reveal_core.attribute.tracking import follow
from reveal_core.incidents import OPEN, RESOLVED, STRAGGLER
from reveal_core.jobtable import Job
from storage.store import Store
from tasks.runner import DirectRunner


def compare(
    store: Store, start: float, end: float, hosts: Sequence[str] = HOSTS, **more: Any
) -> dict[str, list]:
    """Return the incidents of hosts that have any, after comparing those that were scored over a range."""
    results, _ = with_peers(DirectRunner(), store.url, scored(hosts, start, end, **more))
    assert [result["host"] for result in results] == list(hosts)
    return {result["host"]: result["incidents"] for result in results if result["incidents"]}


def fill(
    path: Path,
    until: int,
    slower: Sequence[tuple[float, float, float]] = (),
    jobs: Sequence[Job] = (job("1234"),),
    hosts: Sequence[str] = HOSTS,
    **more: Any,
) -> Store:
    """Store what hosts do until a minute, of which n3 is the slower one, and jobs."""
    store = Store(str(path / "store"))
    for host in hosts:
        put_work(store, host, until, slower=slower if host == "n3" else (), **more)
    store.put_jobs(jobs)
    return store


def test_a_slow_host_is_one_incident_over_several_runs_and_over_once_it_is_repaired(tmp_path: Path) -> None:
    store = fill(tmp_path, 150, [(0, 90, 0.1)])
    found = compare(store, 0, 60)
    assert list(found) == ["n3"]
    (name,) = found["n3"]
    incident = store.read_incident(name)
    assert incident is not None
    assert (incident.cause, incident.job, incident.state) == (STRAGGLER, "1234", OPEN)
    assert (incident.start, incident.end) == (minutes(0), minutes(60))
    assert {metric.metric for metric in incident.metrics} == {"cpu.flops", "memory.bandwidth", "perf.ipc"}
    told = " ".join(incident.causes[0].evidence)
    assert re.search(
        r"n3 has (9\.\d|10|11) % less memory\.bandwidth than the median of 7 peers of job 1234: \d", told
    )
    assert store.stragglers() == {"n3": ("1234",)}
    for minute in (65, 70):
        assert compare(store, minute - 5, minute) == found
    (entry,) = store.ledger("n3").entries
    assert (entry.cause, entry.state, entry.count, entry.job) == (STRAGGLER, OPEN, 1, "1234")
    assert (entry.first, entry.end) == (minutes(0), minutes(70))
    assert compare(store, 120, 125) == {}
    (entry,) = store.ledger("n3").entries
    assert (entry.state, entry.cleared, entry.end) == (RESOLVED, minutes(125), minutes(70))
    closed = store.read_incident(name)
    assert closed is not None
    assert closed.state == RESOLVED
    assert store.stragglers() == {}
    assert all(store.ledger(host).entries == () for host in HOSTS if host != "n3")


def test_a_straggler_that_one_comparison_does_not_name_is_not_over_yet(tmp_path: Path) -> None:
    store = fill(tmp_path, 100, [(0, 50, 0.1)])
    found = compare(store, 0, 60)
    assert list(found) == ["n3"]
    assert compare(store, 65, 70) == found  # it is shown as long as it is on
    (entry,) = store.ledger("n3").entries
    assert (entry.state, entry.end) == (OPEN, minutes(60))
    assert compare(store, 90, 95) == {}
    (entry,) = store.ledger("n3").entries
    assert (entry.state, entry.cleared) == (RESOLVED, minutes(95))


def test_a_run_that_is_done_again_changes_nothing(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, [(0, 60, 0.1)])
    first = compare(store, 0, 60)
    ledger, works = store.ledger("n3"), store.works(HOSTS)
    assert compare(store, 0, 60) == first
    assert (store.ledger("n3"), store.works(HOSTS)) == (ledger, works)


def test_only_new_minutes_are_read_from_telemetry(tmp_path: Path) -> None:
    store = fill(tmp_path, 90, [(0, 90, 0.1)])
    found = compare(store, 0, 60)
    (work, *_) = store.works(["n3"])
    assert work is not None
    assert (work.first, work.last) == (minutes(0), minutes(60))
    shutil.rmtree(tmp_path / "store/telemetry/date=2026-11-29/hour=12")
    assert compare(store, 60, 65) == found
    (work, *_) = store.works(["n3"])
    assert work is not None
    assert work.last == minutes(65)
    assert all(None not in row for row in work.values)


def test_telemetry_that_came_late_is_looked_at_again(tmp_path: Path) -> None:
    store = fill(tmp_path, 30, [(0, 60, 0.1)])
    put_work(store, "n0", 90)
    assert compare(store, 0, 60, ["n0"]) == {}
    assert compare(store, 0, 60) == {}
    for host in HOSTS[1:]:
        put_work(store, host, 90, slower=[(0, 90, 0.1)] if host == "n3" else ())
    # What each run was told to judge is what has changed since the last one.
    assert list(compare(store, 0, 60)) == ["n3"]


def test_a_job_that_is_too_small_compares_nobody(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, [(0, 60, 0.3)], [job("1", HOSTS[:3]), job("2", HOSTS[3:6])])
    assert compare(store, 0, 60) == {}
    assert store.works(HOSTS) == [None] * 8
    # Hosts of a job that were not scored are no peers.
    store.put_jobs([job("3")])
    assert compare(store, 0, 60, HOSTS[:3]) == {}


def test_a_host_that_runs_two_jobs_is_no_peer_of_those_that_run_one(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, [(0, 60, 0.3)], [job("1"), job("2", ["n3", "elsewhere"])])
    assert compare(store, 0, 60) == {}
    both = fill(tmp_path / "both", 60, [(0, 60, 0.3)], [job("1"), job("2")])
    (name,) = compare(both, 0, 60)["n3"]
    incident = both.read_incident(name)
    assert incident is not None
    assert incident.job == "1, 2"
    assert "7 peers of job 1, 2:" in incident.causes[0].evidence[0]


def test_hosts_whose_telemetry_names_the_same_job_are_peers_without_a_table(tmp_path: Path) -> None:
    facts = {"job": {"id": "emmy"}}
    store = fill(tmp_path, 60, [(0, 60, 0.1)], (), facts=facts)
    assert compare(store, 0, 60) == {}
    found = compare(store, 0, 60, facts=facts)
    assert list(found) == ["n3"]
    incident = store.read_incident(found["n3"][0])
    assert incident is not None
    assert incident.job == "emmy"


@pytest.mark.parametrize("end", [62.0, None])
def test_a_straggler_is_none_any_more_when_its_job_is_over(tmp_path: Path, end: float | None) -> None:
    store = fill(tmp_path, 70, [(0, 70, 0.1)], [job("1", end=end)])
    assert list(compare(store, 0, 60)) == ["n3"]
    store.put_jobs([job("1", end=62)])  # a scheduler tells of the end when it has come
    assert compare(store, 60, 65) == {}
    (entry,) = store.ledger("n3").entries
    assert (entry.state, entry.cleared) == (RESOLVED, minutes(65))
    assert store.stragglers() == {}


def test_a_straggler_that_is_not_compared_stays_for_a_day(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, [(0, 60, 0.1)], [job("1", end=4000)])
    assert list(compare(store, 0, 60)) == ["n3"]
    few = ["n0", "n1"]
    assert compare(store, 1000, 1005, few) == {}
    assert store.stragglers() == {"n3": ("1",)}
    assert compare(store, 1600, 1605, few) == {}
    assert store.stragglers() == {}
    assert store.ledger("n3").entries[0].state == RESOLVED


def test_incidents_that_windows_show_name_the_job_too(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, jobs=[job("1", end=30), job("2", start=30)])
    early = incident_at(600, 620, host="n1")
    late = incident_at(2400, 2420, host="n1")
    for one in (early, late):
        store.put_incident(one)
    store.put_ledger(follow(store.ledger("n1"), [early, late], minutes(0), minutes(60)))
    found = compare(store, 0, 60, incidents={"n1": [early.id, late.id]})
    assert found == {"n1": [early.id, late.id]}
    assert [(one and one.job) for one in map(store.read_incident, found["n1"])] == ["1", "2"]
    assert [entry.job for entry in store.ledger("n1").entries] == ["1", "2"]


def test_jobs_of_other_hosts_are_told_of(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, jobs=[job("1", [f"{host}.cluster" for host in HOSTS])])
    results, notes = with_peers(DirectRunner(), store.url, scored(HOSTS, 0, 60))
    assert all(result["incidents"] == [] for result in results)
    (note,) = notes
    assert "jobs name n0.cluster, telemetry names n0" in note


def test_what_is_compared_is_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(tmp_path, 60, [(0, 60, 0.1)])
    monkeypatch.setenv("REVEAL_PEERS__METRICS", "[]")
    assert compare(store, 0, 60) == {}
    monkeypatch.setenv("REVEAL_PEERS__METRICS", '["perf.*"]')
    monkeypatch.setenv("REVEAL_PEERS__EFFECT", "0.2")
    assert compare(store, 0, 60) == {}
    monkeypatch.delenv("REVEAL_PEERS__EFFECT")
    monkeypatch.setenv("REVEAL_PEERS__SPAN", "20m")
    (name,) = compare(store, 40, 60)["n3"]
    incident = store.read_incident(name)
    assert incident is not None
    assert [metric.metric for metric in incident.metrics] == ["perf.ipc"]
    assert incident.start == minutes(40)


def test_without_jobs_nothing_is_read_or_written(tmp_path: Path) -> None:
    store = fill(tmp_path, 60, [(0, 60, 0.3)], ())
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert compare(store, 0, 60) == {}
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
