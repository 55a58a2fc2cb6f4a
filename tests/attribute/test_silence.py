"""Silent hosts in the ledger: an entry of their own, over when telemetry has been judged again."""

from __future__ import annotations

from incident_samples import at, incident_at

from reveal_core.attribute.silence import end_silence, note_silence, silent_incident
from reveal_core.attribute.tracking import follow
from reveal_core.incidents import OPEN, RESOLVED, SILENT
from reveal_core.ledger import Ledger
from reveal_core.windows import HOST_COVERAGE

EMPTY = Ledger("node-1")


def silent(last: float, now: float):
    return silent_incident("node-1", at(last), at(now), patience_s=180.0)


def test_it_says_since_when_and_what_to_do() -> None:
    incident = silent(0, 600)
    assert (incident.start, incident.end, incident.state) == (at(0), at(600), OPEN)
    assert incident.cause == SILENT
    assert incident.causes[0].evidence == (
        "no sample of the host came after 2026-11-29T12:00:00.000Z, for 10 min now",
    )
    assert incident.causes[0].confidence > 0.8
    assert incident.causes[0].commands
    assert [m.metric for m in incident.metrics] == [HOST_COVERAGE]
    assert incident.score > 3.0


def test_the_same_silence_is_the_same_incident_and_another_is_another() -> None:
    assert silent(0, 600).id == silent(0, 900).id != silent(30, 900).id
    assert silent(0, 600).fingerprint == silent(30, 900).fingerprint


def test_a_silence_is_one_entry_until_telemetry_was_judged_again() -> None:
    ledger = follow(EMPTY, [], at(-600), at(0))
    for now in (300, 600, 900):
        ledger = note_silence(ledger, silent(0, now))
    (entry,) = ledger.entries
    assert (entry.cause, entry.state, entry.count) == (SILENT, OPEN, 1)
    assert (entry.first, entry.end) == (at(0), at(900))
    assert ledger.judged == ((at(-600), at(0)),)
    (entry,) = follow(ledger, [], at(960), at(1100)).entries
    assert (entry.state, entry.cleared) == (RESOLVED, at(960))


def test_a_second_silence_soon_after_is_the_same_trouble_again() -> None:
    ledger = follow(note_silence(EMPTY, silent(0, 600)), [], at(610), at(700))
    assert ledger.entries[0].state == RESOLVED
    (entry,) = note_silence(ledger, silent(700, 900)).entries
    assert (entry.count, entry.state, entry.cleared) == (2, OPEN, None)


def test_a_silence_and_what_telemetry_shows_stay_apart() -> None:
    fault = incident_at(-30, 0, "cpu-quota", state=OPEN)
    ledger = note_silence(follow(EMPTY, [fault], at(-60), at(0)), silent(0, 600))
    assert [(e.cause, e.state) for e in ledger.entries] == [("cpu-quota", OPEN), (SILENT, OPEN)]
    # What was sampled meanwhile comes late, and shows that the fault went on.
    late = incident_at(2, 590, "cpu-quota")
    ledger = follow(ledger, [late], at(0), at(600))
    assert [(e.cause, e.count) for e in ledger.entries] == [("cpu-quota", 1), (SILENT, 1)]
    assert ledger.entries[0].end == at(590)


def test_a_host_that_is_given_up_is_no_open_incident() -> None:
    ledger = end_silence(note_silence(EMPTY, silent(0, 600)), at(700_000))
    (entry,) = ledger.entries
    assert (entry.state, entry.cleared) == (RESOLVED, at(700_000))
    assert end_silence(ledger, at(800_000)) == ledger
