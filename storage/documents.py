"""JSON as the store keeps it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reveal_core.incidents import iso
from storage.layout import to_utc


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return iso(to_utc(value))
    return value


def to_json(value: Any) -> bytes:
    """Return strict JSON, UTF-8: a number that is not finite becomes ``null``, which JSON has instead.

    Raises
    ------
    TypeError
        If something in it has no form in JSON.
    """
    return (json.dumps(_plain(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
