"""Incidents become entries of a ledger: joined, counted, flapping, cleared, and never counted twice."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incident_samples import NOON, at, incident_at

from reveal_core.attribute.tracking import KEPT, MOST_EPISODES, RULES, follow, settle
from reveal_core.incidents import OPEN, RESOLVED, Incident
from reveal_core.ledger import Ledger, joined

EMPTY = Ledger("node-1")


def test_one_incident_is_open_until_it_has_been_calm() -> None:
    ledger = follow(EMPTY, [incident_at(10, 20)], at(0), at(60))
    (entry,) = ledger.entries
    assert (entry.state, entry.cleared, entry.count) == (OPEN, None, 1)
    assert (entry.cause, entry.subsystem, entry.metrics) == (
        "packet-loss",
        "network",
        ("tcp.RetransSegs", "cpu.busy"),
    )
    (entry,) = follow(ledger, [], at(60), at(120)).entries
    assert (entry.state, entry.cleared) == (RESOLVED, at(80))
    assert entry.end == at(20)


def test_time_that_nobody_judged_clears_nothing() -> None:
    ledger = follow(EMPTY, [incident_at(50, 60, state=OPEN)], at(0), at(60))
    assert follow(ledger, [], at(0), at(60)).entries[0].state == OPEN
    # The host was silent for ten minutes and came back well: it is over when it was seen to be.
    (entry,) = follow(ledger, [], at(660), at(720)).entries
    assert (entry.state, entry.cleared) == (RESOLVED, at(660))


def test_an_incident_goes_on_from_one_stretch_into_the_next() -> None:
    first = incident_at(50, 57.5, state=OPEN)
    ledger = follow(EMPTY, [first], at(0), at(60))
    # Other signals lead by then: it is the same trouble all the same, for it never stopped.
    second = incident_at(62.5, 90, "cpu-contention", score=9.0)
    (entry,) = follow(ledger, [second], at(60), at(120)).entries
    assert (entry.count, len(entry.episodes), entry.first, entry.end) == (1, 1, at(50), at(90))
    assert entry.episodes[0].incidents == (first.id, second.id)
    assert (entry.fingerprint, entry.cause, entry.strongest) == (
        first.fingerprint,
        "cpu-contention",
        second.id,
    )


def test_what_began_in_the_last_window_of_a_stretch_is_known_again_by_what_it_was() -> None:
    seed = incident_at(58, 60, "", state=OPEN, metric="stat.ctxt", score=1.1)
    ledger = follow(EMPTY, [seed], at(0), at(60))
    ledger = follow(ledger, [incident_at(60, 66, "cpu-contention", score=9.0)], at(60), at(120))
    (entry,) = follow(ledger, [incident_at(140, 147, "cpu-contention")], at(120), at(180)).entries
    assert (entry.count, entry.cause, entry.fingerprint) == (2, "cpu-contention", seed.fingerprint)


def test_what_was_over_before_the_end_of_a_stretch_does_not_go_on() -> None:
    ledger = follow(EMPTY, [incident_at(50, 57.5)], at(0), at(60))
    ledger = follow(ledger, [incident_at(62.5, 90, "cpu-contention")], at(60), at(120))
    assert [entry.count for entry in ledger.entries] == [1, 1]


@pytest.mark.parametrize(("calm", "entries"), [(RULES.repeat_s - 1, 1), (RULES.repeat_s + 1, 2)])
def test_the_same_again_soon_is_counted_and_later_is_new(calm: float, entries: int) -> None:
    ledger = follow(EMPTY, [incident_at(0, 10), incident_at(10 + calm, 30 + calm)], at(0), at(1000))
    assert len(ledger.entries) == entries
    assert sum(entry.count for entry in ledger.entries) == 2


def test_another_kind_is_another_entry() -> None:
    ledger = follow(EMPTY, [incident_at(0, 10), incident_at(20, 30, "cpu-quota")], at(0), at(60))
    assert [(entry.cause, entry.count) for entry in ledger.entries] == [("packet-loss", 1), ("cpu-quota", 1)]


def test_a_port_that_flaps_for_ten_minutes_and_recovers() -> None:
    comings = [incident_at(t, t + 6, "link-flap") for t in range(0, 600, 20)]
    ledger = EMPTY
    states = []
    for start in range(0, 1800, 60):
        found = [i for i in comings if at(start) <= i.start < at(start + 60)]
        ledger = follow(ledger, found, at(start), at(start + 60))
        states.append((ledger.entries[0].state, ledger.entries[0].flapping))
    (entry,) = ledger.entries
    assert entry.count == len(comings)
    assert states[0] == (OPEN, False)
    # Open and flapping without a break until it has stayed away for ten minutes, then over, once.
    flapping = states[1:19]
    assert set(flapping) == {(OPEN, True)}
    assert states[-1] == (RESOLVED, True)
    assert entry.cleared == comings[-1].end + timedelta(seconds=RULES.flap_s)
    assert sum(one != other for one, other in pairwise(states)) == 2


def test_many_repeats_of_a_few_faults_are_a_few_entries_with_counts() -> None:
    kinds = [incident_at(0, 1, f"fault-{number:02d}") for number in range(29)]
    repeats = 20_000
    rng = random.Random(7)
    counts = dict.fromkeys((kind.fingerprint for kind in kinds), 0)

    def storm() -> list[Incident]:
        found = []
        for number in range(repeats):
            kind = kinds[number % 29] if number < 29 else rng.choice(kinds)
            start = NOON + timedelta(seconds=number)
            counts[kind.fingerprint] += 1
            found.append(replace(kind, id=f"i-{number}", start=start, end=start + timedelta(seconds=0.5)))
        return found

    ledger = follow(EMPTY, storm(), NOON, NOON + timedelta(seconds=repeats))
    # With 29 kinds, chance leaves none away for the five minutes after which it would be a new one.
    assert {entry.fingerprint: entry.count for entry in ledger.entries} == counts
    assert all(len(entry.episodes) <= MOST_EPISODES and entry.flapping for entry in ledger.entries)


def test_an_incident_across_midnight() -> None:
    midnight = (NOON + timedelta(days=1)).replace(hour=0)
    before = (midnight - NOON).total_seconds()
    ledger = follow(EMPTY, [incident_at(before - 20, before - 2.5, state=OPEN)], at(before - 60), at(before))
    ledger = follow(ledger, [incident_at(before + 2.5, before + 30)], at(before), at(before + 60))
    (entry,) = ledger.entries
    assert (entry.count, entry.first.day, entry.end.day) == (1, midnight.day - 1, midnight.day)
    assert ledger.judged == ((at(before - 60), at(before + 60)),)


def test_an_old_stretch_that_is_judged_late_takes_nothing_back() -> None:
    ledger = follow(EMPTY, [incident_at(1000, 1010)], at(960), at(1200))
    assert ledger.entries[0].state == RESOLVED
    late = follow(ledger, [incident_at(900, 910), incident_at(100, 110)], at(0), at(960))
    assert [(entry.first, entry.end, entry.count, entry.state) for entry in late.entries] == [
        (at(100), at(110), 1, RESOLVED),
        (at(900), at(1010), 2, RESOLVED),
    ]


def test_an_incident_of_another_host_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="is of node-2"):
        follow(EMPTY, [incident_at(0, 1, host="node-2")], at(0), at(60))


def test_long_past_entries_are_handed_out() -> None:
    ledger = follow(EMPTY, [incident_at(0, 10)], at(0), at(100))
    assert settle(ledger) == (ledger, ())
    later = KEPT.total_seconds() + 200
    ledger = follow(ledger, [incident_at(later, later + 9)], at(later), at(later + 10))
    kept, past = settle(ledger)
    assert [entry.first for entry in past] == [at(0)]
    assert [entry.first for entry in kept.entries] == [at(later)]


def test_history_tells_of_a_coming_what_was_known_then() -> None:
    found = [incident_at(t, t + 5) for t in (0, 60, 120)]
    (entry,) = follow(EMPTY, found, at(0), at(200)).entries
    assert [entry.history(i.id).count for i in found] == [1, 2, 3]
    assert entry.history(found[2].id).first == at(0)


spans = st.lists(
    st.tuples(st.integers(0, 3000), st.integers(1, 90), st.sampled_from(["a", "b", ""])), max_size=25
)


@given(spans)
def test_judging_again_changes_nothing(drawn: list[tuple[int, int, str]]) -> None:
    found = {
        incident_at(s, s + length, kind).id: incident_at(s, s + length, kind) for s, length, kind in drawn
    }
    once = follow(EMPTY, found.values(), at(0), at(3200))
    assert follow(once, found.values(), at(0), at(3200)) == once
    assert sum(entry.count for entry in once.entries) <= len(found)
    ids = {i for entry in once.entries for episode in entry.episodes for i in episode.incidents}
    assert ids == set(found)


@given(spans, st.integers(60, 900))
def test_entries_hold_together_whatever_the_schedule(drawn: list[tuple[int, int, str]], step: int) -> None:
    found = {
        incident_at(s, s + length, kind).id: incident_at(s, s + length, kind) for s, length, kind in drawn
    }
    ledger = EMPTY
    for start in range(0, 3200, step):
        here = [i for i in found.values() if at(start) <= i.start < at(start + step)]
        ledger = follow(ledger, here, at(start), at(start + step))
    for entry in ledger.entries:
        assert entry.first <= entry.start <= entry.end
        assert entry.count == len(entry.episodes)
        assert list(entry.episodes) == sorted(entry.episodes, key=lambda e: e.start)
        assert (entry.cleared is None) == (entry.state == OPEN)
    firsts = [entry.first for entry in ledger.entries]
    assert firsts == sorted(firsts)


def test_stretches_are_joined() -> None:
    gap = timedelta(seconds=5)
    assert joined((), (at(0), at(10)), gap) == ((at(0), at(10)),)
    assert joined(((at(0), at(10)),), (at(14), at(20)), gap) == ((at(0), at(20)),)
    assert joined(((at(0), at(10)),), (at(16), at(20)), gap) == ((at(0), at(10)), (at(16), at(20)))
    assert joined(((at(20), at(30)),), (at(0), at(40)), gap) == ((at(0), at(40)),)
    ledger = Ledger("a", ((at(0), at(10)), (at(20), at(30))))
    assert ledger.judged_s(at(5), at(25)) == 10.0
