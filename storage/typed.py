"""Small JSON files that hold values of one type, read back strictly."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from storage.backend import Backend
from storage.quarantine import put_aside

T = TypeVar("T")


def read_typed(backend: Backend, key: str, adapter: TypeAdapter[T]) -> T | None:
    """Return a file's value; None if it is not there, or was moved to quarantine for holding something else.

    Keys that a newer version may have added are passed over, so its files stay readable.
    """
    data = backend.read(key)
    if data is None:
        return None
    try:
        return adapter.validate_json(data)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        put_aside(backend, key, data, f"{where or 'content'}: {first['msg']}")
        return None
