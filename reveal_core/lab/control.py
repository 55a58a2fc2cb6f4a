"""Requests to a running rank over a Unix datagram socket; so far: lose packets for a while."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from reveal_core.errors import UnavailableError


def serve_control(path: Path, set_loss: Callable[[float], None]) -> None:
    """Answer requests in a thread of the rank; loss ends by itself at the time that the request gave."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(str(path))
    threading.Thread(target=_serve, args=(server, set_loss), daemon=True, name="control").start()


def _serve(server: socket.socket, set_loss: Callable[[float], None]) -> None:
    until: float | None = None
    while True:
        patience = None if until is None else max(until - time.monotonic(), 0.0)
        if not select.select([server], [], [], patience)[0]:
            set_loss(0.0)
            until = None
            continue
        request, sender = server.recvfrom(4096)
        try:
            fields = json.loads(request)
            probability, seconds = float(fields["loss"]), float(fields["seconds"])
            set_loss(probability)
            until = time.monotonic() + seconds if probability else None
            answer = b"ok"
        except (OSError, ValueError, KeyError, TypeError) as error:
            answer = str(error).encode()
        if sender:
            try:
                server.sendto(answer, sender)
            except OSError:
                continue  # whoever asked has not waited for the answer


def request_loss(path: Path, probability: float, seconds: float) -> None:
    """Ask a rank to lose what it receives with a probability, for at most some seconds; zero ends it.

    Raises
    ------
    UnavailableError
        If the rank does not answer, or its kernel refuses.
    """
    with (
        TemporaryDirectory(prefix="reveal-ctl-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
    ):
        sock.bind(os.path.join(folder, "s"))
        sock.settimeout(5.0)
        try:
            sock.sendto(json.dumps({"loss": probability, "seconds": seconds}).encode(), str(path))
            answer = sock.recv(4096)
        except OSError as error:
            raise UnavailableError(f"the workload's rank at {path} does not answer: {error}") from None
    if answer != b"ok":
        raise UnavailableError(f"the workload's rank at {path} refuses: {answer.decode(errors='replace')}")
