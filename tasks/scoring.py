"""The scoring stage: telemetry and a registered model in, scores and incidents out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from reveal_core.errors import RevealError, UnavailableError, UsageError
from reveal_core.timespec import parse_time
from tasks.following import follow_regime, follower_of, regime_note
from tasks.models import catalog_notes, load_model, reference_dict, registered_name
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
        while a flow runs, a version does not.

    Raises
    ------
    UsageError
        If there is no such model.
    UnavailableError
        If the registry cannot be reached.
    """
    tracking = Tracking(tracking_uri)
    return {
        name: reference_dict(tracking.resolve(model or f"{registered_name(name)}@{CHAMPION}"))
        for name in sorted(set(hardware_classes))
    }


def score_hosts(
    store: str,
    *,
    tracking_uri: str,
    model: dict[str, str],
    plans: list[dict[str, str]],
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
        Host and range of each, from `tasks.planning`.
    plugins
        Detectors of other libraries that the model may hold, by the operator's settings.

    Returns
    -------
    list of dict
        Per host ``host``, ``start``, ``end``, ``model`` (label), ``windows``, ``incidents`` (ids),
        ``quarantined`` (keys), ``notes``, ``regime`` (that it is held in, None if it is not), and
        ``skipped``: why it could not be scored, ``""`` if it was. One bad host never costs the others their
        scores.

    Raises
    ------
    UsageError
        If no host of the group could be scored, with the first one's reason.
    UnavailableError
        If the store or MLflow cannot be reached.
    """
    from storage.store import Store

    reference = ModelRef(**model)
    fitted = load_model(Tracking(tracking_uri), reference, plugins or ())
    told = catalog_notes(fitted, f"model {reference.label}")
    target = Store(store)
    results, failures = [], []
    for plan in plans:
        try:
            result = _score_host(target, fitted, reference, plan)
            results.append({**result, "notes": [*told, *result["notes"]]})
        except UnavailableError:
            raise
        except RevealError as error:
            failures.append(error)
            results.append({**_empty(plan, reference), "skipped": str(error)})
    if len(failures) == len(plans):
        raise failures[0]
    return results


def _empty(plan: dict[str, str], reference: ModelRef) -> dict[str, Any]:
    return {
        "host": plan["host"],
        "start": plan["start"],
        "end": plan["end"],
        "model": reference.label,
        "windows": 0,
        "incidents": [],
        "quarantined": [],
        "notes": [],
        "regime": None,
        "skipped": "",
    }


def _score_host(
    target: Store, fitted: RevealModel, reference: ModelRef, plan: dict[str, str]
) -> dict[str, Any]:
    from reveal_core.method import analyse

    start, end = parse_time(plan["start"]), parse_time(plan["end"])
    follower = follower_of(target, fitted, reference, plan["host"], start, end)
    read = read_host(target, plan, warm_up=True)
    analysis = analyse(fitted, read.telemetry, start=start, end=end, follower=follower)
    result = {**_empty(plan, reference), **save_analysis(target, reference.label, analysis, read)}
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
    watched = frame.filter(frame["coverage"] > 0.0)
    if watched.is_empty():
        return
    ledger = target.ledger(analysis.host)
    after, past = settle(
        follow(ledger, analysis.incidents, watched["start"].min(), watched["end"].max())  # type: ignore[arg-type]
    )
    if after != ledger:
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
