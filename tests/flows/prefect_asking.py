"""Asking a real Prefect server what it knows."""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def ask(api: str, path: str, body: dict | None = None) -> Any:
    """Return what Prefect's API answers: to a filter or to something new, or without one to a question."""
    request = urllib.request.Request(
        f"{api}/{path}",
        data=json.dumps(body).encode() if body is not None else None,
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        return json.load(answer)
