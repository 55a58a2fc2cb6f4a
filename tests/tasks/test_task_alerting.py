"""Telling: what goes to which channel, what waits, and what people read."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from http_receiver import Receiver, receiving
from incident_samples import NOON, incident_at

from reveal_core.attribute.fleet import fleet_incidents
from reveal_core.attribute.tracking import follow
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.incidents import Incident
from reveal_core.ledger import Ledger
from storage.store import Store
from tasks.alerting import announce_incidents, try_channels
from tasks.channels import as_text, make_channels

ROOT = Path(__file__).parents[2]
REPORT = "/reports/r-1/index.html"


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def ago(seconds: float) -> float:
    """Return seconds after the samples' noon of a time so long ago."""
    return (datetime.now(UTC) - NOON).total_seconds() - seconds


def fill(store: Store, *incidents: Incident, until: float = 0.0) -> list[str]:
    """Put incidents and the ledgers of their hosts into a store; return the hosts."""
    hosts = sorted({incident.host for incident in incidents})
    end = datetime.now(UTC) - timedelta(seconds=until)
    for host in hosts:
        own = [incident for incident in incidents if incident.host == host]
        for incident in own:
            store.put_incident(incident)
        store.put_ledger(follow(store.ledger(host), own, end - timedelta(minutes=5), end))
    return hosts


def announce(store: Store, hosts: list[str], alerts: dict[str, Any], **more: Any) -> dict[str, Any]:
    fields = {"fleet": [], "report": REPORT, "report_id": "r 1", "budget": 1.0, **more}
    return announce_incidents(store.url, hosts=hosts, alerts=alerts, **fields)


def test_a_webhook_gets_documents_of_the_schema_signed(tmp_path: Path, hook: Receiver) -> None:
    store = Store(str(tmp_path))
    names = [f"rack-1-n{n}" for n in range(3)]
    incidents = [incident_at(ago(100), ago(90), host=name) for name in names]
    hosts = fill(store, *incidents)
    fleet = [one.to_dict() for one in fleet_incidents(incidents, names)]
    alerts = {
        "webhooks": [f"{hook.url}/in?token=x"],
        "webhook_secret": "s3cret",
        "report_url": "https://r.example/x/",
    }
    result = announce(store, hosts, alerts, fleet=fleet)
    assert [(row["status"], row["title"]) for row in result["sent"]] == [("firing", "Packet loss on 3 hosts")]
    assert "token" not in json.dumps(result)
    ((path, headers, body),) = hook.requests
    assert path == "/in?token=x"
    assert headers["X-Reveal-Signature"] == f"sha256={hmac.new(b's3cret', body, hashlib.sha256).hexdigest()}"
    document = json.loads(body)
    jsonschema.validate(document, json.loads((ROOT / "docs/webhook.schema.json").read_text()))
    assert document["report"] == "https://r.example/x/r%201/index.html"
    assert document["fleet"]["hosts"] == names
    assert [entry["incident"]["causes"][0]["id"] for entry in document["entries"]] == ["packet-loss"] * 3
    # Nothing is told twice, however often it runs.
    assert announce(store, hosts, alerts, fleet=fleet) == {"sent": [], "undelivered": [], "silent": {}}
    assert len(hook.requests) == 1


def test_a_channel_that_is_down_costs_the_others_nothing_and_gets_it_later(
    tmp_path: Path, hook: Receiver
) -> None:
    store = Store(str(tmp_path))
    hosts = fill(store, incident_at(ago(100), ago(90)), incident_at(ago(80), ago(70), host="node-2"))
    with receiving() as down:
        down.status = 503
        alerts = {"webhooks": [down.url, hook.url]}
        result = announce(store, hosts, alerts)
        assert len(result["sent"]) == len(hook.requests) == 2
        assert len(result["undelivered"]) == 2
        assert "503" in result["undelivered"][0]["reason"]
        # It is not asked again for the second notice.
        assert len(down.requests) == 1
        down.status = 200
        result = announce(store, hosts, alerts)
        assert [row["status"] for row in result["sent"]] == ["firing", "firing"]
        assert [json.loads(body)["title"] for _, _, body in down.requests[1:]] == [
            "Packet loss on node-1",
            "Packet loss on node-2",
        ]
    assert len(hook.requests) == 2
    assert store.alert_state().pending == ()


