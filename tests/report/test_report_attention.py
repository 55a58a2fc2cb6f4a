"""The order in which incidents are told, and how many of them at length."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_samples import CREATED, END, LOSS, MODEL, START, faulty_incidents, host_input

from reveal_core.incidents import ACTIONS, OPEN, RESOLVED, FleetIncident, History
from reveal_core.report.attention import MEMBERS_AT_LENGTH, by_attention, matters, rank, told_at_length
from reveal_core.report.model import build_report
from reveal_core.report.standing import ordinal, standing
from reveal_core.report.types import IncidentReport
from reveal_core.report.words import natural

(BASE, *_) = faulty_incidents()


def shown(
    number: int = 1, *, history: History | None = None, fleet: str = "", **fields: object
) -> IncidentReport:
    incident = replace(BASE, **fields)
    return IncidentReport(number, f"incident-{number}", incident, "", 4, (), (), (), None, history, fleet)


def doing(action: str) -> dict[str, object]:
    return {"causes": (replace(LOSS, action=action),)}


def once(label: str = "", silenced: str = "") -> History:
    return History(1, START, label=label, silenced=silenced)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (shown(9, state=OPEN), shown(1, state=RESOLVED, severity=5, score=90.0)),
        (shown(9, fleet="f", severity=1), shown(1, severity=5, score=90.0)),
        (shown(9, severity=4), shown(1, severity=3, score=90.0)),
        (shown(9, score=20.0), shown(1, score=7.0)),
        (shown(9, score=7.4, **doing("drain")), shown(1, score=7.6, **doing("change-configuration"))),
        (shown(9, **doing("inspect-hardware")), shown(1, **doing("change-configuration"))),
        (shown(9, **doing("change-configuration")), shown(1, **doing("check-application"))),
        (shown(9, causes=()), shown(1, **doing("ignore"))),
        (shown(1), shown(9)),
        (shown(9), shown(1, state=OPEN, severity=5, history=once(label="false"))),
        (shown(9), shown(1, state=OPEN, severity=5, history=once(label="known"))),
        (shown(9), shown(1, state=OPEN, severity=5, history=once(silenced="maintenance"))),
        (shown(9, state=OPEN, history=once(label="real")), shown(1)),
    ],
)
def test_what_goes_before_what(first: IncidentReport, second: IncidentReport) -> None:
    assert by_attention([second, first]) == [first, second]


@given(
    st.lists(
        st.builds(
            dict,
            severity=st.integers(0, 5),
            score=st.floats(allow_nan=True),
            state=st.sampled_from([OPEN, RESOLVED]),
            action=st.sampled_from([*ACTIONS, "", "unheard of"]),
        ),
        max_size=8,
    )
)
def test_any_incidents_have_an_order(drawn: list[dict]) -> None:
    found = [
        shown(n, severity=d["severity"], score=d["score"], state=d["state"], **doing(d["action"]))
        for n, d in enumerate(drawn, 1)
    ]
    ordered = by_attention(found)
    assert sorted(i.number for i in ordered) == sorted(i.number for i in found)
    assert by_attention(ordered[::-1]) == ordered
    assert len({rank(i) for i in found}) == len(found)


def fleet_report(hosts: int, alone: int = 2):
    """Return a report in which each of some hosts has the same incident, and some have one of their own."""
    inputs = []
    for n in range(hosts + alone):
        incident = replace(faulty_incidents(f"node-{n}")[0], severity=4 if n == 1 else 2)
        inputs.append(host_input(f"node-{n}", incidents=[incident]))
    members = tuple(f"node-{n}-0001" for n in range(hosts))
    shared = FleetIncident(
        "f1", "network", LOSS.id, LOSS.title, tuple(f"node-{n}" for n in range(hosts)), 9, "node-*",
        BASE.start, BASE.end, (*members, "elsewhere-0001"),
    )  # fmt: skip
    return build_report("r", "t", CREATED, START, END, inputs, MODEL, fleet=[shared])


def test_an_incident_of_the_fleet_is_one_matter() -> None:
    report = fleet_report(5)
    found = matters(report)
    assert [(m.fleet is not None, len(m.members)) for m in found] == [(True, 5), (False, 1), (False, 1)]
    assert [m.incident.host for m in found[0].members] == ["node-1", "node-0", "node-2", "node-3", "node-4"]
    assert [i.incident.host for i in told_at_length(found)] == [
        *["node-1", "node-0", "node-2"][:MEMBERS_AT_LENGTH], "node-5", "node-6",
    ]  # fmt: skip
    assert len(told_at_length(found, 2)) == 2
    assert {i.fleet for i in report.incidents} == {"f1", ""}


def test_an_incident_of_the_fleet_without_members_here_comes_last() -> None:
    elsewhere = FleetIncident("f", "", "", "Unknown trouble", ("x", "y"), 9, "", START, END, ("x-1", "y-1"))
    report = build_report("r", "t", CREATED, START, END, [host_input()], MODEL, fleet=[elsewhere])
    found = matters(report)
    assert [len(m.members) for m in found] == [1, 1, 1, 0]
    assert found[-1].open == 0


def test_where_an_incident_stands() -> None:
    assert standing(shown(state=OPEN)) == ("open",)
    first = datetime.fromisoformat("2026-11-27T10:12:00+00:00")
    history = History(3, first, flapping=True, label="known", label_why="a | b", silenced="until nine")
    assert standing(shown(history=history)) == (
        "resolved",
        "3rd time, first on 2026-11-27 at 10:12 UTC",
        "comes and goes",
        "known: a | b",
        "silenced: until nine",
    )
    assert standing(shown(history=once(label="false"))) == (
        "resolved",
        "first time",
        "labelled a false alarm",
    )
    assert ordinal(1112) == "1,112th"


@given(st.lists(st.text(max_size=12), max_size=6))
def test_natural_order_takes_any_name(names: list[str]) -> None:
    ordered = sorted(natural(name) for name in names)
    assert all(first <= second for first, second in pairwise(ordered))
    assert natural("node-9") < natural("node-10") < natural("node-10a")
