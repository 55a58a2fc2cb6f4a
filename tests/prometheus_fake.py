"""A small Prometheus on loopback: samples in memory, the API as it is documented, and faults on demand."""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Sample = tuple[int, str]
Labels = dict[str, str]
_MATCHER = re.compile(r'(\w+)(=~|!=|!~|=)("(?:[^"\\]|\\.)*")')


@dataclass
class Fault:
    """What is answered in place of an answer.

    ``cut`` sends half of the body, ``reset`` closes the connection, ``stall_s`` waits first.
    """

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    reset: bool = False
    stall_s: float = 0.0


@dataclass
class Request:
    method: str
    path: str
    fields: dict[str, str]
    headers: dict[str, str]


@dataclass
class FakePrometheus:
    """What it holds, what it was asked, and the faults that come next.

    ``closed`` gives samples on the beginning of a range too, as versions before 3 do; ``most`` is how many
    samples a query may load; ``most_active`` is how many requests there were at once.
    """

    url: str = ""
    series: list[tuple[Labels, list[Sample]]] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    faults: deque[Fault] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    closed: bool = False
    most: int = 50_000_000
    token: str = ""
    active: int = 0
    most_active: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, name: str, samples: Sequence[Sample], **labels: str) -> None:
        self.series.append(({"__name__": name, **labels}, list(samples)))

    def queries(self) -> list[Request]:
        return [request for request in self.requests if request.path == "/api/v1/query"]

    def answer(self, request: Request) -> tuple[int, Any]:
        """Return status and document of a request."""
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"status": "error"}
        if request.path == "/api/v1/metadata":
            found = {name: [{"type": kind, "help": "", "unit": ""}] for name, kind in self.kinds.items()}
            return 200, {"status": "success", "data": found}
        values = re.fullmatch(r"/api/v1/label/(\w+)/values", request.path)
        if values is not None:
            fits = fitting(request.fields["match[]"])
            start, end = (float(request.fields[key]) * 1000 for key in ("start", "end"))
            found = {
                labels.get(values[1], "")
                for labels, samples in self.series
                if fits(labels) and any(start <= t <= end for t, _ in samples)
            }
            return 200, {"status": "success", "data": sorted(found - {""})}
        if request.path == "/api/v1/query":
            return self._query(request.fields)
        return 404, {"status": "error", "errorType": "not_found", "error": "no such page"}

    def _query(self, fields: dict[str, str]) -> tuple[int, Any]:
        parts = re.fullmatch(r"(\{.*\})\[(\d+)ms\]", fields["query"], re.DOTALL)
        if parts is None:
            return 400, {"status": "error", "errorType": "bad_data", "error": "parse error: what is this"}
        fits = fitting(parts[1])
        end = round(float(fields["time"]) * 1000)
        begin = end - int(parts[2])
        result, loaded = [], 0
        for labels, samples in self.series:
            if not fits(labels):
                continue
            inside = [(t, text) for t, text in samples if begin - self.closed < t <= end]
            pairs = [[t / 1000, text] for t, text in inside]
            loaded += len(pairs)
            if pairs:
                result.append({"metric": labels, "values": pairs})
        if loaded > self.most:
            text = "query processing would load too many samples into memory in query execution"
            return 422, {"status": "error", "errorType": "execution", "error": text}
        return 200, {"status": "success", "data": {"resultType": "matrix", "result": result}}


def fitting(selector: str) -> Callable[[Labels], bool]:
    """Return a function that tells whether labels fit a selector."""
    matchers = [(label, sign, json.loads(text)) for label, sign, text in _MATCHER.findall(selector)]
    assert matchers, selector

    def fits(labels: Labels) -> bool:
        for label, sign, value in matchers:
            own = labels.get(label, "")
            same = re.fullmatch(value, own) is not None if "~" in sign else own == value
            if same == sign.startswith("!"):
                return False
        return True

    return fits


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing of a client that has gone away."""


@contextmanager
def serving(tls: tuple[str, str] | None = None) -> Iterator[FakePrometheus]:
    """Serve on loopback while the block runs; ``tls`` names certificate and key."""
    fake = FakePrometheus()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self.respond(Request("GET", parts.path, flat(parts.query), dict(self.headers)))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self.respond(Request("POST", self.path, flat(body), dict(self.headers)))

        def respond(self, request: Request) -> None:
            with fake.lock:
                fake.requests.append(request)
                fault = fake.faults.popleft() if fake.faults else None
                fake.active += 1
                fake.most_active = max(fake.most_active, fake.active)
            if fault is None or fault.cut:
                status, document = fake.answer(request)
                body, headers = json.dumps(document).encode(), {"Content-Type": "application/json"}
            else:
                time.sleep(fault.stall_s)
                status, body = fault.status, fault.body
                headers = {"Content-Type": "application/json", **fault.headers}
            with fake.lock:  # before the client knows, or its next request may be counted with this one
                fake.active -= 1
            self.close_connection = fault is not None and (fault.cut or fault.reset)
            if fault is not None and fault.reset:
                return
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if fault is not None and fault.cut else body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = _Server(("127.0.0.1", 0), Handler)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    fake.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def flat(query: str) -> dict[str, str]:
    return {key: values[0] for key, values in parse_qs(query, keep_blank_values=True).items()}
