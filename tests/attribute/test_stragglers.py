"""Stragglers among the hosts of a job: an incident of its own, on until a comparison no longer names it."""

from __future__ import annotations

from dataclasses import replace

from incident_samples import at, incident_at

from reveal_core.attribute.fleet import fleet_incidents
from reveal_core.attribute.stragglers import end_straggler, note_straggler, straggler_incident
from reveal_core.attribute.tracking import follow
from reveal_core.incidents import OPEN, RESOLVED, STRAGGLER, Incident
from reveal_core.ledger import Ledger
from reveal_core.odd_hosts import Straggler, StragglerMetric

HOUR = 3600.0
EMPTY = Ledger("node-7")
BANDWIDTH = StragglerMetric(
    "memory.bandwidth", 59.2e9, 66.8e9, -11.4, "down", 0.6, "B/s", "memory", "value", 64.1e9, 69.3e9
)
IPC = StragglerMetric(
    "perf.ipc", 1.47, 1.56, -5.8, "down", 0.3, "instructions/cycle", "cpu", "mean", 1.54, 1.59
)
SAME = StragglerMetric("cpu.flops", 2e11, 2e11, 0.02, "up", 0.1, "flop/s", "cpu", "value", 1.9e11, 2.1e11)


def straggler(
    start: float, end: float, *, on: bool = True, job: str = "17", host: str = "node-7"
) -> Straggler:
    return Straggler(host, job, at(start), at(end), on, 6.0, 11.4, 31, (BANDWIDTH, IPC, SAME))


def noted(ledger: Ledger, start: float, end: float, **more: object) -> tuple[Ledger, Incident]:
    found = straggler(start, end, **more)  # type: ignore[arg-type]
    incident = straggler_incident(found, ledger, threshold=3.0)
    return note_straggler(ledger, incident), incident


def test_it_says_how_the_host_stands_among_its_peers() -> None:
    _, incident = noted(EMPTY, 0, HOUR)
    assert (incident.cause, incident.job, incident.state, incident.score) == (STRAGGLER, "17", OPEN, 2.0)
    assert (incident.start, incident.end) == (at(0), at(HOUR))
    assert [(share.name, round(share.share, 2)) for share in incident.subsystems] == [
        ("memory", 0.6),
        ("cpu", 0.4),
    ]
    assert incident.subsystem == "memory"
    cause = incident.causes[0]
    assert cause.confidence > 0.9
    assert cause.evidence == (
        "node-7 has 11 % less memory.bandwidth than the median of 31 peers of job 17: 59.2 GB/s against "
        "66.8 GB/s, all of them 64.1 to 69.3 GB/s",
        "node-7 has 5.8 % less perf.ipc than the median of 31 peers of job 17: 1.47 instructions/cycle "
        "against 1.56 instructions/cycle, all of them 1.54 to 1.59 instructions/cycle",
    )
    first = incident.metrics[0]
    assert (first.value, first.peers, first.peers_low, first.peers_high) == (59.2e9, 31, 64.1e9, 69.3e9)
    assert (first.normal_low, first.normal_high, first.direction) == (64.1e9, 69.3e9, "down")


def test_it_is_one_incident_over_several_runs_until_it_is_over() -> None:
    ledger, first = noted(EMPTY, 0, HOUR)
    for minute in (5, 10, 15):
        ledger, incident = noted(ledger, minute * 60, HOUR + minute * 60)
        assert (incident.id, incident.start) == (first.id, at(0))
    (entry,) = ledger.entries
    assert (entry.state, entry.count, len(entry.episodes), entry.job) == (OPEN, 1, 1, "17")
    assert (entry.first, entry.end) == (at(0), at(HOUR + 900))
    (entry,) = end_straggler(ledger, "17", at(HOUR + 1200)).entries
    assert (entry.state, entry.cleared, entry.end) == (RESOLVED, at(HOUR + 1200), at(HOUR + 900))


def test_calm_windows_do_not_end_it_and_windows_are_no_part_of_it() -> None:
    ledger, _ = noted(EMPTY, 0, HOUR)
    fault = incident_at(1000, 3000, host="node-7", state=OPEN)
    ledger = follow(ledger, [fault], at(0), at(HOUR))
    assert [(e.cause, e.state, e.count) for e in ledger.entries] == [
        (STRAGGLER, OPEN, 1),
        ("packet-loss", RESOLVED, 1),
    ]
    ledger = follow(ledger, [], at(HOUR), at(9 * HOUR))
    assert [entry.state for entry in ledger.entries] == [OPEN, RESOLVED]
    ledger, _ = noted(ledger, 900, 4500)
    assert [entry.count for entry in ledger.entries] == [1, 1]


def test_of_another_job_it_is_another_entry_of_the_same_kind() -> None:
    ledger, first = noted(EMPTY, 0, HOUR)
    ledger, second = noted(end_straggler(ledger, "17", at(HOUR)), 600, HOUR + 600, job="18")
    assert [entry.job for entry in ledger.entries] == ["17", "18"]
    assert first.id != second.id
    # A person who says that it is known need not say so for each job.
    assert first.fingerprint == second.fingerprint
    assert end_straggler(ledger, "17", at(9 * HOUR)).entries[1].state == OPEN


def test_a_range_that_is_over_is_noted_as_over() -> None:
    ledger, incident = noted(EMPTY, 0, HOUR, on=False)
    assert (incident.state, ledger.entries[0].state, ledger.entries[0].cleared) == (
        RESOLVED,
        RESOLVED,
        at(HOUR),
    )
    # Slow again within the hours that overlap: it never was anything else.
    ledger, again = noted(ledger, 1800, HOUR + 1800)
    assert again.id == incident.id
    (entry,) = ledger.entries
    assert (entry.state, entry.cleared, entry.count) == (OPEN, None, 1)


def test_an_old_stretch_that_is_judged_again_ends_nothing() -> None:
    ledger, _ = noted(EMPTY, 0, 5 * HOUR)
    assert end_straggler(ledger, "17", at(2 * HOUR)) == ledger
    ledger, old = noted(ledger, 0, HOUR, on=False)
    assert old.state == RESOLVED
    assert ledger.entries[0].state == OPEN


def test_stragglers_of_one_job_are_one_of_the_fleet_and_of_two_jobs_are_two() -> None:
    hosts = [f"node-{number}" for number in range(8)]
    found = [
        noted(Ledger(host), 0, HOUR, host=host, job=job)[1]
        for host, job in (("node-1", "17"), ("node-2", "17"), ("node-3", "18"))
    ]
    (fleet,) = fleet_incidents(found, hosts)
    assert fleet.hosts == ("node-1", "node-2")
    assert fleet.title == found[0].causes[0].title


def test_a_host_that_does_more_than_its_peers_is_told_so() -> None:
    busy = StragglerMetric("gpu.utilization", 98.0, 71.0, 38.0, "up", 1.0, "%", "gpu", "mean", 69.0, 73.0)
    incident = straggler_incident(replace(straggler(0, HOUR), metrics=(busy,)), EMPTY, threshold=3.0)
    assert incident.subsystem == "gpu"
    assert incident.causes[0].evidence == (
        "node-7 has 38 % more gpu.utilization than the median of 31 peers of job 17: 98 % against 71 %, all "
        "of them 69 to 73 %",
    )
