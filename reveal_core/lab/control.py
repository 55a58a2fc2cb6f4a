"""Requests to a running rank over a Unix datagram socket: lose packets, or get no input, for a while."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from reveal_core.errors import UnavailableError

LOSS, STALL = "loss", "stall"
"""What a rank can be asked for: a share of lost packets, and a share of time without input."""
Effect = Callable[[float], None]
"""Sets how strong something is, 0 ends it; raises ValueError for what it cannot be."""


def serve_control(path: Path, effects: Mapping[str, Effect]) -> None:
    """Answer requests in a thread of the rank; an effect ends by itself at the time that the request gave."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    server.bind(str(path))
    threading.Thread(target=_serve, args=(server, effects), daemon=True, name="control").start()


def _serve(server: socket.socket, effects: Mapping[str, Effect]) -> None:
    ends: dict[str, float] = {}
    while True:
        for name in [name for name, end in ends.items() if end <= time.monotonic()]:
            effects[name](0.0)
            del ends[name]
        patience = max(min(ends.values()) - time.monotonic(), 0.0) if ends else None
        if not select.select([server], [], [], patience)[0]:
            continue
        request, sender = server.recvfrom(4096)
        try:
            fields = json.loads(request)
            name, strength = str(fields["effect"]), float(fields["strength"])
            end = time.monotonic() + float(fields["seconds"])
            effects[name](strength)
            ends.pop(name, None)
            if strength:
                ends[name] = end
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
    _request(path, LOSS, probability, seconds)


def request_stall(path: Path, share: float, seconds: float) -> None:
    """Ask a rank to get no input for a share of the time, for at most some seconds; zero ends it.

    Raises
    ------
    UnavailableError
        If the rank does not answer, or the share is none.
    """
    _request(path, STALL, share, seconds)


def _request(path: Path, effect: str, strength: float, seconds: float) -> None:
    request = {"effect": effect, "strength": strength, "seconds": seconds}
    with (
        TemporaryDirectory(prefix="reveal-ctl-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock,
    ):
        sock.bind(os.path.join(folder, "s"))
        sock.settimeout(5.0)
        try:
            sock.sendto(json.dumps(request).encode(), str(path))
            answer = sock.recv(4096)
        except OSError as error:
            raise UnavailableError(f"the workload's rank at {path} does not answer: {error}") from None
    if answer != b"ok":
        raise UnavailableError(f"the workload's rank at {path} refuses: {answer.decode(errors='replace')}")
