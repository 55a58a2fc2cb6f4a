"""The comparing stages: settings of the method on recorded telemetry, each a run of its own in MLflow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from reveal_core.errors import UsageError
from tasks.compare_job import run_job
from tasks.compare_report import agreement, best_setting, note, table
from tasks.figures import comparison_figure
from tasks.grids import parse_grid
from tasks.models import code_version
from tasks.tracking import Tracking, run_url, text_params


def begin_comparison(
    tracking_uri: str,
    *,
    hardware_class: str,
    hosts: list[dict[str, str]],
    grid: Mapping[str, Any],
    faults: list[dict[str, Any]],
    seed: int,
    flow_run_id: str | None,
) -> dict[str, str]:
    """Opening the comparison in MLflow.

    Returns
    -------
    dict
        ``experiment``, ``experiment_id`` and the parent's ``run_id``.

    Raises
    ------
    UnavailableError
        If MLflow does not answer.
    """
    chosen = parse_grid(grid)
    tracking = Tracking(tracking_uri)
    name = f"reveal/compare/{hardware_class}"
    experiment_id = tracking.experiment(name)
    interval = f"{min(h['learned_start'] for h in hosts)}/{max(h['judged_end'] for h in hosts)}"
    with tracking.expected():
        run = tracking.client.create_run(
            experiment_id,
            run_name=f"{len(chosen.settings)} settings {interval.partition('/')[0]}",
            tags={
                "reveal.version": code_version(),
                "reveal.interval": interval,
                "reveal.seed": str(seed),
                "reveal.hosts": ",".join(h["host"] for h in hosts)[:5000],
                "reveal.hardware_class": hardware_class,
                "reveal.flow_run_id": flow_run_id or "",
            },
        )
        parameters = {
            "reference": chosen.reference,
            "settings": len(chosen.settings),
            "repeats": chosen.repeats,
            "perturbations": chosen.perturbations,
            "faults": len(faults),
            "seed": seed,
            **{key: hosts[0][key] for key in ("learned_start", "learned_end", "judged_start", "judged_end")},
        }
        _log(tracking, run.info.run_id, params=text_params(parameters))
    return {"experiment": name, "experiment_id": experiment_id, "run_id": run.info.run_id}


def prepare_host(
    store: str,
    *,
    folder: str,
    number: int,
    plan: dict[str, str],
    count: int,
    seed: int,
    faults: list[dict[str, Any]],
) -> dict[str, Any]:
    """Writing perturbations into copies of the telemetry.

    Returns
    -------
    dict
        ``copies``, ``injected``, ``note`` and ``peak_memory_mib``.
    """
    return run_job(
        "telemetry",
        folder=folder,
        store=store,
        number=number,
        plan=plan,
        count=count,
        seed=seed,
        faults=[fault for fault in faults if fault["host"] in ("", plan["host"])],
    )


def prepare_windows(folder: str, *, hosts: list[dict[str, str]], profile: dict[str, Any]) -> dict[str, Any]:
    """Computing windows that settings share.

    Returns
    -------
    dict
        ``combination``, ``feature_seconds`` and ``peak_memory_mib``.
    """
    return run_job("windows", folder=folder, hosts=hosts, profile=profile)


def compare_setting(
    tracking_uri: str,
    *,
    parent: dict[str, str],
    folder: str,
    hosts: list[dict[str, str]],
    name: str,
    given: dict[str, Any],
    profile: dict[str, Any],
    features: dict[str, Any],
    repeats: int,
    seed: int,
    faults: list[dict[str, Any]],
) -> dict[str, Any]:
    """Judging a setting.

    Parameters
    ----------
    tracking_uri, parent
        MLflow, and the comparison's run in it, from `begin_comparison`.
    folder, hosts
        Where series and windows are, and the hosts that they are of.
    name, given, profile
        The setting: what it is called, what the grid says of it, and all its values.
    features
        What its windows cost, from `prepare_windows`.
    repeats, seed
        How often it is fitted, and the first seed.
    faults
        Real faults that the telemetry holds.

    Returns
    -------
    dict
        ``name``, ``run_id``, ``params``, ``metrics``, ``flags``, ``incidents``, and ``failed``: why it gave
        nothing, ``""`` if it did. A setting that the telemetry does not suit costs the others nothing.

    Raises
    ------
    UnavailableError
        If MLflow does not answer.
    """
    tracking = Tracking(tracking_uri)
    client = tracking.client
    empty: dict[str, Any] = {"metrics": {}, "flags": {}, "incidents": [], "facts": {}}
    params = _parameters(profile, given, seed)
    with tracking.expected():
        run = client.create_run(
            parent["experiment_id"],
            run_name=name,
            tags={"mlflow.parentRunId": parent["run_id"], "reveal.setting": name, "reveal.seed": str(seed)},
        )
        _log(tracking, run.info.run_id, params=params)
    try:
        seeds = list(range(seed, seed + repeats))
        found = run_job("setting", folder=folder, hosts=hosts, profile=profile, seeds=seeds, faults=faults)
        failed = ""
    except UsageError as error:
        found, failed = empty, str(error)
    except BaseException:
        abandon_comparison(tracking_uri, parent={"run_id": run.info.run_id})
        raise
    metrics = dict(found["metrics"])
    with tracking.expected():
        if failed:
            client.set_tag(run.info.run_id, "mlflow.note.content", failed)
            client.set_terminated(run.info.run_id, "FAILED")
        else:
            metrics |= _costs(metrics, features, found)
            _log(tracking, run.info.run_id, metrics=metrics)
            client.set_tag(run.info.run_id, "reveal.features", found["facts"]["feature_hash"])
            client.set_tag(run.info.run_id, "reveal.threshold", found["facts"]["threshold_rule"])
            client.log_dict(run.info.run_id, found["facts"], "facts.json")
            client.set_terminated(run.info.run_id)
    return {
        "name": name,
        "run_id": run.info.run_id,
        "params": params,
        "metrics": metrics,
        "flags": found["flags"],
        "incidents": found["incidents"],
        "failed": failed,
    }


def _costs(
    metrics: Mapping[str, float], features: Mapping[str, Any], found: Mapping[str, Any]
) -> dict[str, float]:
    seconds = float(features["feature_seconds"])
    return {
        "feature_seconds": seconds,
        "total_seconds": round(seconds + metrics["fit_seconds"] + metrics["score_seconds"], 3),
        "peak_memory_mib": max(float(features["peak_memory_mib"]), float(found["peak_memory_mib"])),
    }


def _parameters(profile: Mapping[str, Any], given: Mapping[str, Any], seed: int) -> dict[str, str]:
    from reveal_core.model import RevealModel

    told = RevealModel(dict(profile), seed).parameters()
    told.pop("name", None)
    names = [entry[0] for entry in profile["detectors"]]
    return text_params({**told, "profile": given["profile"], "detector_names": "+".join(names)})


def finish_comparison(
    tracking_uri: str,
    *,
    parent: dict[str, str],
    hosts: list[dict[str, str]],
    grid: dict[str, Any],
    results: list[dict[str, Any]],
    notes: list[str],
) -> dict[str, Any]:
    """Holding the settings against the reference.

    Returns
    -------
    dict
        ``experiment``, ``run_id``, ``run_url``, ``runs`` (``run_id``, ``name``, ``params``, ``metrics``),
        ``best`` (a run id), ``best_setting``, ``why``, ``reference``, ``failed``, ``hosts`` and ``notes``.

    Raises
    ------
    UsageError
        If no setting could be judged.
    UnavailableError
        If MLflow does not answer.
    """
    chosen = parse_grid(grid)
    judged = [result for result in results if not result["failed"]]
    if not judged:
        raise UsageError(f"no setting could be judged; {results[0]['name']}: {results[0]['failed']}")
    reference = next((result for result in judged if result["name"] == chosen.reference), None)
    tracking = Tracking(tracking_uri)
    client = tracking.client
    for result in judged:
        agreed = agreement(reference, result) if reference else {}
        result["metrics"] = {**result["metrics"], **agreed}
        with tracking.expected():
            _log(tracking, result["run_id"], metrics=agreed)
    best, why = best_setting(judged)
    failed = [{"name": r["name"], "reason": r["failed"]} for r in results if r["failed"]]
    document = {
        "experiment": parent["experiment"],
        "run_id": parent["run_id"],
        "run_url": run_url(tracking, parent["experiment_id"], parent["run_id"]),
        "runs": [{key: r[key] for key in ("run_id", "name", "params", "metrics")} for r in judged],
        "best": best["run_id"],
        "best_setting": best["name"],
        "why": why,
        "reference": chosen.reference,
        "failed": failed,
        "hosts": hosts,
        "notes": notes,
    }
    with tracking.expected():
        run_id = parent["run_id"]
        client.log_table(run_id, table(judged), "settings.json")
        client.log_figure(run_id, comparison_figure(judged, best["name"]), "comparison.png")
        client.log_dict(run_id, dict(grid), "grid.json")
        client.set_tag(run_id, "mlflow.note.content", note(document))
        client.set_tag(run_id, "reveal.best", best["name"])
        _log(tracking, run_id, metrics={f"best_{key}": value for key, value in best["metrics"].items()})
        client.set_terminated(run_id)
    return document


def _log(
    tracking: Tracking,
    run_id: str,
    *,
    params: Mapping[str, str] | None = None,
    metrics: Mapping[str, float] | None = None,
) -> None:
    """Log parameters and metrics in one call: one by one each is a transaction of its own."""
    from mlflow.entities import Metric, Param

    now = time.time_ns() // 1_000_000
    tracking.client.log_batch(
        run_id,
        metrics=[Metric(key, value, now, 0) for key, value in (metrics or {}).items()],
        params=[Param(key, value) for key, value in (params or {}).items()],
    )


def abandon_comparison(tracking_uri: str, *, parent: dict[str, str]) -> None:
    """Mark a comparison, or a setting of one, that did not come to its end.

    Raises
    ------
    UnavailableError
        If MLflow does not answer.
    """
    tracking = Tracking(tracking_uri)
    with tracking.expected():
        tracking.client.set_terminated(parent["run_id"], "FAILED")
