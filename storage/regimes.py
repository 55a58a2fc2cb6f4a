"""Regimes at rest: one JSON file for each host and registered model, the newest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from reveal_core.regimes import Regime
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import REGIMES, parse_host_part, regime_key, to_utc, unquote_name
from storage.quarantine import put_aside

_TIMES = ("since", "until", "acknowledged")


def put_regime(backend: Backend, regime: Regime) -> str:
    """Store a regime in place of the one before; return its key."""
    key = regime_key(regime.model, regime.host)
    backend.write(key, to_json(regime.to_dict()))
    return key


def _from_dict(data: Mapping[str, Any]) -> Regime:
    try:
        known = {field.name: data[field.name] for field in fields(Regime)}
        times = {
            name: to_utc(datetime.fromisoformat(known[name])) if known[name] else None for name in _TIMES
        }
        return Regime(**{**known, **times})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a regime: {error}") from error


def _read(backend: Backend, key: str) -> Regime | None:
    data = backend.read(key)
    if data is None:
        return None
    try:
        return _from_dict(json.loads(data))
    except (ValueError, RecursionError) as error:
        put_aside(backend, key, data, str(error))
        return None


def read_regime(backend: Backend, model: str, host: str) -> Regime | None:
    """Return the newest regime of a host that a registered model noticed; see `storage.store.Store`."""
    return _read(backend, regime_key(model, host))


def read_regimes(backend: Backend) -> list[Regime]:
    """Return the newest regime of every host, by host."""
    keys = []
    for folder in backend.names(REGIMES):
        if not folder.startswith("model=") or unquote_name(folder.removeprefix("model=")) is None:
            continue
        names = backend.names(f"{REGIMES}/{folder}")
        keys += [
            f"{REGIMES}/{folder}/{name}"
            for name in names
            if name.endswith(".json") and parse_host_part(name.removesuffix(".json")) is not None
        ]
    found = [regime for key in keys if (regime := _read(backend, key)) is not None]
    return sorted(found, key=lambda regime: (regime.host, regime.model))
