"""Competitors for the network: packets, connections, and links that come and go."""

from __future__ import annotations

import argparse
import resource
import socket
import struct
import threading
import time
from collections import deque
from contextlib import suppress
from typing import NoReturn

from reveal_core.lab.namespaces import set_link

BURST_PERIOD_S = 0.01
AT_ONCE = 20
"""Connections or datagrams between two looks at the clock."""
KNOCKING = 200
"""Attempts to connect that are under way at a time."""
PORTS = range(1024, 65024)
_SPARE_FILES = 64
_RESET = struct.pack("ii", 1, 0)
"""``struct linger``: closing resets the connection, so that none is left in TIME-WAIT."""


def packets(options: argparse.Namespace) -> NoReturn:
    """Send bursts of small datagrams to the other side, and read those that come from there."""
    inbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inbox.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    inbox.bind((options.listen, options.port))

    def drain() -> None:
        buffer = bytearray(256)
        while True:
            inbox.recv_into(buffer)

    threading.Thread(target=drain, daemon=True).start()
    outbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    outbox.connect((options.send, options.port))
    payload = bytes(64)
    while True:
        for _ in range(options.count):
            try:
                outbox.send(payload)
            except ConnectionRefusedError:
                continue  # the other side does not listen yet, or any more
        time.sleep(BURST_PERIOD_S)


def connections(options: argparse.Namespace) -> NoReturn:
    """Open connections to oneself at a rate, hold so many, and close the oldest for each new one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    count = min(options.count, (most - _SPARE_FILES) // 2)
    listener = socket.create_server((options.listen, 0), backlog=128)
    held: deque[tuple[socket.socket, socket.socket]] = deque()
    while True:
        for _ in range(AT_ONCE):
            pair = socket.create_connection(listener.getsockname()), listener.accept()[0]
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            held.append(pair)
            if len(held) > count:
                for end in held.popleft():
                    end.close()
        time.sleep(AT_ONCE / options.rate)


def knock(options: argparse.Namespace) -> NoReturn:
    """Knock at a listener that accepts nobody, so that its queue overflows."""
    listener = socket.create_server((options.listen, 0), backlog=1)
    knocking: deque[socket.socket] = deque()
    while True:
        client = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        client.setblocking(False)
        client.connect_ex(listener.getsockname())
        knocking.append(client)
        if len(knocking) > KNOCKING:
            knocking.popleft().close()
        time.sleep(1 / options.rate)


def flows(options: argparse.Namespace) -> NoReturn:
    """Send a datagram to one port of the other side after the other: each is a connection to be tracked."""
    outbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    outbox.bind((options.listen, 0))
    number = 0
    while True:
        for _ in range(AT_ONCE):
            with suppress(PermissionError):  # that is how a full table refuses a new connection
                outbox.sendto(b"x", (options.send, PORTS[number % len(PORTS)]))
            number += 1
        time.sleep(AT_ONCE / options.rate)


def flap(options: argparse.Namespace) -> NoReturn:
    """Set an interface down and up, in turns."""
    while True:
        set_link(options.interface, False)
        time.sleep(options.on)
        set_link(options.interface, True)
        time.sleep(options.off)
