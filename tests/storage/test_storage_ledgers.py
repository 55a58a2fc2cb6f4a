"""Ledgers, labels, silences and what was told, in every kind of store."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from incident_samples import NOON, at, incident_at

from reveal_core.alerts import AlertState, Pending, Told
from reveal_core.attribute.tracking import KEPT, follow, settle
from reveal_core.labels import Label, newest
from reveal_core.ledger import Ledger
from reveal_core.silences import Silence
from storage.layout import labels_key, ledger_key, past_ledger_key
from storage.store import Store

HOST = "rack 7/node-1"


def ledger(*starts: float, host: str = HOST) -> Ledger:
    found = [incident_at(start, start + 9, f"cause-{start:g}", host=host) for start in starts]
    return follow(Ledger(host), found, at(0), at(max(starts) + 100))


def test_a_ledger_comes_back(store: Store) -> None:
    assert store.ledger(HOST) == Ledger(HOST)
    assert store.ledger_hosts() == []
    one = ledger(5, 60)
    assert store.put_ledger(one) == ledger_key(HOST) == "ledger/host=rack%207%2Fnode-1/recent.json"
    assert store.ledger(HOST) == one
    assert store.ledger_hosts() == [HOST]
    assert store.ledgers([HOST, "other"]) == [one, Ledger("other")]


def test_a_ledger_survives_a_restart_of_everything(tmp_path: Path) -> None:
    before = follow(Ledger("node-1"), [incident_at(50, 57.5, state="open")], at(0), at(60))
    Store(str(tmp_path)).put_ledger(before)
    again = follow(Store(str(tmp_path)).ledger("node-1"), [incident_at(62.5, 90, "other")], at(60), at(200))
    assert [(entry.count, entry.state, entry.cause) for entry in again.entries] == [
        (1, "resolved", "packet-loss")
    ]


def test_long_past_entries_lie_by_month_and_are_found_by_range(store: Store) -> None:
    far = KEPT.total_seconds() + 3 * 86400
    whole = ledger(5, 60, far)
    kept, past = settle(whole)
    assert len(past) == 2
    store.put_ledger(kept, past)
    assert store.ledger(HOST) == kept
    entries = store.read_entries([HOST])
    assert [entry.first for entry in entries] == [at(5), at(60), at(far)]
    assert store.read_entries([HOST], at(50), at(80)) == [past[1]]
    assert store.read_entries([HOST], at(far)) == list(kept.entries)
    assert store.read_entries([HOST], None, at(50)) == [past[0]]
    # Written once more, as a run that was killed in between would: nothing is there twice.
    store.put_ledger(whole, past)
    assert store.read_entries([HOST]) == entries


def test_a_damaged_ledger_is_put_aside_and_a_new_one_begins(local_store: Store) -> None:
    local_store.put_ledger(ledger(5))
    key = ledger_key(HOST)
    for damaged in (b"{", b'{"host": "x", "entries": [{"id": 1}]}', b"[]"):
        local_store.backend.write(key, damaged)
        assert local_store.ledger(HOST) == Ledger(HOST)
        assert local_store.backend.read(f"quarantine/{key}") == damaged
        assert local_store.backend.read(key) is None
    month = past_ledger_key(HOST, NOON.date())
    local_store.backend.write(month, b"?")
    assert local_store.read_entries([HOST]) == []


def test_fields_of_a_newer_version_are_passed_over(local_store: Store) -> None:
    one = ledger(5)
    key = local_store.put_ledger(one)
    data = json.loads(local_store.backend.read(key) or b"")
    data["entries"][0]["mood"] = "fine"
    data["more"] = 1
    local_store.backend.write(key, json.dumps(data).encode())
    assert local_store.ledger(HOST) == one


def test_a_score_that_is_no_number_does_not_cost_the_ledger(local_store: Store) -> None:
    odd = replace(incident_at(5, 9, host=HOST), score=float("nan"), probability=float("nan"))
    one = follow(Ledger(HOST), [odd], at(0), at(100))
    local_store.put_ledger(one)
    assert local_store.ledger(HOST) == one


def label(verdict: str, minute: int, host: str = HOST, incident: str = "i-1") -> Label:
    return Label(
        host, incident, "f", verdict, at(0), at(9), "cpu", "", "ann", NOON + timedelta(minutes=minute), "why"  # type: ignore[arg-type]
    )  # fmt: skip


def test_labels_come_back_and_the_newest_counts(store: Store) -> None:
    assert store.labels() == []
    assert store.put_label(label("false", 1)) == labels_key(HOST)
    store.put_label(label("real", 3, incident="i-2"))
    store.put_label(label("known", 2, "other"))
    assert [one.verdict for one in store.labels()] == ["false", "known", "real"]
    assert [one.verdict for one in store.labels([HOST])] == ["false", "real"]
    assert newest(store.labels([HOST]))[HOST, "f"].verdict == "real"
    store.put_label(label("known", 5))
    assert [(one.incident, one.verdict) for one in store.labels([HOST])] == [
        ("i-2", "real"),
        ("i-1", "known"),
    ]


def test_silences_come_back(store: Store) -> None:
    assert store.silences() == []
    one = Silence("s-1", "rack-*", "network", "*", at(10), at(20), "week", "new switch", "ann")
    other = Silence("s-2", "*", "*", "*", at(0), at(20))
    store.put_silence(one)
    store.put_silence(other)
    assert store.silences() == [other, one]
    store.put_silence(replace(one, every="", end=at(15)))
    assert store.silences()[1].end == at(15)


def test_what_was_told_comes_back(store: Store) -> None:
    assert store.alert_state() == AlertState()
    told = Told("e-1", HOST, "f", at(5), HOST, over=True)
    state = AlertState((told,), at(6), (Pending("webhook x", at(7), {"title": "t", "entries": []}),))
    assert store.put_alert_state(state) == "alerts/state.json"
    assert store.alert_state() == state


def test_an_incident_is_found_by_its_id(store: Store) -> None:
    one = incident_at(5, 9)
    assert store.read_incident(one.id) is None
    store.put_incident(one)
    store.put_incident(incident_at(86400, 86409))
    assert store.read_incident(one.id) == one
    named = replace(one, id="of another make")
    store.put_incident(named)
    assert store.read_incident(named.id) == named


@pytest.mark.parametrize("id_", ["20261129T-nowhere", "x"])
def test_an_incident_that_is_not_there(local_store: Store, id_: str) -> None:
    local_store.put_incident(incident_at(5, 9))
    assert local_store.read_incident(id_) is None
