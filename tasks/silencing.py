"""Silences and maintenance windows: made, ended and listed by people."""

from __future__ import annotations

import getpass
import secrets
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

from reveal_core.channels import SUBSYSTEMS
from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from reveal_core.silences import EVERY, Silence
from reveal_core.timespec import parse_time


def list_silences(store: str, *, past: bool) -> list[dict[str, Any]]:
    """Return silences, with ``state`` each: ``on``, ``to come``, ``between`` (a repeated one) or ``past``."""
    from storage.store import Store

    source = Store(store)
    source.check()
    now = datetime.now(UTC)
    rows = [{**one.to_dict(), "state": _state(one, now)} for one in source.silences()]
    return [row for row in rows if past or row["state"] != "past"]


def _state(silence: Silence, now: datetime) -> str:
    if silence.over(now):
        return "past"
    if silence.covers(now):
        return "on"
    return "between" if silence.start < now else "to come"


def add_silence(
    store: str, *, host: str, subsystem: str, cause: str, start: str, end: str, every: str, why: str
) -> dict[str, Any]:
    """Add a silence, or a maintenance window that comes again.

    Raises
    ------
    UsageError
        If a time cannot be read, it ends before it starts, or is longer than what it is repeated after; or
        the subsystem matches none.
    UnavailableError
        If the store cannot be reached or written.
    """
    from storage.store import Store

    since, until = parse_time(start), parse_time(end)
    if until <= since:
        raise UsageError(f"the silence ends ({iso(until)}) before it starts ({iso(since)})")
    if every and every not in EVERY:
        raise UsageError(f"--every is {' or '.join(EVERY)}, not {every!r}")
    if every and until - since > EVERY[every]:
        raise UsageError(f"the silence is longer than the {every} that it is repeated after")
    if not any(fnmatchcase(name, subsystem) for name in SUBSYSTEMS):
        raise UsageError(f"no subsystem is {subsystem!r}: there are {', '.join(SUBSYSTEMS)}")
    target = Store(store)
    target.check(write=True)
    silence = Silence(
        id=f"{since:%Y%m%dT%H%M%S}-{secrets.token_hex(3)}",
        host=host,
        subsystem=subsystem,
        cause=cause,
        start=since,
        end=until,
        every=every,  # type: ignore[arg-type]  # looked at above
        why=why,
        by=getpass.getuser(),
    )
    target.put_silence(silence)
    return {**silence.to_dict(), "state": _state(silence, datetime.now(UTC))}


def end_silence(store: str, silence: str) -> dict[str, Any]:
    """End a silence now; it stays in the store as a past one.

    Raises
    ------
    UsageError
        If there is none of this id that is not over.
    UnavailableError
        If the store cannot be reached or written.
    """
    from storage.store import Store

    target = Store(store)
    target.check(write=True)
    now = datetime.now(UTC)
    known = {one.id: one for one in target.silences() if not one.over(now)}
    if silence not in known:
        ids = ", ".join(known) or "none"
        raise UsageError(f"store {store} has no silence {silence!r} that is not over; there are: {ids}")
    ended = replace(known[silence], every="", end=max(known[silence].start, now))
    target.put_silence(ended)
    return {**ended.to_dict(), "state": "past"}
