"""Ledgers at rest: for each host a file of what is, or was lately, and one a month of what is long over."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import cache

from pydantic import TypeAdapter

from reveal_core.ledger import Entry, Ledger
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import (
    LEDGER,
    ledger_folder,
    ledger_key,
    parse_host_part,
    parse_month_part,
    past_ledger_key,
    to_utc,
)
from storage.typed import read_typed


@cache
def _ledgers() -> TypeAdapter[Ledger]:
    return TypeAdapter(Ledger)


@cache
def _entries() -> TypeAdapter[tuple[Entry, ...]]:
    return TypeAdapter(tuple[Entry, ...])


def read_ledger(backend: Backend, host: str) -> Ledger:
    """Return what is on at a host, or was lately; an empty ledger if there is none."""
    return read_typed(backend, ledger_key(host), _ledgers()) or Ledger(host)


def put_ledger(backend: Backend, ledger: Ledger, past: Sequence[Entry] = ()) -> str:
    """Store a host's ledger in place of the one before; see `storage.store.Store.put_ledger`."""
    months: dict[date, dict[str, Entry]] = {}
    for entry in past:
        months.setdefault(to_utc(entry.end).date().replace(day=1), {})[entry.id] = entry
    # The past goes first: after a kill in between an entry is in both files, and the recent one speaks.
    for month, entries in months.items():
        key = past_ledger_key(ledger.host, month)
        known = {entry.id: entry for entry in read_typed(backend, key, _entries()) or ()}
        both = sorted({**known, **entries}.values(), key=lambda entry: (entry.first, entry.id))
        backend.write(key, to_json([entry.to_dict() for entry in both]))
    key = ledger_key(ledger.host)
    backend.write(
        key,
        to_json(
            {
                "host": ledger.host,
                "judged": ledger.judged,
                "entries": [entry.to_dict() for entry in ledger.entries],
            }
        ),
    )
    return key


def ledger_hosts(backend: Backend) -> list[str]:
    """Return the hosts that have a ledger, sorted."""
    return sorted(h for h in (parse_host_part(name) for name in backend.names(LEDGER)) if h is not None)


def read_entries(
    backend: Backend, hosts: Sequence[str], start: datetime | None, end: datetime | None
) -> list[Entry]:
    """Return the entries of hosts that touch a range; see `storage.store.Store.read_entries`."""
    since = to_utc(start) if start is not None else None
    until = to_utc(end) if end is not None else None
    found: dict[tuple[str, str], Entry] = {}
    keys = [
        key for keys in backend.each(lambda host: _past_keys(backend, host, since), hosts) for key in keys
    ]
    for entries in backend.each(lambda key: read_typed(backend, key, _entries()) or (), keys):
        found |= {(entry.host, entry.id): entry for entry in entries}
    for ledger in backend.each(lambda host: read_ledger(backend, host), hosts):
        found |= {(entry.host, entry.id): entry for entry in ledger.entries}
    touching = [
        entry
        for entry in found.values()
        if (since is None or entry.end >= since) and (until is None or entry.first < until)
    ]
    return sorted(touching, key=lambda entry: (entry.first, entry.host, entry.id))


def _past_keys(backend: Backend, host: str, since: datetime | None) -> list[str]:
    """Return the keys of a host's past entries that may have ended after a time: files are by last end."""
    first = (since - timedelta(seconds=1)).date().replace(day=1) if since is not None else date.min
    folder = ledger_folder(host)
    months = [(parse_month_part(name), name) for name in backend.names(folder)]
    return [f"{folder}/{name}" for month, name in months if month is not None and month >= first]
