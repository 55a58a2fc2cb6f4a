"""What was imported from servers, at rest: a small file for each host."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter

from reveal_core.importing.covered import ImportRecord
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import imports_key
from storage.typed import read_typed


@cache
def _records() -> TypeAdapter[tuple[ImportRecord, ...]]:
    return TypeAdapter(tuple[ImportRecord, ...])


def read_imports(backend: Backend, host: str) -> tuple[ImportRecord, ...]:
    """Return what was imported of a host from servers, by source."""
    return read_typed(backend, imports_key(host), _records()) or ()


def put_import(backend: Backend, host: str, record: ImportRecord) -> str:
    """Store what was imported of a host from one source, in place of what was known; return the key."""
    known = {other.source: other for other in read_imports(backend, host)}
    known[record.source] = record
    key = imports_key(host)
    backend.write(key, to_json([known[source].to_dict() for source in sorted(known)]))
    return key
