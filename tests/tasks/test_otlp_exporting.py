"""The stage that exports OTLP: to a receiver on loopback, which may refuse, and into files."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from exporting_samples import NOW, put_fleet
from google.protobuf.json_format import Parse
from incident_samples import at
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.exporting.otlp_access import targets_of
from reveal_core.incidents import iso
from reveal_core.lab.processes import free_port
from storage.store import Store
from tasks.otlp_exporting import export_otlp
from tasks.otlp_sending import TRIES, Lines, Receiver, lines_into

Answer = tuple[int, dict[str, str], bytes]
GOOD: Answer = (200, {"Content-Type": "application/json"}, b"{}")
RANGE = {"start": iso(at(0)), "end": iso(at(900))}
REQUEST: dict[str, Any] = {"resourceLogs": []}
MESSAGES = {"/v1/logs": ExportLogsServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}


@dataclass
class Scripted:
    """A receiver that answers as it is told, then well."""

    url: str = ""
    answers: list[Answer] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def receiver(*answers: Answer) -> Iterator[Scripted]:
    script = Scripted(answers=list(answers))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            script.requests.append((self.path, dict(self.headers), body))
            status, headers, said = script.answers.pop(0) if script.answers else GOOD
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    script.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = Store(str(tmp_path_factory.mktemp("exported") / "store"))
    put_fleet(found)
    return found.url


def export(store: str, **more: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "host": "*",
        **RANGE,
        "step_s": 60.0,
        "endpoint": None,
        "out": None,
        "variables": {},
    }
    return export_otlp(store, **{**arguments, **more})


def sender(url: str, **variables: str) -> Receiver:
    said = {f"OTEL_EXPORTER_OTLP_{name}": value for name, value in variables.items()}
    return Receiver(targets_of(url, said), backoff_s=0.0)


def test_what_a_receiver_gets(store: str) -> None:
    with receiver() as found:
        done = export(
            store,
            variables={
                "OTEL_EXPORTER_OTLP_ENDPOINT": found.url,
                "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Bearer%20s3cret",
            },
        )
    assert {path for path, _, _ in found.requests} == {"/v1/logs", "/v1/metrics"}
    messages = [Parse(body, MESSAGES[path]()) for path, _, body in found.requests]
    assert all(headers["Authorization"] == "Bearer s3cret" for _, headers, _ in found.requests)
    assert all(headers["Content-Type"] == "application/json" for _, headers, _ in found.requests)
    records = [
        record
        for message in messages
        if isinstance(message, ExportLogsServiceRequest)
        for resource in message.resource_logs
        for record in resource.scope_logs[0].log_records
    ]
    said = [record.body.string_value for record in records]
    for text in ("Memory pressure on node-1", "Over: Memory pressure on node-1", "Packet loss on node-1"):
        assert said.count(text) == 1
    assert len([text for text in said if text.endswith(" on node-3")]) == 1
    points = sum(
        len(metric.gauge.data_points)
        for message in messages
        if isinstance(message, ExportMetricsServiceRequest)
        for resource in message.resource_metrics
        for metric in resource.scope_metrics[0].metrics
    )
    assert done == {
        "hosts": 4,
        "logs": 4,
        "points": points,
        "requests": len(found.requests),
        "rejected": 0,
        "said": [],
        "start": RANGE["start"],
        "end": RANGE["end"],
        "to": f"{found.url}/v1/logs and {found.url}/v1/metrics",
    }


def test_a_file_holds_a_request_a_line_and_the_same_export_gives_the_same_bytes(
    store: str, tmp_path: Path
) -> None:
    plain, packed = tmp_path / "out.jsonl", tmp_path / "out.jsonl.gz"
    done = export(store, out=str(plain))
    export(store, out=str(packed))
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    before = packed.read_bytes()
    export(store, out=str(packed))
    assert packed.read_bytes() == before
    lines = [json.loads(line) for line in plain.read_text().splitlines()]
    assert len(lines) == done["requests"]
    kinds = {"resourceLogs": ExportLogsServiceRequest, "resourceMetrics": ExportMetricsServiceRequest}
    for line in lines:
        (kind,) = line
        Parse(json.dumps(line), kinds[kind]())
    assert done["to"] == str(plain)
    assert {path.name for path in tmp_path.iterdir()} == {"out.jsonl", "out.jsonl.gz"}


def contents(path: Path) -> tuple[list[Any], list[Any]]:
    """Return log records and data points of a file, each with its host and metric."""
    records, points = [], []
    for line in map(json.loads, path.read_text().splitlines()):
        for resource in line.get("resourceLogs", ()):
            records += resource["scopeLogs"][0]["logRecords"]
        for resource in line.get("resourceMetrics", ()):
            host = resource["resource"]["attributes"][1]["value"]["stringValue"]
            for metric in resource["scopeMetrics"][0]["metrics"]:
                points += [(host, metric["name"], point) for point in metric["gauge"]["dataPoints"]]
    return records, sorted(points, key=str)


@pytest.mark.parametrize("cut", [130.0, 300.0, 317.5])
def test_ranges_that_adjoin_give_each_thing_once(store: str, tmp_path: Path, cut: float) -> None:
    export(store, out=str(tmp_path / "whole"))
    export(store, out=str(tmp_path / "one"), end=iso(at(cut)))
    # Only whole steps are told, so a step that the cut lies in is told by neither part of it.
    export(store, out=str(tmp_path / "two"), start=iso(at(cut)))
    whole, one, two = (contents(tmp_path / name) for name in ("whole", "one", "two"))
    assert sorted(one[0] + two[0], key=str) == sorted(whole[0], key=str)
    lost = [point for point in whole[1] if point not in one[1] + two[1]]
    edge = at(cut) - timedelta(seconds=cut % 60)
    assert {int(point["timeUnixNano"]) for _, _, point in lost} <= {
        round((edge + timedelta(seconds=60)).timestamp()) * 10**9
    }
    if cut % 60 == 0:
        assert not lost


def test_one_host_and_an_empty_range(store: str, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    done = export(store, out=out, host="node-2")
    assert (done["hosts"], done["logs"]) == (1, 0)
    assert done["points"] == 2 * 5
    done = export(store, out=out, start=iso(at(5000)), end=iso(at(6000)))
    assert (done["logs"], done["points"], done["requests"]) == (0, 0, 0)
    assert Path(out).read_bytes() == b""


def test_an_empty_store(tmp_path: Path) -> None:
    Store(str(tmp_path / "empty")).check(write=True)
    done = export(str(tmp_path / "empty"), out=str(tmp_path / "out"))
    assert (done["hosts"], done["requests"]) == (0, 0)


@pytest.mark.parametrize(
    ("more", "error", "said"),
    [
        ({}, UsageError, "where to is not said"),
        ({"endpoint": "http://c", "out": "x"}, UsageError, "exclude each other"),
        ({"out": "x", "step_s": 0.5}, UsageError, "at least 1 s"),
        ({"out": "x", "host": "other-*"}, UsageError, "no host 'other-\\*' was judged in store"),
        ({"out": "x", "start": "2026-11-29T14:00Z"}, UsageError, "before it starts"),
        ({"out": "no/such/folder/x"}, UnavailableError, "cannot be written: No such file"),
    ],
)
def test_bad_input(
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said):
        export(store, **more)
    assert not list(tmp_path.iterdir())


def broken(lines: Lines) -> None:
    lines.put("logs", REQUEST)
    raise ZeroDivisionError


def test_a_file_is_as_it_was_after_an_error(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), lines_into(path) as lines:
        broken(lines)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("out", "before")]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_what_heals_is_tried_again(status: int) -> None:
    with receiver((status, {}, b"busy"), (status, {}, b"busy")) as found:
        assert sender(found.url).put("logs", REQUEST) == 0
    assert [body for _, _, body in found.requests] == [b'{"resourceLogs":[]}'] * 3


def test_it_waits_as_long_as_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("urllib3.util.retry.time", SimpleNamespace(sleep=waited.append, time=time.time))
    with receiver((429, {"Retry-After": "7"}, b""), (503, {"Retry-After": "100000"}, b"")) as found:
        sender(found.url).put("metrics", REQUEST)
    assert waited == [7, 300]


def test_it_gives_up_after_a_while() -> None:
    said = "/v1/logs: 503 Busy, 6 times in a row"
    busy = [(503, {}, b"<h1>Busy</h1>")] * 20
    with receiver(*busy) as found, pytest.raises(UnavailableError, match=said):
        sender(found.url).put("logs", REQUEST)
    assert len(found.requests) == TRIES


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((400, {}, b'{"code": 3, "message": "bad\\ndata"}'), "does not take it: 400 bad data"),
        ((401, {}, b""), "does not take it: 401 Unauthorized"),
        ((404, {}, b"<p>none</p>"), "does not take it: 404 none"),
        ((413, {"Retry-After": "1"}, b"too large"), "does not take it: 413 too large"),
        ((500, {}, b"[1]"), r"does not take it: 500 \[1\]"),
        ((307, {"Location": "http://other/"}, b""), "does not take it: 307"),
    ],
)
def test_what_does_not_heal_is_told_at_once(answer: Answer, said: str) -> None:
    with receiver(answer) as found, pytest.raises(UnavailableError, match=said) as error:
        sender(f"{found.url}?key=s3cret").put("logs", REQUEST)
    assert len(found.requests) == 1
    assert "s3cret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_a_receiver_that_is_not_there_is_told_at_once() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(UnavailableError, match=f"{url}/v1/logs cannot be reached: Connection refused"):
        sender(url).put("logs", REQUEST)


def test_a_receiver_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        to = sender(f"http://127.0.0.1:{silent.getsockname()[1]}", TIMEOUT="200")
        with pytest.raises(UnavailableError, match=r"no answer within 0\.2 s"):
            to.put("logs", REQUEST)


@pytest.mark.parametrize(
    ("body", "rejected", "said"),
    [
        (b'{"partialSuccess": {"rejectedLogRecords": "3", "errorMessage": "too\\nold"}}', 3, ["too old"]),
        (b'{"partialSuccess": {"errorMessage": "deprecated"}}', 0, ["deprecated"]),
        (b'{"partialSuccess": null}', 0, []),
        (b"", 0, []),
        (b"OK", 0, []),
        (b"[]", 0, []),
        (b'{"partialSuccess": {"rejectedLogRecords": "many"}}', 0, []),
    ],
)
def test_what_a_receiver_left_out(body: bytes, rejected: int, said: list[str]) -> None:
    with receiver((200, {}, body)) as found:
        to = sender(found.url)
        assert to.put("logs", REQUEST) == rejected
    assert list(to.said) == said


def test_requests_are_packed_where_that_is_wanted() -> None:
    with receiver() as found:
        sender(found.url, COMPRESSION="gzip").put("logs", REQUEST)
    ((_, headers, body),) = found.requests
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == b'{"resourceLogs":[]}'


def test_now_is_the_end_of_the_range(store: str, tmp_path: Path) -> None:
    done = export(store, out=str(tmp_path / "out"), start="-2h", end=None)
    assert done["start"] < done["end"]
    assert done["end"] != iso(NOW)
