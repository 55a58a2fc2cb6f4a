"""The publication's five cases, each in its own signature, and phases of a job, through the whole method."""

from datetime import timedelta

import pytest

from reveal_core.attribute.causes import load_causes
from reveal_core.evaluate.published import CASES, LOSS
from reveal_core.evaluate.training_host import CORES, GPUS, NODES, START, of, set_to, times, training_host
from reveal_core.incidents import OPEN, RESOLVED
from reveal_core.method import analyse, fit_model
from reveal_core.profiles import load_profile

ONSET, END, SECONDS = 30.0, 45.0, 75.0


@pytest.fixture(scope="module")
def model():
    return fit_model([training_host(180)], load_profile("default"))


def incidents(model, fault=None, **options):
    telemetry = training_host(SECONDS, seed=1, fault=fault, span=(ONSET, END), **options)
    return analyse(model, telemetry).incidents


@pytest.mark.parametrize("case", CASES, ids=[case.cause for case in CASES])
def test_a_published_case_is_named_first(model, case):
    found = incidents(model, case.fault)
    assert found
    first = found[0]
    assert abs((first.start - START).total_seconds() - ONSET) <= 1.5
    assert first.causes[0].id == case.cause
    assert first.subsystem == case.subsystem
    roles = {m.metric: m.role for m in first.metrics}
    assert set(roles.values()) <= {"cause", "symptom"}
    assert "cause" in roles.values()
    assert first.state == RESOLVED


def test_what_moved_first_and_what_followed_is_told(model):
    """Retransmissions, then interrupts, then GPUs that stall: the order of the publication's fifth case."""
    first = incidents(model, LOSS)[0]
    moved = {m.metric: m.first_moved_s for m in first.metrics}
    assert moved["tcp.RetransSegs"] <= moved["gpu.power"] - 2.0
    roles = {m.metric: m.role for m in first.metrics}
    assert roles["tcp.RetransSegs"] == "cause"
    assert roles["gpu.power"] == "symptom"


def test_an_incident_that_is_on_at_the_end_is_open(model):
    telemetry = training_host(40, seed=1, fault=LOSS, span=(ONSET, 60.0))
    last = analyse(model, telemetry).incidents[-1]
    assert last.state == OPEN
    assert last.end >= START + timedelta(seconds=36)


def test_the_jobs_own_phases_and_retransmissions_are_no_incident(model):
    assert incidents(model) == ()


def test_a_phase_that_was_never_seen_is_not_blamed_on_hardware(model):
    """The job computes half as much and exchanges as before; nothing else moves."""
    less = {
        **of("cpu.user", CORES, times(0.3)),
        **of("cpu.idle", CORES, lambda values, since: 100.0 - 0.4 * (100.0 - values)),
        **of("gpu.utilization", GPUS, times(0.3)),
        **of("gpu.power", GPUS, times(0.5)),
    }
    found = incidents(model, less)
    assert found
    for incident in found:
        assert {c.action for c in incident.causes} <= {"ignore", "check-application"}
        assert not incident.causes or incident.causes[0].confidence <= 0.2


def test_the_end_of_a_job_is_not_blamed_on_hardware(model):
    ended = {
        **of("cpu.user", CORES, times(0.02)),
        **of("cpu.idle", CORES, set_to(98.0)),
        **of("gpu.utilization", GPUS, times(0.0)),
        **of("gpu.memory_utilization", GPUS, times(0.0)),
        **of("gpu.power", GPUS, set_to(70.0)),
        **of("gpu.memory_used", GPUS, set_to(0.0)),
        **of("ib.port_xmit_data", ["mlx5_0:1"], times(0.0)),
        **of("ib.port_rcv_data", ["mlx5_0:1"], times(0.0)),
    }
    first = incidents(model, ended)[0]
    assert first.causes[0].id == "job-ended"
    hardware = {c.id for c in load_causes() if c.action in {"inspect-hardware", "drain"}}
    assert not hardware & {c.id for c in first.causes}


def test_a_pattern_that_no_cause_has_stays_unknown_and_shows_its_evidence(model):
    odd = {**of("perf.local_memory", NODES, times(20.0)), **of("gpu.pcie_rx_bytes", GPUS, times(8.0))}
    first = incidents(model, odd)[0]
    assert first.causes == ()
    assert first.cause == ""
    assert {m.role for m in first.metrics} == {""}
    assert first.metrics[0].metric.startswith(("perf.", "gpu.pcie"))
