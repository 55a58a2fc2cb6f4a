"""Files that say which real faults a recording holds, as ``reveal demo`` and the lab write them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from reveal_core.channels import SUBSYSTEMS
from reveal_core.errors import UsageError
from reveal_core.evaluate.matching import InjectedFault
from reveal_core.timespec import parse_time


class FaultEntry(BaseModel):
    """One fault; further keys may stand beside these."""

    name: str = Field(min_length=1)
    subsystem: str
    start: str
    end: str
    causes: list[str] = Field(default_factory=list)
    host: str = ""
    begun: str = ""


def read_faults(path: Path) -> list[dict[str, Any]]:
    """Return the faults of a file, in order of time.

    Raises
    ------
    UsageError
        If it cannot be read, or an entry is not what it must be; the line names the entry.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"faults file {path} cannot be read: {reason}") from error
    try:
        entries = TypeAdapter(list[FaultEntry]).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"faults file {path}: {key or 'content'}: {first['msg']}") from error
    for number, entry in enumerate(entries):
        if entry.subsystem not in SUBSYSTEMS:
            raise UsageError(
                f"faults file {path}: {number}.subsystem: {entry.subsystem!r} is none: "
                f"choose from {', '.join(SUBSYSTEMS)}"
            )
        try:
            if parse_time(entry.end) <= parse_time(entry.start):
                raise UsageError("the fault ends before it starts")
            if entry.begun and parse_time(entry.begun) > parse_time(entry.start):
                raise UsageError("the fault starts before it was begun")
        except UsageError as error:
            raise UsageError(f"faults file {path}: {number}: {error}") from error
    return [entry.model_dump() for entry in sorted(entries, key=lambda entry: parse_time(entry.start))]


def injected_faults(entries: Sequence[Mapping[str, Any]]) -> list[InjectedFault]:
    """Return faults as incidents are matched with them."""
    return [
        InjectedFault(
            name=entry["name"],
            subsystem=entry["subsystem"],
            start=parse_time(entry["start"]),
            end=parse_time(entry["end"]),
            causes=tuple(entry.get("causes", ())),
            host=entry.get("host", ""),
            begun=parse_time(entry["begun"]) if entry.get("begun") else None,
        )
        for entry in entries
    ]
