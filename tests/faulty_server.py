"""An HTTP server that stands in front of another one and fails as it is told: what breaks an object store."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "expect"})


@dataclass(frozen=True)
class Reset:
    """The connection is reset; with ``after``, when the request has been done already."""

    after: bool = False


@dataclass(frozen=True)
class Delay:
    seconds: float


@dataclass(frozen=True)
class Answer:
    """An error of the object store."""

    status: int
    code: str

    @property
    def body(self) -> bytes:
        return (
            f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{self.code}</Code>'
            f"<Message>{self.code} was returned</Message></Error>"
        ).encode()


Fault = Callable[[str, str], Reset | Delay | Answer | None]
"""Tells from a request's method and path what becomes of it."""


class FaultyServer:
    """Forwards requests to another server.

    Attributes
    ----------
    fault
        May be set at any time; None: everything works.
    requests
        How many have come.
    """

    def __init__(self, upstream: str) -> None:
        self.fault: Fault | None = None
        self.requests = 0
        parts = urlsplit(upstream)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def _do(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.requests += 1
                fault = outer.fault(self.command, self.path) if outer.fault else None
                if isinstance(fault, Delay):
                    time.sleep(fault.seconds)
                if isinstance(fault, Answer):
                    self._send(fault.status, {"Content-Type": "application/xml"}, fault.body)
                    return
                if isinstance(fault, Reset) and not fault.after:
                    self._reset()
                    return
                upstream = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
                kept = {n: v for n, v in self.headers.items() if n.lower() not in HOP_BY_HOP}
                upstream.request(self.command, self.path, body or None, kept)
                answer = upstream.getresponse()
                content = answer.read()
                upstream.close()
                if isinstance(fault, Reset):
                    self._reset()
                    return
                headers = {n: v for n, v in answer.getheaders() if n.lower() not in HOP_BY_HOP}
                length = answer.getheader("Content-Length") if self.command == "HEAD" else None
                self._send(answer.status, headers, content, length)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _do

            def _send(
                self, status: int, headers: dict[str, str], body: bytes, length: str | None = None
            ) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", length or str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def _reset(self) -> None:
                # With no time to linger, closing sends a reset.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
