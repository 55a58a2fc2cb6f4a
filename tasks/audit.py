"""The trail of a registered model: every move of an alias, by whom, when and why, and the moving itself."""

from __future__ import annotations

import json
import os
import pwd
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reveal_core.errors import UnavailableError, UsageError
from tasks.tracking import CHALLENGER, CHAMPION, PREVIOUS, Tracking

AUDIT = "reveal.audit."
"""Begin of the tags of a registered model that make up its trail, one for each event."""
TEXT_LIMIT = 1000
"""Characters of a reason that the trail keeps: a tag's value holds 5,000 (MLflow's database schema)."""

Aliases = Mapping[str, str | None]
"""By alias the version that has it; None for no version."""


@dataclass(frozen=True)
class Event:
    """An entry of a model's trail: one decision and every alias that it moved.

    Attributes
    ----------
    when
        ISO 8601, UTC, to the microsecond.
    who
        User of the operating system and host: who ran the process, not who is logged in to MLflow.
    action
        ``register``, ``promote``, ``rollback``, or ``conflict``: another process moved an alias meanwhile.
    changes
        By alias the version before and after; None for none.
    why
        The reason.
    gate
        What the promotion gate measured; None where it was not asked.
    """

    when: str
    who: str
    action: str
    changes: dict[str, list[str | None]]
    why: str
    gate: dict[str, Any] | None


def who() -> str:
    """Return the user of this process and its host, as the trail names them."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = f"uid {uid}"  # a container may run as a user that it does not know
    return f"{user}@{socket.gethostname()}"


def aliases(tracking: Tracking, name: str) -> dict[str, str]:
    """Return the version behind each alias of a registered model; empty where there is no such model.

    Raises
    ------
    UnavailableError
        If the registry does not answer.
    """
    found = _registered(tracking, name)
    return {} if found is None else {alias: str(version) for alias, version in found.aliases.items()}


def _registered(tracking: Tracking, name: str) -> Any:
    from mlflow.exceptions import MlflowException

    client = tracking.client
    try:
        with tracking.expected():
            return client.get_registered_model(name)
    except UnavailableError as error:
        cause = error.__cause__
        if isinstance(cause, MlflowException) and cause.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise


def move_aliases(
    tracking: Tracking,
    name: str,
    changes: Aliases,
    *,
    expected: Aliases,
    action: str,
    why: str,
    gate: Mapping[str, Any] | None = None,
) -> None:
    """Move aliases of a registered model, with an entry in its trail.

    MLflow moves one alias at a time and cannot compare before it does. So the aliases are read, the entry is
    written, the aliases are set (the champion last: whatever interrupts this, scoring has one), read again.
    A challenger that another fit overtakes is no conflict.

    Parameters
    ----------
    tracking, name
        Where the model is registered.
    changes
        The version that each alias is to have; None takes the alias away.
    expected
        The versions that the decision was made on.
    action, why, gate
        As `Event` has them.

    Raises
    ------
    UsageError
        If an alias is not, or did not stay, what it was expected to be: somebody else moves them too.
    UnavailableError
        If the registry does not answer.
    """
    before = aliases(tracking, name)
    _require(tracking, name, expected, before)
    moved = {alias: [before.get(alias), version] for alias, version in changes.items()}
    moved = {alias: pair for alias, pair in moved.items() if pair[0] != pair[1]}
    if not moved:
        return
    client = tracking.client
    _record(tracking, name, action, moved, why, gate)
    with tracking.expected():
        for alias in sorted(moved, key=lambda alias: alias == CHAMPION):
            version = moved[alias][1]
            if version is None:
                client.delete_registered_model_alias(name, alias)
            else:
                client.set_registered_model_alias(name, alias, version)
    after = aliases(tracking, name)
    try:
        wanted = {alias: pair[1] for alias, pair in moved.items() if alias != CHALLENGER}
        _require(tracking, name, wanted, after)
    except UsageError as error:
        seen = {alias: [pair[1], after.get(alias)] for alias, pair in moved.items()}
        _record(tracking, name, "conflict", seen, str(error), None)
        raise


def _require(tracking: Tracking, name: str, wanted: Aliases, found: Aliases) -> None:
    for alias, version in wanted.items():
        if found.get(alias) != version:
            raise UsageError(
                f"{alias} of {name} at {tracking.shown} is {version_text(found.get(alias))}, "
                f"not {version_text(version)} as expected: somebody else moved it meanwhile; "
                "reveal models history tells who"
            )


def version_text(version: str | None) -> str:
    """Return a version as sentences name it."""
    return "no version" if version is None else f"version {version}"


def _record(
    tracking: Tracking,
    name: str,
    action: str,
    changes: dict[str, list[str | None]],
    why: str,
    gate: Mapping[str, Any] | None,
) -> None:
    """Append to the trail. A key is used once, so no entry is ever written over."""
    when = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    entry = {
        "who": who(),
        "action": action,
        "changes": changes,
        "why": why[:TEXT_LIMIT],
        "gate": _short(gate),
    }
    client = tracking.client
    with tracking.expected():
        client.set_registered_model_tag(name, f"{AUDIT}{when}-{uuid.uuid4().hex[:8]}", json.dumps(entry))


def _short(gate: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a gate's result as the trail keeps it; the whole of it is an artifact of the version's run."""
    if gate is None:
        return None
    criteria = {c["name"]: [c["value"], c["bound"], c["passed"]] for c in gate["criteria"]}
    return {"decision": gate["decision"], "against": gate["against"], "criteria": criteria}


def history(tracking: Tracking, name: str) -> list[Event]:
    """Return the trail of a registered model, oldest first.

    Raises
    ------
    UsageError
        If there is no such model.
    UnavailableError
        If the registry does not answer.
    """
    found = require_model(tracking, name)
    keys = sorted(key for key in found.tags if key.startswith(AUDIT))
    return [
        Event(when=key.removeprefix(AUDIT).rpartition("-")[0], **json.loads(found.tags[key])) for key in keys
    ]


def require_model(tracking: Tracking, name: str) -> Any:
    """Return a registered model.

    Raises
    ------
    UsageError
        If there is no such model; the line names those that exist.
    """
    found = _registered(tracking, name)
    if found is None:
        raise UsageError(f"no model {name} at {tracking.shown}: {tracking.known_models()}")
    return found


def moved_elsewhere(events: list[Event], current: Mapping[str, str]) -> list[str]:
    """Return a sentence for each alias that is not where the trail left it: it was moved in MLflow itself."""
    told: dict[str, str | None] = {}
    for event in events:
        told.update({alias: pair[1] for alias, pair in event.changes.items()})
    return [
        f"{alias} is {version_text(current.get(alias))}, but the trail left it at "
        f"{version_text(told.get(alias))}: it was moved outside Reveal."
        for alias in (CHAMPION, CHALLENGER, PREVIOUS)
        if current.get(alias) != told.get(alias)
    ]
