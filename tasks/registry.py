"""The model registry: its versions, and what makes one the champion, the challenger or the previous one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UsageError
from tasks.audit import TEXT_LIMIT, Aliases, aliases, move_aliases, require_model, version_text
from tasks.tracking import CHALLENGER, CHAMPION, PREVIOUS, ModelRef, Tracking

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

PREFIX = "reveal-"
"""Begin of the names of Reveal's models; a registry may hold models of others."""
DECISION = "reveal.promotion"
"""Tag of a version: which alias it got last, and why."""


def register(
    tracking: Tracking,
    name: str,
    run_id: str,
    model_id: str,
    *,
    tags: Mapping[str, str] | None = None,
    why: str = "a fit",
) -> ModelRef:
    """Register a logged model as a version and give it an alias.

    The first version of a name becomes the champion, because scoring needs one and there is nothing to
    compare it with. Every later one is the challenger; `promote` makes it more.

    Raises
    ------
    UsageError
        If somebody else moves the same alias at the same time.
    UnavailableError
        If the registry does not answer.
    """
    from mlflow.exceptions import MlflowException

    client = tracking.client
    with tracking.expected():
        try:
            client.create_registered_model(name, description="A Reveal model of one hardware class")
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        version = client.create_model_version(
            name,
            source=f"models:/{model_id}",
            run_id=run_id,
            model_id=model_id,
            tags=dict(tags or {}),
            await_creation_for=60,
        )
    number = str(version.version)
    before = aliases(tracking, name)
    first = CHAMPION not in before
    alias = CHAMPION if first else CHALLENGER
    reason = f"{why}, the first version" if first else why
    # Challengers may follow one another: only a champion that appeared meanwhile would be a surprise.
    expected: Aliases = {CHAMPION: before.get(CHAMPION)}
    move_aliases(tracking, name, {alias: number}, expected=expected, action="register", why=reason)
    set_decision(tracking, name, number, alias, "first version" if first else "not compared yet")
    return ModelRef(name, number, alias, run_id)


def promote(
    tracking: Tracking,
    reference: ModelRef,
    *,
    champion: str | None,
    why: str,
    gate: Mapping[str, Any] | None = None,
) -> ModelRef:
    """Make a version the champion; the champion before it becomes the previous one.

    Parameters
    ----------
    tracking, reference
        The version.
    champion
        The version that was champion when this was decided.
    why, gate
        As `Event` has them.

    Raises
    ------
    UsageError
        If it is the champion already, or another version became the champion meanwhile.
    UnavailableError
        If the registry does not answer.
    """
    name, number = reference.name, reference.version
    if champion == number:
        raise UsageError(f"{reference.label} at {tracking.shown} is the champion already")
    changes: dict[str, str | None] = {PREVIOUS: champion, CHAMPION: number}
    if aliases(tracking, name).get(CHALLENGER) == number:
        changes[CHALLENGER] = None
    move_aliases(tracking, name, changes, expected={CHAMPION: champion}, action="promote", why=why, gate=gate)
    set_decision(tracking, name, number, CHAMPION, why)
    return ModelRef(name, number, CHAMPION, reference.run_id)


def roll_back(tracking: Tracking, name: str, *, why: str) -> tuple[ModelRef, str]:
    """Make the previous version the champion again, and the champion the previous: one step back, or forth.

    Returns
    -------
    tuple
        The champion that is again, and the version that was.

    Raises
    ------
    UsageError
        If there is no such model or no previous version, or somebody else moves the aliases too.
    UnavailableError
        If the registry does not answer.
    """
    require_model(tracking, name)
    before = aliases(tracking, name)
    now, back = before.get(CHAMPION), before.get(PREVIOUS)
    if back is None or now is None:
        raise UsageError(
            f"{name} at {tracking.shown} has no previous champion to go back to: "
            f"its champion is {version_text(now)}; reveal models list shows every version"
        )
    # Read before the aliases move: a version that was deleted must not become the champion.
    reference = tracking.resolve(f"{name}@{PREVIOUS}")
    move_aliases(
        tracking,
        name,
        {CHAMPION: back, PREVIOUS: now},
        expected={CHAMPION: now, PREVIOUS: back},
        action="rollback",
        why=why,
    )
    set_decision(tracking, name, back, CHAMPION, f"rolled back: {why}")
    set_decision(tracking, name, now, PREVIOUS, f"rolled back: {why}")
    return ModelRef(name, back, CHAMPION, reference.run_id), now


def set_decision(tracking: Tracking, name: str, version: str, alias: str, why: str) -> None:
    """Say on a version's page which alias it got, and why."""
    client = tracking.client
    with tracking.expected():
        client.set_model_version_tag(name, version, DECISION, f"{alias}: {why}"[:TEXT_LIMIT])


def model_names(tracking: Tracking) -> list[str]:
    """Return the names of Reveal's registered models."""
    client = tracking.client
    names: list[str] = []
    token = None
    with tracking.expected():
        while True:
            page = client.search_registered_models(f"name LIKE '{PREFIX}%'", page_token=token)
            names += [model.name for model in page]
            token = page.token
            if not token:
                return sorted(names)


def versions(tracking: Tracking, name: str) -> list[ModelVersion]:
    """Return the versions of a registered model, newest first."""
    client = tracking.client
    found: list[ModelVersion] = []
    token = None
    with tracking.expected():
        while True:
            page = client.search_model_versions(
                f"name = '{name}'", order_by=["version_number DESC"], page_token=token
            )
            found += list(page)
            token = page.token
            if not token:
                return found
