"""The scoring stage: telemetry and a registered model in, scores and incidents out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.timespec import parse_time
from tasks.arrivals import judged_plan, judged_runs
from tasks.following import follow_regime, follower_of, regime_note
from tasks.models import catalog_notes, reference_dict, registered_name, shared_model
from tasks.planning import read_host
from tasks.tracking import CHAMPION, ModelRef, Tracking

if TYPE_CHECKING:
    from reveal_core.method import Analysis
    from reveal_core.model import RevealModel
    from storage.store import Store
    from storage.telemetry import TelemetryRead


def choose_model(
    tracking_uri: str, *, model: str | None, hardware_classes: list[str]
) -> dict[str, dict[str, str]]:
    """Choosing a model.

    Parameters
    ----------
    tracking_uri
        Where models are registered.
    model
        Reference to one model for all hosts; each class's champion if None.
    hardware_classes
        The classes of the hosts to score.

    Returns
    -------
    dict
        The version of each class, with ``name``, ``version``, ``alias`` and ``run_id``: an alias may move
        while a flow runs, a version does not. A class that has no champion yet is left out.

    Raises
    ------
    UsageError
        If there is no such model, or none of the classes has a champion.
    UnavailableError
        If the registry cannot be reached.
    """
    tracking = Tracking(tracking_uri)
    chosen: dict[str, dict[str, str]] = {}
    failures: list[UsageError] = []
    for name in sorted(set(hardware_classes)):
        try:
            chosen[name] = reference_dict(tracking.resolve(model or f"{registered_name(name)}@{CHAMPION}"))
        except UsageError as error:
            failures.append(error)
    if failures and not chosen:
        raise failures[0]
    return chosen


def score_hosts(
    store: str,
    *,
    tracking_uri: str,
    model: dict[str, str],
    plans: list[dict[str, Any]],
    plugins: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Scoring telemetry.

    Parameters
    ----------
    store, tracking_uri
        Where telemetry is read and results are put, and where the model is registered.
    model
        A model's version, from `choose_model`.
    plans
        Host and range of each, from `tasks.planning` or `tasks.arrivals`.
    plugins
        Detectors of other libraries that the model may hold, by the operator's settings.

    Returns
    -------
    list of dict
        Per host ``host``, ``start``, ``end``, ``model`` (label), ``windows``, ``incidents`` (ids),
        ``quarantined`` (keys), ``notes``, ``facts``, ``regime`` (that it is held in, None if it is not), and
        ``skipped``: why it could not be scored, ``""`` if it was. One bad host never costs the others their
        scores.

    Raises
    ------
    UnavailableError
        If the store or MLflow cannot be reached.
    """
    from storage.store import Store

    reference = ModelRef(**model)
    fitted = shared_model(Tracking(tracking_uri), reference, plugins or ())
    told = catalog_notes(fitted, f"model {reference.label}")
    target = Store(store)
    results = []
    for plan in plans:
        try:
            result = _score_host(target, fitted, reference, plan)
            results.append({**result, "notes": [*told, *result["notes"]]})
        except UnavailableError:
            raise
        except RevealError as error:
            results.append(not_scored(plan, reference.label, str(error)))
    return results


def not_scored(plan: Mapping[str, Any], model: str, reason: str) -> dict[str, Any]:
    """Return what `score_hosts` returns of a host that could not be scored."""
    return {**_empty(plan, model), "skipped": reason}


def _empty(plan: Mapping[str, Any], model: str) -> dict[str, Any]:
    return {
        "host": plan["host"],
        "start": plan["start"],
        "end": plan["end"],
        "model": model,
        "windows": 0,
        "incidents": [],
        "quarantined": [],
        "notes": [],
        "facts": {},
        "regime": None,
        "skipped": "",
    }


def _score_host(
    target: Store, fitted: RevealModel, reference: ModelRef, plan: Mapping[str, Any]
) -> dict[str, Any]:
    from reveal_core.method import analyse
    from reveal_core.profiles import profile_from

    plan = judged_plan(plan, profile_from(fitted.profile).window_s)
    start, end = parse_time(plan["start"]), parse_time(plan["end"])
    follower = follower_of(target, fitted, reference, plan["host"], start, end)
    read = read_host(target, plan, warm_up=True)
    analysis = analyse(fitted, read.telemetry, start=start, end=end, follower=follower)
    result = {**_empty(plan, reference.label), **save_analysis(target, reference.label, analysis, read)}
    result["facts"] = dict(read.telemetry.facts)
    enter_ledger(target, analysis)
    regime = follow_regime(target, fitted, reference, plan["host"], analysis.scores)
    if regime is not None:
        result["notes"].append(regime_note(regime))
        result["regime"] = regime.to_dict()
    return result


def enter_ledger(target: Store, analysis: Analysis) -> None:
    """Join what was found on a host to what is known of it: going on, coming again, new, or over."""
    from reveal_core.attribute.tracking import follow, settle

    frame = analysis.scores.frame
    watched = frame.filter(frame["coverage"] > 0.0).sort("start")
    if watched.is_empty():
        return
    before = ledger = target.ledger(analysis.host)
    # What nobody saw was not judged: telemetry that comes later may fill it.
    runs = list(judged_runs(watched["start"].to_list(), watched["end"].to_list()))
    for number, (start, end) in enumerate(runs):
        until = runs[number + 1][0] if number + 1 < len(runs) else None
        mine = [
            incident
            for incident in analysis.incidents
            if (number == 0 or incident.start >= start) and (until is None or incident.start < until)
        ]
        ledger = follow(ledger, mine, start, end)
    after, past = settle(ledger)
    if after != before:
        target.put_ledger(after, past)


def save_analysis(target: Store, label: str, analysis: Analysis, read: TelemetryRead) -> dict[str, Any]:
    """Put scores and incidents of one host into the store; return what a later stage finds them by."""
    target.put_scores(label, analysis.scores)
    for incident in analysis.incidents:
        target.put_incident(incident)
    return {
        "windows": analysis.scores.frame.height,
        "incidents": [incident.id for incident in analysis.incidents],
        "quarantined": [asdict(item) for item in read.quarantined],
        "notes": list(analysis.notes),
    }


def require_scored(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the hosts that were scored.

    Raises
    ------
    UsageError
        If none was.
    """
    scored = [result for result in results if not result["skipped"]]
    if not scored:
        raise UsageError(results[0]["skipped"] if results else "there is no host to score")
    return scored
