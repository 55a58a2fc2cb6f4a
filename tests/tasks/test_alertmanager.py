"""A real Alertmanager on loopback receives, groups and resolves."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from http_receiver import Receiver, receiving
from incident_samples import NOON, incident_at

from reveal_core.attribute.tracking import follow
from reveal_core.incidents import Incident
from reveal_core.lab.processes import free_port
from storage.store import Store
from tasks.alerting import announce_incidents

BINARY = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(
        BINARY is None, reason="Alertmanager is not installed (package prometheus-alertmanager)"
    ),
]


@dataclass
class Manager:
    url: str
    receiver: Receiver

    def alerts(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return found


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Manager]:
    folder = tmp_path_factory.mktemp("alertmanager")
    with receiving() as receiver:
        route = {
            "receiver": "hook",
            "group_by": ["host"],
            "group_wait": "1s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        }
        hook = {"name": "hook", "webhook_configs": [{"url": f"{receiver.url}/hook", "send_resolved": True}]}
        # JSON is YAML.
        (folder / "config.yml").write_text(json.dumps({"route": route, "receivers": [hook]}))
        port = free_port()
        command = [
            str(BINARY),
            f"--config.file={folder / 'config.yml'}",
            f"--storage.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}"
        try:
            until = time.monotonic() + 30
            while True:
                assert process.poll() is None, (folder / "log").read_text()
                try:
                    urllib.request.urlopen(f"{url}/-/ready", timeout=2).close()
                    break
                except OSError:
                    assert time.monotonic() < until, (folder / "log").read_text()
                    time.sleep(0.1)
            yield Manager(url, receiver)
        finally:
            process.terminate()
            process.wait(20)


def enter(store: Store, incidents: list[Incident], end: datetime) -> list[str]:
    hosts = sorted({incident.host for incident in incidents} | set(store.ledger_hosts()))
    for host in hosts:
        own = [incident for incident in incidents if incident.host == host]
        for incident in own:
            store.put_incident(incident)
        store.put_ledger(follow(store.ledger(host), own, end - timedelta(minutes=2), end))
    return hosts


def tell(store: Store, hosts: list[str], manager: Manager) -> dict[str, Any]:
    return announce_incidents(
        store.url,
        hosts=hosts,
        fleet=[],
        report="https://reports.example/r-1/index.html",
        report_id="r-1",
        budget=1.0,
        alerts={"alertmanager": [manager.url]},
    )


def test_it_receives_groups_and_resolves(manager: Manager, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    now = datetime.now(UTC)
    second = (now - NOON).total_seconds()
    incidents = [
        incident_at(second - 60, second - 45),
        incident_at(second - 30, second - 1, "disk-slow", state="open", action="inspect-hardware"),
        incident_at(second - 40, second - 1, host="node-2", state="open"),
    ]
    hosts = enter(store, incidents, now)
    assert len(tell(store, hosts, manager)["sent"]) == 2
    alerts = manager.alerts()
    assert len(alerts) == 3
    slow = next(a for a in alerts if a["labels"]["cause"] == "disk-slow")
    assert slow["labels"] == {
        "alertname": "RevealIncident",
        "host": "node-1",
        "incident": incidents[1].id,
        "subsystem": "network",
        "severity": "critical",
        "cause": "disk-slow",
    }
    assert slow["generatorURL"] == "https://reports.example/r-1/index.html"
    assert slow["annotations"]["summary"] == "Disk slow"
    assert "What to do: Find the hop that drops." in slow["annotations"]["description"]
    groups = [json.loads(body) for _, _, body in manager.receiver.wait_for(2)]
    by_host = {group["groupLabels"]["host"]: group for group in groups}
    assert {host: len(group["alerts"]) for host, group in by_host.items()} == {"node-1": 2, "node-2": 1}
    assert {group["status"] for group in groups} == {"firing"}
    # The next run finds them still on: Alertmanager hears of them again and tells nobody anew.
    before = {a["fingerprint"]: a["updatedAt"] for a in manager.alerts()}
    assert [row["status"] for row in tell(store, hosts, manager)["sent"]] == ["still on"]
    assert all(a["updatedAt"] > before[a["fingerprint"]] for a in manager.alerts())
    # Two minutes of calm later they are over.
    enter(store, [], now + timedelta(minutes=2))
    assert {row["status"] for row in tell(store, hosts, manager)["sent"]} == {"resolved"}
    notices = [json.loads(body) for _, _, body in manager.receiver.wait_for(4)]
    assert sorted(n["groupLabels"]["host"] for n in notices if n["status"] == "resolved") == [
        "node-1",
        "node-2",
    ]
    assert manager.alerts() == []


def test_what_was_over_when_it_was_found_is_told_too(manager: Manager, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    now = datetime.now(UTC)
    second = (now - NOON).total_seconds()
    hosts = enter(store, [incident_at(second - 110, second - 100, host="node-3")], now)
    count = len(manager.receiver.requests)
    tell(store, hosts, manager)
    (*_, (_, _, body)) = manager.receiver.wait_for(count + 1)
    assert json.loads(body)["status"] == "firing"
