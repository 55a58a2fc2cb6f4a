"""What the registry is asked for by a person: lists, one version, the trail, and moves by hand."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UsageError
from tasks import registry
from tasks.audit import aliases, history, moved_elsewhere, require_model
from tasks.promoting import GATE_FILE
from tasks.tracking import CHAMPION, ModelRef, Tracking, run_url

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


def list_models(tracking_uri: str, *, name: str | None) -> list[dict[str, Any]]:
    """Return every version of Reveal's models, or of one, newest first.

    Returns
    -------
    list of dict
        ``model``, ``hardware_class``, ``version``, ``aliases``, ``profile``, ``trained_from``,
        ``trained_to``, ``features``, ``windows``, ``decision``, ``trigger``, ``run_id``.

    Raises
    ------
    UsageError
        If there is no model of that name.
    UnavailableError
        If the registry does not answer.
    """
    tracking = Tracking(tracking_uri)
    if name is not None:
        require_model(tracking, name)
    names = [name] if name is not None else registry.model_names(tracking)
    rows = []
    for one in names:
        given = aliases(tracking, one)
        rows += [_row(version, given) for version in registry.versions(tracking, one)]
    return rows


def _row(version: ModelVersion, given: Mapping[str, str]) -> dict[str, Any]:
    tags = version.tags
    number = str(version.version)
    begin, _, end = tags.get("reveal.interval", "").partition("/")
    return {
        "model": version.name,
        "hardware_class": tags.get("reveal.hardware_class", ""),
        "version": number,
        "aliases": sorted(alias for alias, holder in given.items() if holder == number),
        "profile": tags.get("reveal.profile", ""),
        "trained_from": begin,
        "trained_to": end,
        "features": int(tags.get("reveal.features_count", 0)),
        "windows": int(tags.get("reveal.windows_count", 0)),
        "decision": tags.get(registry.DECISION, ""),
        "trigger": tags.get("reveal.trigger", ""),
        "run_id": version.run_id or "",
    }


def show_model(tracking_uri: str, *, reference: str) -> dict[str, Any]:
    """Return what is known of a version.

    Returns
    -------
    dict
        As a row of `list_models`, and ``hosts``, ``seed``, ``code``, ``flow_run_id``, ``feature_hash``,
        ``catalog``, ``params`` and ``metrics`` of its run, ``gate`` (None where it was not asked),
        ``run_url``.

    Raises
    ------
    UsageError
        If there is no such version.
    UnavailableError
        If MLflow does not answer.
    """
    tracking = Tracking(tracking_uri)
    found = tracking.resolve(reference)
    client = tracking.client
    with tracking.expected():
        version = client.get_model_version(found.name, found.version)
        run = client.get_run(found.run_id)
    tags = run.data.tags
    return {
        **_row(version, aliases(tracking, found.name)),
        "hosts": tags.get("reveal.hosts", ""),
        "seed": tags.get("reveal.seed", ""),
        "code": tags.get("reveal.version", ""),
        "flow_run_id": tags.get("reveal.flow_run_id", ""),
        "feature_hash": tags.get("reveal.features", ""),
        "catalog": tags.get("reveal.catalog", ""),
        "params": dict(sorted(run.data.params.items())),
        "metrics": dict(sorted(run.data.metrics.items())),
        "gate": _gate(tracking, found),
        "run_url": run_url(tracking, run.info.experiment_id, found.run_id),
    }


def _gate(tracking: Tracking, reference: ModelRef) -> dict[str, Any] | None:
    client = tracking.client
    with tempfile.TemporaryDirectory(prefix="reveal-gate-") as folder, tracking.expected():
        if GATE_FILE not in {item.path for item in client.list_artifacts(reference.run_id)}:
            return None
        path = client.download_artifacts(reference.run_id, GATE_FILE, folder)
        return dict(json.loads(Path(path).read_text(encoding="utf-8")))


def model_history(tracking_uri: str, *, name: str | None) -> dict[str, Any]:
    """Return the trail of one model, or of all in order of time.

    Returns
    -------
    dict
        ``events``, each with ``model`` and what `tasks.audit.Event` has; ``notes``: aliases that are not
        where the trail left them.

    Raises
    ------
    UsageError
        If there is no model of that name.
    UnavailableError
        If the registry does not answer.
    """
    tracking = Tracking(tracking_uri)
    events, notes = [], []
    for one in [name] if name is not None else registry.model_names(tracking):
        trail = history(tracking, one)
        events += [{"model": one, **asdict(event)} for event in trail]
        notes += [f"{one}: {note}" for note in moved_elsewhere(trail, aliases(tracking, one))]
    return {"events": sorted(events, key=lambda event: event["when"]), "notes": notes}


def promote_by_hand(tracking_uri: str, *, reference: str, why: str) -> dict[str, Any]:
    """Make a version the champion without asking the gate.

    Returns
    -------
    dict
        ``model``, ``version``, ``alias``, ``before`` (the version that was champion, None for none), ``why``.

    Raises
    ------
    UsageError
        If there is no such version, no reason, or it is the champion already.
    UnavailableError
        If the registry does not answer.
    """
    _require_reason(why)
    tracking = Tracking(tracking_uri)
    found = tracking.resolve(reference)
    before = aliases(tracking, found.name).get(CHAMPION)
    promoted = registry.promote(tracking, found, champion=before, why=f"by hand: {why}")
    return {**_moved(promoted), "before": before, "why": why}


def roll_back_model(tracking_uri: str, *, name: str | None, why: str) -> dict[str, Any]:
    """Make the previous version of a model the champion again; the only model's if no name is given.

    Returns
    -------
    dict
        As `promote_by_hand`.

    Raises
    ------
    UsageError
        If there is no such model or no previous version, no reason, or several models and no name.
    UnavailableError
        If the registry does not answer.
    """
    _require_reason(why)
    tracking = Tracking(tracking_uri)
    if name is None:
        names = registry.model_names(tracking)
        if len(names) != 1:
            known = ", ".join(names) or "none"
            raise UsageError(f"say which model with --model or --class: {tracking.shown} holds {known}")
        name = names[0]
    back, before = registry.roll_back(tracking, name, why=why)
    return {**_moved(back), "before": before, "why": why}


def _moved(reference: ModelRef) -> dict[str, Any]:
    return {"model": reference.name, "version": reference.version, "alias": reference.alias}


def _require_reason(why: str) -> None:
    if not why.strip():
        raise UsageError("a reason is needed: it is kept in the model's history")
