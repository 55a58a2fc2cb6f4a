"""What was told of incidents so far, at rest."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache

from pydantic import TypeAdapter

from reveal_core.alerts import AlertState
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import ALERTS_STATE
from storage.typed import read_typed


@cache
def _state() -> TypeAdapter[AlertState]:
    return TypeAdapter(AlertState)


def read_alert_state(backend: Backend) -> AlertState:
    """Return what was told so far; nothing if there is no file."""
    return read_typed(backend, ALERTS_STATE, _state()) or AlertState()


def put_alert_state(backend: Backend, state: AlertState) -> str:
    """Store what was told so far; return the key."""
    backend.write(ALERTS_STATE, to_json(asdict(state)))
    return ALERTS_STATE
