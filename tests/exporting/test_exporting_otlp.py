"""Incidents and scores as OTLP: what the protocol's own messages make of the JSON, and what is told when."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from exporting_samples import UNTIL, judged, windows
from google.protobuf.json_format import Parse
from incident_samples import at, incident_at
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from reveal_core.exporting import otlp
from reveal_core.exporting.otlp import Step, Told, changes, count_of, log_requests, metric_requests, steps_of
from reveal_core.ledger import Entry, begun_by
from reveal_core.timespec import to_ns

MINUTE = 60_000_000_000
CLOSED = incident_at(60, 70, "memory-pressure", score=2.0)
ON = incident_at(590, UNTIL, score=4.5, state="open", action="drain")


def entries() -> list[Entry]:
    """Return one that was over at 130 s, and one that is on."""
    return list(judged("node-1", CLOSED, ON).entries)


def logs(told: list[Told]) -> list[Any]:
    """Return the requests as messages of the protocol, which refuse what they do not know."""
    return [Parse(json.dumps(one), ExportLogsServiceRequest()) for one in log_requests(told, "1.2.3")]


def attributes(found: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in found}


def test_an_incident_is_told_when_it_begins_and_when_it_is_over() -> None:
    every = changes(entries(), at(0), at(900))
    assert [(time, change, entry.cause) for time, change, entry in every] == [
        (at(60), "opened", "memory-pressure"),
        (at(130), "resolved", "memory-pressure"),
        (at(590), "opened", "packet-loss"),
    ]


@pytest.mark.parametrize("cut", [60, 61, 129.9, 130, 131, 590])
def test_ranges_that_adjoin_tell_everything_once(cut: float) -> None:
    whole = changes(entries(), at(0), at(900))
    parts = changes(entries(), at(0), at(cut)) + changes(entries(), at(cut), at(900))
    assert parts == whole


def test_a_record_holds_what_a_person_needs() -> None:
    entry = entries()[1]
    (request,) = logs([Told(entry.first, "opened", entry, ON)])
    (resource,) = request.resource_logs
    assert attributes(resource.resource.attributes) == {"service.name": "reveal", "host.name": "node-1"}
    (scope,) = resource.scope_logs
    assert (scope.scope.name, scope.scope.version) == ("reveal", "1.2.3")
    (record,) = scope.log_records
    assert record.time_unix_nano == record.observed_time_unix_nano == to_ns(at(590))
    assert (record.severity_number, record.severity_text) == (17, "ERROR")  # its action is to drain the host
    assert record.event_name == "reveal.incident"
    assert record.body.string_value == "Packet loss on node-1"
    found = attributes(record.attributes)
    evidence = [one.string_value for one in found.pop("reveal.incident.evidence").values]
    metrics = [one.string_value for one in found.pop("reveal.incident.metrics").values]
    assert evidence == ["segments were sent again: 310 /s, normally 0 to 2 /s"]
    assert metrics == ["tcp.RetransSegs", "cpu.busy"]
    assert found == {
        "reveal.incident.id": ON.id,
        "reveal.incident.fingerprint": ON.fingerprint,
        "reveal.incident.state": "opened",
        "reveal.incident.start": "2026-11-29T12:09:50.000Z",
        "reveal.incident.subsystem": "network",
        "reveal.incident.cause": "packet-loss",
        "reveal.incident.title": "Packet loss",
        "reveal.incident.action": "drain",
        "reveal.incident.severity": 3,
        "reveal.incident.score": 4.5,
        "reveal.incident.probability": 1e-6,
        "reveal.incident.confidence": 0.8,
        "reveal.incident.fix": "Find the hop that drops.",
    }


def test_what_is_over_is_told_as_such() -> None:
    entry = entries()[0]
    (request,) = logs([Told(at(130), "resolved", entry, CLOSED)])
    (record,) = request.resource_logs[0].scope_logs[0].log_records
    assert (record.severity_number, record.severity_text) == (9, "INFO")
    assert record.body.string_value == "Over: Memory pressure on node-1"
    found = attributes(record.attributes)
    assert found["reveal.incident.state"] == "resolved"
    assert found["reveal.incident.end"] == "2026-11-29T12:01:10.000Z"
    assert found["reveal.incident.count"] == 1


def test_an_incident_without_a_cause_or_an_explanation() -> None:
    entry = replace(begun_by(incident_at(10, 20, "")), score=float("nan"))
    (request,) = logs([Told(entry.first, "opened", entry, None)])
    found = attributes(request.resource_logs[0].scope_logs[0].log_records[0].attributes)
    assert found["reveal.incident.cause"] == "unknown"
    assert found["reveal.incident.title"] == "Unknown network anomaly: tcp.RetransSegs moved"
    assert not {"reveal.incident.score", "reveal.incident.fix", "reveal.incident.action"} & set(found)


def test_integers_are_strings_and_names_lower_camel_case() -> None:
    entry = entries()[0]
    (request,) = log_requests([Told(entry.first, "opened", entry, CLOSED)], "1")
    record = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]
    assert record["timeUnixNano"] == str(to_ns(at(60)))
    assert {"key": "reveal.incident.severity", "value": {"intValue": "3"}} in record["attributes"]
    assert "_" not in "".join(record)


def test_many_records_are_several_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_RECORDS", 3)
    every = [begun_by(incident_at(n, n + 1, host=f"node-{n % 2}")) for n in range(7)]
    requests = log_requests([Told(entry.first, "opened", entry) for entry in every], "1")
    assert [count_of(request) for request in requests] == [3, 3, 1]
    assert [len(request["resourceLogs"]) for request in requests] == [2, 2, 1]
    assert log_requests([], "1") == []


def test_scores_are_told_once_a_step() -> None:
    frame = windows(at(30), [0.5] * 29 + [1.5] + [0.25] * 30 + [None] * 60 + [0.75])
    assert steps_of(frame, MINUTE) == [
        Step(to_ns(at(60)), 1.5, 1.0),
        Step(to_ns(at(120)), 0.25, 0.5),
        Step(to_ns(at(180)), 0.75, 1 / 31),
    ]
    assert steps_of(windows(at(0), [None] * 3), MINUTE) == [Step(to_ns(at(60)), None, 0.0)]
    assert steps_of(windows(at(0), []), MINUTE) == []


def test_scores_are_gauges_of_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [Step(MINUTE, 1.5, 1.0), Step(2 * MINUTE, None, 0.0), Step(3 * MINUTE, 0.5, 0.75)]
    (plain,) = metric_requests("node-1", steps, "1.2.3")
    assert count_of(plain) == 5
    request = Parse(json.dumps(plain), ExportMetricsServiceRequest())
    (resource,) = request.resource_metrics
    assert attributes(resource.resource.attributes)["host.name"] == "node-1"
    score, coverage = resource.scope_metrics[0].metrics
    assert (score.name, score.unit, coverage.name) == ("reveal.host.score", "1", "reveal.host.coverage")
    assert [(p.time_unix_nano, p.as_double) for p in score.gauge.data_points] == [
        (MINUTE, 1.5),
        (3 * MINUTE, 0.5),
    ]
    assert [p.as_double for p in coverage.gauge.data_points] == [1.0, 0.0, 0.75]
    monkeypatch.setattr(otlp, "MOST_POINTS", 4)
    assert [count_of(request) for request in metric_requests("node-1", steps, "1")] == [3, 2]
    assert metric_requests("node-1", [], "1") == []
