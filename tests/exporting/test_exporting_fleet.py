"""What is told of a fleet: levels of the newest windows, counts that never fall, hosts by their ledgers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from exporting_samples import DAY_S, NOW, UNTIL, judged, windows
from incident_samples import at, incident_at

from reveal_core.attribute.silence import note_silence, silent_incident
from reveal_core.exporting.fleet import Comings, FleetState, Levels, host_state, levels_of
from reveal_core.ledger import Ledger, begun_by


def test_levels_are_of_the_last_five_minutes() -> None:
    frame = windows(at(0), [9.0] * 300 + [0.5] * 298 + [2.5, 1.5])
    assert levels_of(frame, at(600)) == Levels(score=1.5, highest=2.5, coverage=1.0)


def test_windows_without_samples_count_for_coverage_alone() -> None:
    frame = windows(at(0), [0.5, 1.25, None, None])
    assert levels_of(frame, at(4)) == Levels(score=1.25, highest=1.25, coverage=0.5)
    assert levels_of(windows(at(0), [None, None]), at(2)) == Levels(None, None, 0.0)


@pytest.mark.parametrize("threshold", [0.0, float("nan")])
def test_a_score_without_a_threshold_is_none(threshold: float) -> None:
    found = levels_of(windows(at(0), [1.0, 1.0], threshold=threshold), at(2))
    assert found == Levels(None, None, 1.0)


def test_there_are_no_levels_without_windows() -> None:
    assert levels_of(windows(at(0), [1.0]), at(900)) is None
    assert levels_of(windows(at(0), []), at(900)) is None


def test_each_coming_is_counted_once_whatever_becomes_of_its_incident() -> None:
    comings = Comings()
    entry = begun_by(incident_at(10, 20, ""))
    comings.add("node-1", [entry])
    comings.add("node-1", [entry])
    assert comings.totals == {("node-1", "network", "unknown"): 1}
    # It comes again twice, and a stronger incident tells what it is.
    known = replace(entry, count=3, cause="packet-loss")
    comings.add("node-1", [known])
    assert comings.totals == {("node-1", "network", "unknown"): 1, ("node-1", "network", "packet-loss"): 2}
    before = dict(comings.totals)
    comings.add("node-1", [])  # it is long over and has left the ledger
    comings.add("node-1", [begun_by(incident_at(900, 910, "packet-loss"))])
    assert comings.totals == {**before, ("node-1", "network", "packet-loss"): 3}


def test_a_host_is_told_by_its_ledger() -> None:
    old = incident_at(-1.5 * DAY_S, -1.5 * DAY_S + 10)
    closed, on = incident_at(60, 70, "memory-pressure"), incident_at(590, UNTIL, score=4.0, state="open")
    ledger = judged("node-1", closed, on)
    ledger = replace(ledger, entries=(begun_by(old), *ledger.entries))
    state = host_state(ledger, NOW, levels=Levels(1.0, 2.0, 0.5), held=True)
    assert (state.host, state.judged, state.silent, state.held) == ("node-1", at(UNTIL), False, True)
    assert state.begun == 2
    assert state.judged_s == UNTIL
    # The entry made by hand was never found to be over.
    assert [entry.id for entry in state.incidents] == [on.id, old.id]


def test_a_silent_host_and_one_that_only_a_watermark_knows() -> None:
    ledger = judged("node-3", until=100.0)
    silent = note_silence(ledger, silent_incident("node-3", at(100), NOW, patience_s=180.0))
    assert host_state(silent, NOW).silent
    assert not host_state(ledger, NOW).silent
    known = host_state(Ledger("node-5"), NOW, mark=at(50))
    assert (known.judged, known.begun, known.judged_s) == (at(50), 0, 0.0)
    assert host_state(ledger, NOW, mark=at(400)).judged == at(400)
    assert host_state(Ledger("node-6"), NOW).judged is None


def test_incidents_of_all_hosts_are_in_the_order_of_their_strength() -> None:
    hosts = [
        host_state(judged(host, incident_at(590, UNTIL, host=host, score=score, state="open")), NOW)
        for host, score in (("a", 2.0), ("b", 5.0), ("c", 3.0))
    ]
    fleet = FleetState(NOW, tuple(hosts), 0, {}, 1.0)
    assert [entry.host for entry in fleet.open_incidents] == ["b", "c", "a"]
    assert NOW - at(UNTIL) == timedelta(seconds=60)
