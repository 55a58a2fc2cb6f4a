"""What an investigation is of: an incident, an alert in either form; and what it is compared with."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from incident_samples import at, incident_at
from synthetic_telemetry import SYNTHETIC_START

from reveal_core.attribute.tracking import follow
from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from reveal_core.ledger import Ledger
from storage.store import Store
from tasks.subject import choose_baseline, find_subject

NOW = "2026-11-29T13:00:00.000Z"


@pytest.fixture
def known(tmp_path: Path) -> tuple[str, Any]:
    """A store that knows an incident of noon."""
    store = Store(str(tmp_path))
    incident = incident_at(0, 30)
    store.put_incident(incident)
    store.put_ledger(follow(Ledger("node-1"), [incident], at(-60), at(90)))
    return str(tmp_path), incident


def test_an_incident_is_looked_at_with_a_minute_around_it(known) -> None:
    store, incident = known
    assert find_subject(store, incident=incident.id, alert=None) == {
        "host": "node-1",
        "start": iso(at(-60)),
        "end": iso(at(90)),
        "incident": incident.id,
    }
    with pytest.raises(UsageError, match="has no incident 'nothing'"):
        find_subject(store, incident="nothing", alert=None)


def alertmanager(labels: dict[str, str], ends: str) -> dict[str, Any]:
    alert = {"status": "firing", "labels": labels, "startsAt": "2026-11-29T12:30:00Z", "endsAt": ends}
    return {"version": "4", "alerts": [alert]}


@pytest.mark.parametrize(
    ("labels", "ends", "host", "end"),
    [
        ({"host": "gpu-3"}, "2026-11-29T12:40:00Z", "gpu-3", "2026-11-29T12:41:00.000Z"),
        ({"instance": "gpu-3:9100"}, "0001-01-01T00:00:00Z", "gpu-3", "2026-11-29T13:01:00.000Z"),
        ({"node": "gpu-3"}, "2026-11-29T12:29:00Z", "gpu-3", "2026-11-29T12:31:00.000Z"),
    ],
)
def test_an_alert_of_somebody_else(known, labels: dict[str, str], ends: str, host: str, end: str) -> None:
    found = find_subject(known[0], incident=None, alert=alertmanager(labels, ends), now=NOW)
    assert found == {"host": host, "start": "2026-11-29T12:29:00.000Z", "end": end, "incident": ""}


def test_an_alert_about_an_incident_that_is_known(known) -> None:
    store, incident = known
    alert = alertmanager({"host": "node-1", "incident": incident.id}, "2026-11-29T12:40:00Z")
    assert find_subject(store, incident=None, alert=alert)["start"] == iso(at(-60))
    entry = {"host": "node-1", "id": incident.id, "start": iso(at(0)), "end": iso(at(30))}
    assert find_subject(store, incident=None, alert={"entries": [entry]})["incident"] == incident.id


@pytest.mark.parametrize(
    ("alert", "said"),
    [
        ({}, "neither entries nor alerts"),
        ({"alerts": []}, "neither entries nor alerts"),
        ({"alerts": [{}]}, "does not say which host"),
        ({"alerts": [{"labels": {"host": "a"}}]}, "the alert about a has no start"),
        ({"entries": [{"host": "a", "start": "soon", "end": "soon"}]}, "'soon' is not a time"),
    ],
)
def test_what_is_no_alert_is_refused(known, alert: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find_subject(known[0], incident=None, alert=alert)


def seconds(after: float) -> str:
    return iso(SYNTHETIC_START + timedelta(seconds=after))


def test_a_healthy_stretch_is_found_before(tmp_path: Path, make_store) -> None:
    make_store(tmp_path, seconds=600)
    assert choose_baseline(str(tmp_path), host="node-1", start=seconds(500)) == {
        "start": seconds(0),
        "end": seconds(470),
    }
    assert choose_baseline(str(tmp_path), host="node-1", start=seconds(120)) is None
    assert choose_baseline(str(tmp_path), host="node-2", start=seconds(500)) is None


def test_known_incidents_are_kept_away_from(tmp_path: Path, make_store) -> None:
    make_store(tmp_path, seconds=600)
    store = Store(str(tmp_path))
    shift = (SYNTHETIC_START - at(0)).total_seconds()
    incident = incident_at(shift + 100, shift + 140)
    store.put_ledger(follow(Ledger("node-1"), [incident], SYNTHETIC_START, incident.end))
    assert choose_baseline(str(tmp_path), host="node-1", start=seconds(500)) == {
        "start": seconds(170),
        "end": seconds(470),
    }