def test_what_waits_for_a_day_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(tmp_path))
    hosts = fill(store, incident_at(ago(100), ago(90)))
    alerts = {"webhooks": ["http://127.0.0.1:9"]}
    assert len(announce(store, hosts, alerts)["undelivered"]) == 1
    assert len(store.alert_state().pending) == 1
    monkeypatch.setattr("tasks.alerting.UNDELIVERED", timedelta(0))
    assert len(announce(store, hosts, alerts)["undelivered"]) == 1
    assert store.alert_state().pending == ()


def test_without_a_channel_nothing_is_kept(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    hosts = fill(store, incident_at(ago(100), ago(90)))
    assert announce(store, hosts, {})["sent"] == []
    assert store.backend.read("alerts/state.json") is None


def test_a_notification_library_delivers_to_its_kinds(tmp_path: Path, hook: Receiver) -> None:
    store = Store(str(tmp_path))
    hosts = fill(store, incident_at(ago(100), ago(90)))
    address = hook.url.replace("http://", "json://")
    result = announce(store, hosts, {"notify": [f"{address}/secret-path"]})
    assert [row["channel"] for row in result["sent"]] == ["json"]
    ((_, _, body),) = hook.requests
    message = json.loads(body)
    assert message["title"] == "Reveal: Packet loss on node-1"
    assert message["type"] == "warning"
    for part in (
        "segments were sent again: 310 /s",
        "What to do: Find the hop that drops.",
        "$ ip -s link",
        f"Report: {REPORT}",
    ):
        assert part in message["message"]


def test_a_message_names_the_first_hosts_and_counts_the_rest() -> None:
    names = [f"n-{n:02d}" for n in range(9)]
    incidents = [incident_at(0, 5, host=name) for name in names]
    entries = [
        {**follow(Ledger(i.host), [i], NOON, i.end).entries[0].to_dict(), "incident": i.to_dict()}
        for i in incidents
    ]
    (fleet,) = fleet_incidents(incidents, names)
    notice = {"status": "firing", "title": "t", "entries": entries, "fleet": fleet.to_dict(), "report": ""}
    title, body = as_text(notice)
    assert title == "Reveal: t"
    assert "Hosts: n-00, n-01, n-02, n-03, n-04 and 4 more" in body
    assert body.endswith("and 4 more")
    assert "Report" not in body


def test_an_unknown_incident_says_so() -> None:
    one = incident_at(0, 5, "")
    (entry,) = follow(Ledger("node-1"), [one], NOON, one.end).entries
    notice = {
        "status": "firing",
        "title": "t",
        "entries": [{**entry.to_dict(), "incident": one.to_dict()}],
        "fleet": None,
        "report": "",
    }
    _, body = as_text(notice)
    assert "Unknown network anomaly: tcp.RetransSegs moved" in body
    assert "No entry of the cause catalogue fits." in body


@pytest.mark.parametrize(
    ("alerts", "said"),
    [
        ({"webhooks": ["ftp://x"]}, "setting alerts.webhooks: an http or https address"),
        ({"alertmanager": ["alertmanager:9093"]}, "setting alerts.alertmanager"),
        ({"alertmanager": ["http://x:port"]}, "setting alerts.alertmanager"),
        ({"notify": ["slack"]}, "setting alerts.notify"),
    ],
)
def test_addresses_that_are_none(alerts: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make_channels(alerts)


def test_trying_channels(hook: Receiver) -> None:
    with pytest.raises(UsageError, match="no channel is set"):
        try_channels({})
    with pytest.raises(UsageError, match="nonsense:// is no address that Apprise knows"):
        try_channels({"notify": ["nonsense://x"]})
    taken, refused = try_channels({"webhooks": [hook.url, "http://127.0.0.1:9/secret"]})
    assert taken["reason"] == ""
    assert refused == {
        "channel": "webhook 127.0.0.1:9",
        "reason": "webhook 127.0.0.1:9 cannot be reached: ConnectionError",
    }
    jsonschema.validate(
        json.loads(hook.requests[0][2]), json.loads((ROOT / "docs/webhook.schema.json").read_text())
    )


def test_a_store_that_is_away_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(str(tmp_path / "file/store"))
    with pytest.raises(UnavailableError, match="store"):
        announce(store, ["node-1"], {"webhooks": ["http://127.0.0.1:9"]})
