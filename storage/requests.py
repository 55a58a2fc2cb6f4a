"""What an agent is asked to do, at rest: a small file for each host, which the agent itself reads."""

from __future__ import annotations

import json
from datetime import datetime

from reveal_core.errors import UsageError
from reveal_core.timespec import parse_time
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import request_key, to_utc
from storage.quarantine import put_aside


def ask_dense(backend: Backend, host: str, until: datetime) -> str:
    """Ask a host to sample densely until then; see `storage.store.Store.ask_dense`."""
    key = request_key(host)
    backend.write(key, to_json({"dense_until": to_utc(until).isoformat()}))
    return key


def dense_until(backend: Backend, host: str) -> datetime | None:
    """Return until when a host is asked to sample densely; None if nobody asked."""
    key = request_key(host)
    data = backend.read(key)
    if data is None:
        return None
    try:
        return parse_time(str(json.loads(data)["dense_until"]))
    except (ValueError, KeyError, TypeError, UsageError) as error:
        put_aside(backend, key, data, f"it asks for nothing that is known: {error}")
        return None
