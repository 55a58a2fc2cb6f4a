"""Who is told of what: once, grouped, silenced, labelled, within a limit, and when it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from incident_samples import at, incident_at

from reveal_core.alerts import AlertRules, AlertState, Decision, decide, described, limit_per_day
from reveal_core.attribute.fleet import fleet_incidents
from reveal_core.attribute.tracking import follow
from reveal_core.incidents import OPEN, FleetIncident, Incident
from reveal_core.labels import Label
from reveal_core.ledger import Entry, Ledger
from reveal_core.silences import Silence

RULES = AlertRules(per_day=10)


def entries_of(incidents: Sequence[Incident], start: float = 0, end: float = 60) -> list[Entry]:
    hosts = {incident.host for incident in incidents}
    ledgers = [
        follow(Ledger(host), [i for i in incidents if i.host == host], at(start), at(end))
        for host in sorted(hosts)
    ]
    return [entry for ledger in ledgers for entry in ledger.entries]


def told(
    entries: Sequence[Entry],
    state: AlertState | None = None,
    *,
    now: datetime | None = None,
    fleet: Sequence[FleetIncident] = (),
    labels: Sequence[Label] = (),
    silences: Sequence[Silence] = (),
    rules: AlertRules = RULES,
) -> Decision:
    newest = {(label.host, label.fingerprint): label for label in labels}
    return decide(entries, fleet, newest, silences, state or AlertState(), now or at(90), rules)


def kinds(decision: Decision) -> list[tuple[str, str, int]]:
    return [(notice.status, notice.group, len(notice.entries)) for notice in decision.notices]


def label(entry: Entry, verdict: str) -> Label:
    return Label(
        host=entry.host,
        incident=entry.id,
        fingerprint=entry.fingerprint,
        verdict=verdict,  # type: ignore[arg-type]
        start=entry.first,
        end=entry.end,
        subsystem=entry.subsystem,
        cause=entry.cause,
        by="ann",
        at=at(0),
        why="why",
    )


def test_an_incident_is_told_once_and_its_end_once() -> None:
    ledger = follow(Ledger("node-1"), [incident_at(50, 60, state=OPEN)], at(0), at(60))
    first = told(ledger.entries)
    assert kinds(first) == [("firing", "node-1", 1)]
    assert first.notices[0].title == "Packet loss on node-1"
    again = told(ledger.entries, first.state, now=at(120))
    assert kinds(again) == []
    over = follow(ledger, [], at(60), at(240))
    last = told(over.entries, again.state, now=at(250))
    assert kinds(last) == [("resolved", "node-1", 1)]
    assert last.notices[0].title == "Over: Packet loss on node-1"
    assert kinds(told(over.entries, last.state, now=at(300))) == []


def test_what_is_over_when_it_is_found_is_told_in_one_notice() -> None:
    entries = entries_of([incident_at(5, 10)], end=300)
    first = told(entries, now=at(310))
    assert kinds(first) == [("firing", "node-1", 1)]
    assert kinds(told(entries, first.state, now=at(400))) == []


def test_incidents_of_a_host_are_told_together_the_worst_first() -> None:
    entries = entries_of(
        [
            incident_at(5, 10, "cpu-quota", score=9.0),
            incident_at(20, 30, "packet-loss", score=2.0),
            incident_at(40, 50, "gpu-lost", score=1.5, action="drain"),
        ]
    )
    (notice,) = told(entries).notices
    assert [entry.cause for entry in notice.entries] == ["gpu-lost", "cpu-quota", "packet-loss"]
    assert notice.title == "Gpu lost on node-1, and 2 more"


def test_the_same_on_many_hosts_is_one_notice() -> None:
    hosts = [f"rack-{rack}-n{n}" for rack in (1, 2) for n in range(14)]
    incidents = [incident_at(5, 10, host=host) for host in hosts[:14]]
    fleet = fleet_incidents(incidents, hosts)
    decision = told(entries_of(incidents), fleet=fleet, rules=AlertRules(per_day=100))
    assert kinds(decision) == [("firing", fleet[0].id, 14)]
    assert decision.notices[0].title == "Packet loss on 14 hosts of rack-1-*"


@pytest.mark.parametrize(("verdict", "notices"), [("false", 0), ("known", 0), ("real", 1)])
def test_what_people_said_decides_for_the_same_kind(verdict: str, notices: int) -> None:
    (before,) = entries_of([incident_at(5, 10)])
    entries = entries_of([incident_at(1000, 1010)], 960, 1060)
    decision = told(entries, now=at(1100), labels=[label(before, verdict)])
    assert len(decision.notices) == notices
    if not notices:
        assert decision.silent == {entries[0].id: f"labelled {verdict} by ann: why"}


def silence(**more: object) -> Silence:
    fields = {
        "id": "s",
        "host": "*",
        "subsystem": "*",
        "cause": "*",
        "start": at(0),
        "end": at(100),
        "by": "ann",
    }
    return Silence(**{**fields, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("silenced", "notices"),
    [
        ({}, 0),
        ({"host": "node-[12]"}, 0),
        ({"host": "node-2"}, 1),
        ({"subsystem": "cpu"}, 1),
        ({"cause": "packet-*"}, 0),
        ({"cause": ""}, 1),
        ({"start": at(6)}, 1),
        ({"end": at(5)}, 1),
        ({"start": at(-86400), "end": at(-86400 + 60)}, 1),
        ({"start": at(-86400), "end": at(-86400 + 60), "every": "day"}, 0),
        ({"start": at(-86400), "end": at(-86400 + 60), "every": "week"}, 1),
    ],
)
def test_silences_by_host_subsystem_cause_and_time(silenced: dict, notices: int) -> None:
    decision = told(entries_of([incident_at(5, 10)]), silences=[silence(**silenced)])
    assert len(decision.notices) == notices
    assert len(decision.silent) == 1 - notices


def test_the_limit_of_a_day_holds_back_and_says_how_many() -> None:
    rules = AlertRules(per_day=2)
    entries = entries_of([incident_at(t, t + 2, f"cause-{t}", score=t) for t in range(0, 50, 10)])
    first = told(entries, rules=rules)
    assert kinds(first) == [("firing", "node-1", 2), ("held", "", 3)]
    assert first.notices[1].title.startswith("3 more incidents than the limit of a day allows")
    assert [entry.cause for entry in first.notices[0].entries] == ["cause-40", "cause-30"]
    assert len(first.silent) == 3
    # Not told again of those held back, nor that they are over.
    assert kinds(
        told([replace(e, state="resolved") for e in entries], first.state, now=at(95), rules=rules)
    ) == [("resolved", "node-1", 2)]
    # Within the hour more are counted silently, after it they are told in one notice.
    more = entries_of([incident_at(100, 110, "cause-x"), incident_at(120, 130, "cause-y")], 60, 140)
    second = told(more, first.state, now=at(150), rules=rules)
    assert kinds(second) == []
    third = told([], second.state, now=at(90 + 3700), rules=rules)
    assert [(n.status, n.title[:16]) for n in third.notices] == [("held", "2 more incidents")]
    # A day later there is room again.
    fresh = [replace(e, end=at(87000), state=OPEN) for e in entries_of([incident_at(200, 210, "cause-z")])]
    assert kinds(told(fresh, third.state, now=at(87000), rules=rules)) == [("firing", "node-1", 1)]


def test_no_limit_holds_back_what_is_urgent() -> None:
    entries = entries_of([incident_at(t, t + 2, f"cause-{t}", action="drain") for t in range(0, 50, 10)])
    assert kinds(told(entries, rules=AlertRules(per_day=0))) == [("firing", "node-1", 5)]


def test_the_same_kind_is_not_told_again_within_the_hour() -> None:
    first = told(entries_of([incident_at(5, 10)]))
    again = entries_of([incident_at(1000, 1010)], 960, 1060)
    second = told(again, first.state, now=at(1100))
    assert kinds(second) == []
    assert "the same was told of" in second.silent[again[0].id]
    third = told(entries_of([incident_at(3800, 3810)], 3790, 3850), second.state, now=at(3860))
    assert kinds(third) == [("firing", "node-1", 1)]


def test_history_is_not_news() -> None:
    entries = entries_of([incident_at(5, 10)])
    assert told(entries, now=at(2 * 3600)).notices == ()


def test_what_was_told_is_forgotten_in_the_end() -> None:
    first = told(entries_of([incident_at(5, 10)], end=300), now=at(310))
    assert len(first.state.told) == 1
    later = told([], first.state, now=at(310) + timedelta(days=8))
    assert later.state.told == ()
    still = told(entries_of([incident_at(5, 10)]))
    assert len(told([], still.state, now=at(0) + timedelta(days=8)).state.told) == 1
    assert told([], still.state, now=at(0) + timedelta(days=31)).state.told == ()


def test_limits_and_words() -> None:
    assert (limit_per_day(1.0, 1), limit_per_day(1.0, 300), limit_per_day(0.01, 300)) == (4, 300, 4)
    (entry,) = entries_of([incident_at(5, 10, "")])
    assert described(entry) == "Unknown network anomaly: tcp.RetransSegs moved"


@given(st.lists(st.tuples(st.integers(0, 2000), st.sampled_from("abcd"), st.sampled_from(["n1", "n2"]))))
def test_nobody_is_told_twice_whatever_comes(drawn: list[tuple[int, str, str]]) -> None:
    incidents = [incident_at(start, start + 5, kind, host=host) for start, kind, host in drawn]
    unique = {incident.id: incident for incident in incidents}.values()
    ledgers = {host: Ledger(host) for host in ("n1", "n2")}
    state = AlertState()
    began: list[str] = []
    ended: list[str] = []
    for start in range(0, 2400, 300):
        for host, ledger in ledgers.items():
            here = [i for i in unique if i.host == host and at(start) <= i.start < at(start + 300)]
            ledgers[host] = follow(ledger, here, at(start), at(start + 300))
        entries = [entry for ledger in ledgers.values() for entry in ledger.entries]
        decision = told(entries, state, now=at(start + 300), rules=AlertRules(per_day=3))
        state = decision.state
        for notice in decision.notices:
            ids = [entry.id for entry in notice.entries]
            began += ids if notice.status == "firing" else []
            ended += ids if notice.status == "resolved" else []
    assert len(began) == len(set(began)) <= 3
    assert len(ended) == len(set(ended))
    assert set(ended) <= set(began)
