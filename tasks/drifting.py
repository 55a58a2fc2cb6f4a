"""The drift stage: the newest telemetry of a hardware class against what its model was fitted on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from reveal_core.timespec import parse_time
from tasks.audit import aliases
from tasks.fit_runs import REFERENCE_FILE
from tasks.models import code_version, load_model, plugins_of
from tasks.tracking import CHALLENGER, ModelRef, Tracking, run_url

if TYPE_CHECKING:
    from reveal_core.evaluate.drift import Drift, DriftRules
    from reveal_core.evaluate.reference import Reference
    from reveal_core.model import RevealModel
    from reveal_core.windows import Windows
    from storage.store import Store

TRIGGER = "drift: "
"""Begin of the tag ``reveal.trigger`` of a version that was fitted because of drift."""
SHOWN = 20
"""Features of a host that are told, the furthest first; the artifact in MLflow has all of them."""


def watch_hosts(
    store: str,
    *,
    tracking_uri: str,
    hardware_class: str,
    model: dict[str, str],
    plans: list[dict[str, str]],
    rules: Mapping[str, Any],
    plugins: list[str] | None = None,
) -> dict[str, Any]:
    """Looking for drift.

    Parameters
    ----------
    store, tracking_uri
        Where telemetry is read, and where the model is registered.
    hardware_class, model
        A class, and its model's version from `tasks.scoring.choose_model`.
    plans
        Host and range of each, from `tasks.planning`.
    rules
        Bounds of `reveal_core.evaluate.drift.DriftRules` to replace.
    plugins
        Detectors of other libraries that the model may hold, by the operator's settings.

    Returns
    -------
    dict
        ``hardware_class``, ``model``, ``version``, ``start``, ``end``, ``profile`` and ``overrides`` (that
        the model was fitted with), ``hosts`` (of each ``host``, ``drifted``, ``why``, ``feature_share``,
        ``score_share``, ``score_ks``, ``windows`` and the ``features`` furthest from training; or
        ``skipped``, why it could not be judged; in a large fleet a sample of so many ``candidates``, another
        one each hour), ``host_share``, ``drifted``, ``why``, ``answered`` (a
        challenger that was fitted because of drift and knows the new telemetry, ``""`` for none),
        ``run_id``, ``run_url``.

    Raises
    ------
    UsageError
        If no host can be judged, or the model does not say what it was fitted on.
    UnavailableError
        If store or MLflow cannot be reached.
    """
    from reveal_core.evaluate.drift import DriftRules
    from reveal_core.evaluate.rules import with_settings
    from storage.store import Store
    from tasks.history import sample_hosts

    bounds = with_settings(DriftRules(), rules, "method.drift")
    tracking, source, reference = Tracking(tracking_uri), Store(store), ModelRef(**model)
    fitted = load_model(tracking, reference, plugins or ())
    trained = load_reference(tracking, reference)
    # Others each hour, so that in a large fleet every host has its turn.
    some = sample_hosts(plans, int(parse_time(plans[0]["start"]).timestamp()) // 3600)
    hosts, windows = _judge(source, fitted, trained, some, bounds)
    drifted = [host for host in hosts if host["drifted"]]
    judged = [host for host in hosts if not host["skipped"]]
    share = len(drifted) / len(judged)
    has_drifted = share >= bounds.host_share
    result = {
        "hardware_class": hardware_class,
        "model": reference.name,
        "version": reference.version,
        "start": min(plan["start"] for plan in plans),
        "end": max(plan["end"] for plan in plans),
        "profile": str(fitted.profile["name"]),
        "overrides": {name: value for name, value in fitted.profile.items() if name != "name"},
        "hosts": hosts,
        "candidates": len(plans),
        "host_share": share,
        "drifted": has_drifted,
        "why": _why(hosts, drifted, judged),
        "answered": _answered(tracking, reference, fitted, windows, bounds) if has_drifted else "",
    }
    return {**result, **_log(tracking, reference, result)}


def refit_hosts(store: str, **arguments: Any) -> dict[str, Any]:
    """Fitting a challenger because of drift.

    Parameters
    ----------
    store, arguments
        As `tasks.fitting.fit_hosts` takes them. Nothing is promoted, and windows that lie in incidents are
        left out.

    Returns
    -------
    dict
        As `fit_hosts`, with ``refused``: why no challenger could be fitted, ``""`` if one was.

    Raises
    ------
    UnavailableError
        If store or MLflow cannot be reached.
    """
    from tasks.fitting import fit_hosts

    try:
        fitted = fit_hosts(store, **{**arguments, "promote": False, "without_incidents": True})
    except UsageError as error:
        # What was found of drift is not lost because there is no healthy time to learn from.
        return {"hardware_class": arguments["hardware_class"], "refused": str(error)}
    return {**fitted, "refused": ""}


def load_reference(tracking: Tracking, reference: ModelRef) -> Reference:
    """Return how the features of a registered model were distributed in training.

    Raises
    ------
    UsageError
        If its run does not say so.
    UnavailableError
        If MLflow does not answer.
    """
    from reveal_core.evaluate.reference import reference_from

    client = tracking.client
    with tempfile.TemporaryDirectory(prefix="reveal-reference-") as folder:
        with tracking.expected():
            known = {item.path for item in client.list_artifacts(reference.run_id)}
        if REFERENCE_FILE not in known:
            raise UsageError(
                f"the run of {reference.label} at {tracking.shown} has no {REFERENCE_FILE}: "
                "fit the model again to watch drift against it"
            )
        with tracking.expected():
            path = client.download_artifacts(reference.run_id, REFERENCE_FILE, folder)
        try:
            return reference_from(json.loads(Path(path).read_text(encoding="utf-8")))
        except ValueError as error:
            raise UsageError(
                f"{REFERENCE_FILE} of {reference.label} at {tracking.shown} cannot be read: {error}"
            ) from error


def _judge(
    source: Store,
    model: RevealModel,
    trained: Reference,
    plans: Sequence[Mapping[str, str]],
    rules: DriftRules,
) -> tuple[list[dict[str, Any]], list[list[Windows]]]:
    """Judge each host; one that cannot be judged costs the others nothing."""
    from reveal_core.evaluate.drift import drift_of
    from reveal_core.profiles import profile_from
    from tasks.history import MOST_WINDOWS, healthy_windows

    profile = profile_from(model.profile)
    share = MOST_WINDOWS // len(plans)
    hosts: list[dict[str, Any]] = []
    seen: list[list[Windows]] = []
    failures = []
    for plan in plans:
        try:
            # As a fit would read them, incidents included: a host that stays in one has changed.
            windows, _ = healthy_windows(source, [plan], profile, seed=0, without_incidents=False, most=share)
            drift = drift_of(model, trained, windows, rules)
        except UsageError as error:
            failures.append(error)
            hosts.append({"host": plan["host"], "drifted": False, "why": "", "skipped": str(error)})
            continue
        hosts.append({"host": plan["host"], **_plain(drift), "skipped": ""})
        seen.append(windows)
    if not seen:
        raise failures[0]
    return hosts, seen


def _plain(drift: Drift) -> dict[str, Any]:
    return {
        "drifted": drift.drifted,
        "why": drift.why,
        "feature_share": drift.feature_share,
        "score_share": drift.score_share,
        "score_ks": drift.score_ks,
        "windows": drift.windows,
        "features": [
            {
                "name": feature.name,
                "drifted": feature.drifted,
                "psi": None if feature.missing else round(feature.psi, 4),
                "shift": None if feature.missing else round(feature.shift, 3),
                "median": None if feature.missing else feature.median,
                "trained_median": feature.trained_median,
            }
            for feature in drift.features[:SHOWN]
        ],
    }


def _why(hosts: list[dict[str, Any]], drifted: list[dict[str, Any]], judged: list[dict[str, Any]]) -> str:
    if len(hosts) == 1:
        return str(hosts[0]["why"])
    told = "; ".join(f"{host['host']}: {host['why']}" for host in drifted[:3])
    return f"{len(drifted)} of {len(judged)} hosts have drifted" + (f" ({told})" if told else "")


def _answered(
    tracking: Tracking,
    reference: ModelRef,
    fitted: RevealModel,
    windows: list[list[Windows]],
    rules: DriftRules,
) -> str:
    """Return the challenger that drift has been answered with already, if it knows the new telemetry.

    Without this every look at a host that stays changed would fit one more challenger.
    """
    from reveal_core.evaluate.drift import drift_of
    from reveal_core.profiles import profile_from

    number = aliases(tracking, reference.name).get(CHALLENGER)
    if number is None or number == reference.version:
        return ""
    client = tracking.client
    with tracking.expected():
        tags = client.get_model_version(reference.name, number).tags
    if not tags.get("reveal.trigger", "").startswith(TRIGGER):
        return ""
    challenger = tracking.resolve(f"{reference.name}@{number}")
    model = load_model(tracking, challenger, plugins_of(fitted.profile))
    if profile_from(model.profile).window_settings != profile_from(fitted.profile).window_settings:
        return ""
    trained = load_reference(tracking, challenger)
    changed = sum(drift_of(model, trained, one, rules).drifted for one in windows)
    return challenger.label if changed < rules.host_share * len(windows) else ""


def _log(tracking: Tracking, reference: ModelRef, result: Mapping[str, Any]) -> dict[str, str]:
    """Put the figures into one run for each version of a model, so that they make a curve over time.

    A figure's step is the end of the span in seconds since 1970.
    """
    from mlflow.entities import Metric

    end = parse_time(result["end"])
    step = int(end.timestamp())
    judged = [host for host in result["hosts"] if not host["skipped"]]
    figures = {
        "drift_detected": float(result["drifted"]),
        "drift_host_share": result["host_share"],
        "drift_hosts": float(len(judged)),
        "drift_feature_share_max": max(host["feature_share"] for host in judged),
        "drift_feature_share_mean": sum(host["feature_share"] for host in judged) / len(judged),
        "drift_score_share_max": max(host["score_share"] for host in judged),
        "drift_score_ks_max": max(host["score_ks"] for host in judged),
    }
    experiment_id = tracking.experiment(f"reveal/drift/{result['hardware_class']}")
    client = tracking.client
    with tracking.expected():
        runs = client.search_runs(
            [experiment_id], f"tags.`reveal.model` = '{reference.label}'", max_results=1
        )
        if runs:
            run_id = runs[0].info.run_id
        else:
            tags = {"reveal.model": reference.label, "reveal.version": code_version()}
            run_id = client.create_run(experiment_id, tags=tags, run_name=reference.label).info.run_id
        client.log_batch(
            run_id,
            metrics=[Metric(name, value, step * 1000, step) for name, value in sorted(figures.items())],
        )
        document = {name: value for name, value in result.items() if name != "overrides"}
        client.log_dict(run_id, document, f"drift-{iso(end).replace(':', '')}.json")
        client.set_terminated(run_id)
    return {"run_id": run_id, "run_url": run_url(tracking, experiment_id, run_id)}
