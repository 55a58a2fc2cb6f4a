from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.evaluate.matching import InjectedFault, false_incidents, match_faults
from reveal_core.incidents import CauseFinding, Incident, SubsystemShare

START = datetime(2026, 11, 29, 20, 0, tzinfo=UTC)


def at(second: float) -> datetime:
    return START + timedelta(seconds=second)


def fault(second: float, length: float = 8.0, **more) -> InjectedFault:
    return InjectedFault("packet-loss", "network", at(second), at(second + length), **more)


def incident(second: float, subsystem="network", causes=("packet-loss",), host="a", number=0) -> Incident:
    others = [s for s in ("network", "cpu") if s != subsystem]
    return Incident(
        id=f"{host}-{second}-{number}",
        fingerprint="f",
        host=host,
        start=at(second),
        end=at(second + 5),
        severity=1,
        probability=0.001,
        score=2.0,
        subsystem=subsystem,
        subsystems=tuple(SubsystemShare(name, 0.5) for name in (subsystem, *others)),
        metrics=(),
        causes=tuple(CauseFinding(c, c, subsystem, 0.5, (), (), "", "") for c in causes),
    )


@pytest.mark.parametrize(
    ("begins", "found", "false"),
    [(-1.001, False, True), (-1, True, False), (0, True, False), (10, True, False), (10.001, False, True)],
)
def test_found_means_that_an_incident_begins_at_the_onset(begins, found, false):
    faults, incidents = [fault(100)], [incident(100 + begins)]
    (match,) = match_faults(faults, incidents)
    assert match.found is found
    assert match.delay_s == (begins if found else None)
    assert bool(false_incidents(faults, incidents)) is false


def test_an_incident_late_within_a_long_fault_neither_finds_it_nor_is_false():
    faults, incidents = [fault(100, length=60)], [incident(130)]
    assert not match_faults(faults, incidents)[0].found
    assert false_incidents(faults, incidents) == []
    assert false_incidents([fault(100, length=29)], incidents) == incidents


def test_a_fault_s_preparation_explains_an_incident_but_is_not_its_onset():
    faults, incidents = [fault(100, begun=at(95))], [incident(96)]
    assert not match_faults(faults, incidents)[0].found
    assert false_incidents(faults, incidents) == []
    assert false_incidents(faults, [incident(94.9)])
    assert fault(100, begun=at(99.5)).span[0] == at(99)


def test_an_incident_that_was_already_on_does_not_count():
    assert not match_faults([fault(100)], [incident(60)])[0].found


def test_each_incident_finds_one_fault():
    one = incident(105)
    first, second = match_faults([fault(104), fault(100)], [one])
    assert (first.incident, second.incident) == (one, None)
    both = match_faults([fault(104), fault(100)], [one, incident(106)])
    assert [match.delay_s for match in both] == [5.0, 2.0]


def test_faults_of_another_host_are_not_found_here():
    elsewhere = [fault(100, host="b")]
    assert not match_faults(elsewhere, [incident(101, host="a")])[0].found
    assert match_faults(elsewhere, [incident(101, host="b")])[0].found
    assert len(false_incidents(elsewhere, [incident(101, host="a")])) == 1


def test_ranks_and_verdicts():
    (match,) = match_faults(
        [fault(100, causes=("bandwidth-cap", "link-flap"))],
        [incident(101, subsystem="cpu", causes=("cpu-contention", "link-flap"))],
    )
    assert (match.subsystem_right, match.subsystem_rank) == (False, 2)
    assert (match.cause_right, match.cause_rank) == (False, 2)
    (plain,) = match_faults([fault(100)], [incident(101, causes=())])
    assert (plain.subsystem_right, plain.cause_right, plain.cause_rank) == (True, False, None)


@given(
    st.lists(st.integers(0, 600), max_size=8),
    st.lists(st.integers(-20, 640), max_size=12),
)
def test_every_incident_is_used_at_most_once_and_none_is_both_found_and_false(onsets, begins):
    faults = [fault(second) for second in onsets]
    incidents = [incident(second, number=number) for number, second in enumerate(begins)]
    matches = match_faults(faults, incidents)
    used = [match.incident.id for match in matches if match.incident]
    assert len(matches) == len(faults)
    assert len(used) == len(set(used))
    assert not set(used) & {i.id for i in false_incidents(faults, incidents)}
    for match in matches:
        if match.incident is None:
            near = [i for i in incidents if -1 <= (i.start - match.fault.start).total_seconds() <= 10]
            assert {i.id for i in near} <= set(used)
