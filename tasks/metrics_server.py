"""Serving metrics to Prometheus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric

from reveal_core.errors import UnavailableError, UsageError


class Collector(Protocol):
    """Something that has metrics when it is asked for them, from any thread."""

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        ...


def serve_metrics(option: str, address: str, collector: Collector, example: str) -> WSGIServer:
    """Answer at ``HOST:PORT`` from now on, in a thread; return the server.

    Parameters
    ----------
    option
        That gave the address, for messages.
    address
        Port 0 takes any that is free; ``server_port`` of what is returned says which.
    collector
        Has the metrics.
    example
        An address that would do.

    Raises
    ------
    UsageError
        If the address is none.
    UnavailableError
        If nothing can be served there.
    """
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()):
        raise UsageError(f"{option} {address}: give it as HOST:PORT, such as {example}")
    registry = CollectorRegistry()
    registry.register(collector)
    try:
        server, _ = start_http_server(int(port), host.strip("[]"), registry)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UnavailableError(f"{option} {address}: {reason}") from error
    return server
