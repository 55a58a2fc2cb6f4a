"""The Prefect flows: thin over `flows.pipelines`, with an artifact per report.

They run embedded with no server, and unchanged against one. ``deployments/prefect.yaml`` names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.events.worker import EventsWorker
from prefect.logging.handlers import APILogWorker
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner

from flows import pipelines
from flows.maintenance import HOURS_PER_TASK, maintenance_rows
from flows.settings import load_settings, mlflow_uri
from flows.settings import plugins as allowed_plugins
from tasks.compare_report import note
from tasks.pool import cores
from tasks.prefect_tasks import PrefectRunner, dask_runner

REPORT_KEY = "reveal-report"
LINK_KEY = "reveal-report-link"
INCIDENTS_KEY = "reveal-incidents"
MODELS_KEY = "reveal-models"
COMPARISON_KEY = "reveal-comparison"
DRIFT_KEY = "reveal-drift"
MAINTENANCE_KEY = "reveal-maintenance"
DRAIN_TIMEOUT_S = 10.0


def _places(store: str | None, tracking_uri: str | None) -> tuple[str, str]:
    """Return store and tracking address: as given, else from the settings of this machine."""
    settings = load_settings()
    root = store or settings.store
    return root, tracking_uri or mlflow_uri(settings, root)


def fleet_runner() -> Any:
    """Return what runs the tasks of a fleet's flow, by the settings of this machine."""
    fleet = load_settings().fleet
    if fleet.runner == "dask":
        return dask_runner(fleet.workers or cores(), fleet.dask)
    # Twice as many threads as cores: they wait for processes that score, or for the store.
    return ThreadPoolTaskRunner(max_workers=2 * cores())


@flow(name="collect-telemetry", persist_result=False)
def collect_telemetry(
    store: str | None = None,
    host: str | None = None,
    duration: str | None = "60s",
    interval: str = "100ms",
    segment: str = "60s",
    root: str = "/",
) -> dict[str, Any]:
    """Collect the telemetry of the machine that this runs on."""
    place, _ = _places(store, None)
    return pipelines.collect_telemetry(
        PrefectRunner(),
        store=place,
        host=host,
        duration=duration,
        interval=interval,
        segment=segment,
        root=root,
    )


@flow(name="fit-detectors", persist_result=False)
def fit_detectors(
    store: str | None = None,
    tracking_uri: str | None = None,
    host: str = "*",
    start: str | None = None,
    end: str | None = None,
    profile: str = "default",
    overrides: dict[str, Any] | None = None,
    seed: int = 0,
    promote: bool = False,
    gate: dict[str, float] | None = None,
    gate_start: str | None = None,
    gate_end: str | None = None,
    force: str | None = None,
    without_incidents: bool = False,
) -> list[dict[str, Any]]:
    """Fit and register a model for each hardware class from healthy telemetry; the gate promotes if asked."""
    place, tracking = _places(store, tracking_uri)
    models = pipelines.fit_detectors(
        PrefectRunner(),
        store=place,
        tracking_uri=tracking,
        host=host,
        start=start,
        end=end,
        profile=profile,
        overrides=overrides or {},
        seed=seed,
        promote=promote,
        gate=load_settings().method.gate if gate is None else gate,
        gate_start=gate_start,
        gate_end=gate_end,
        force=force,
        without_incidents=without_incidents,
    )
    columns = ("model", "version", "alias", "hardware_class", "windows", "features", "run_id", "run_url")
    create_table_artifact(
        [
            {
                **{name: model[name] for name in columns},
                "gate": f"{model['gate']['decision']}: {model['gate']['reason']}" if model["gate"] else "",
            }
            for model in models
        ],
        key=MODELS_KEY,
        description="Models registered",
    )
    return models


@flow(name="watch-drift", persist_result=False)
def watch_drift(
    store: str | None = None,
    tracking_uri: str | None = None,
    host: str = "*",
    start: str | None = "-1h",
    end: str | None = "now",
    model: str | None = None,
    rules: dict[str, float] | None = None,
    refit: bool = True,
    seed: int = 0,
    plugins: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Look whether hosts have drifted from what their champion was fitted on; drift fits a challenger."""
    place, tracking = _places(store, tracking_uri)
    found = pipelines.watch_drift(
        PrefectRunner(),
        store=place,
        tracking_uri=tracking,
        host=host,
        start=start,
        end=end,
        model=model,
        rules=load_settings().method.drift if rules is None else rules,
        refit=refit,
        seed=seed,
        plugins=allowed_plugins(load_settings()) if plugins is None else plugins,
    )
    columns = ("hardware_class", "model", "version", "drifted", "host_share", "why", "run_url")
    create_table_artifact(
        [
            {
                **{name: watched[name] for name in columns},
                "challenger": (watched["challenger"] or {}).get("version", ""),
            }
            for watched in found
        ],
        key=DRIFT_KEY,
        description="Drift of each hardware class",
    )
    return found


@flow(name="score-fleet", persist_result=False, task_runner=fleet_runner())
def score_fleet(
    store: str | None = None,
    tracking_uri: str | None = None,
    host: str = "*",
    start: str | None = None,
    end: str | None = None,
    model: str | None = None,
    new: bool = False,
    reach: str | None = None,
    silent_after: str | None = None,
    forget_after: str | None = None,
    hosts_per_task: int = pipelines.HOSTS_PER_TASK,
    injected: list[dict[str, Any]] | None = None,
    title: str | None = None,
    plugins: list[str] | None = None,
    announce: bool = False,
) -> dict[str, Any]:
    """Score hosts with the champion of their hardware class, publish a report, and tell of it if asked."""
    place, tracking = _places(store, tracking_uri)
    fleet = load_settings().fleet
    document = pipelines.score_fleet(
        PrefectRunner(1 if fleet.runner == "dask" else fleet.workers or cores()),
        store=place,
        tracking_uri=tracking,
        host=host,
        start=start,
        end=end,
        model=model,
        new=new,
        reach=reach or fleet.reach,
        silent_after=silent_after or fleet.silent_after,
        forget_after=forget_after or fleet.forget_after,
        hosts_per_task=hosts_per_task,
        injected=injected or [],
        title=title,
        plugins=allowed_plugins(load_settings()) if plugins is None else plugins,
        announce=announce,
    )
    publish_artifacts(document)
    return document


def _investigation() -> str:
    """Return the name of a run: what it looks into."""
    given = flow_run.parameters
    return f"investigate-{given.get('host') or given.get('incident') or 'alert'}"


@flow(name="investigate-incident", flow_run_name=_investigation, persist_result=False)
def investigate_incident(
    host: str | None = None,
    start: str | None = None,
    end: str | None = None,
    incident: str | None = None,
    alert: dict[str, Any] | None = None,
    store: str | None = None,
    baseline_start: str | None = None,
    baseline_end: str | None = None,
    own_baseline: bool = True,
    profile: str = "default",
    overrides: dict[str, Any] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Judge a host's range, an incident, or what an alert is about, against a healthy stretch."""
    place, _ = _places(store, None)
    document = pipelines.investigate_incident(
        PrefectRunner(),
        store=place,
        host=host,
        start=start,
        end=end,
        incident=incident,
        alert=alert,
        baseline_start=baseline_start,
        baseline_end=baseline_end,
        own_baseline=own_baseline,
        profile=profile,
        overrides=overrides or {},
        seed=seed,
    )
    publish_artifacts(document)
    return document


# One at a time, for their seconds and memory are compared too.
@flow(
    name="compare-detectors",
    persist_result=False,
    task_runner=ThreadPoolTaskRunner(max_workers=1),  # type: ignore[arg-type]
)
def compare_detectors(
    grid: dict[str, Any],
    store: str | None = None,
    tracking_uri: str | None = None,
    host: str = "*",
    start: str | None = None,
    end: str | None = None,
    fit_start: str | None = None,
    fit_end: str | None = None,
    faults: list[dict[str, Any]] | None = None,
    seed: int = 0,
    most_hosts: int | None = None,
) -> dict[str, Any]:
    """Judge a grid of settings on the same telemetry, each as a run of its own in MLflow."""
    place, tracking = _places(store, tracking_uri)
    document = pipelines.compare_detectors(
        PrefectRunner(),
        store=place,
        tracking_uri=tracking,
        host=host,
        start=start,
        end=end,
        fit_start=fit_start,
        fit_end=fit_end,
        grid=grid,
        faults=faults or [],
        seed=seed,
        most_hosts=most_hosts,
    )
    create_markdown_artifact(
        note(document), key=COMPARISON_KEY, description=f"Best: {document['best_setting']}"
    )
    return document


@flow(name="maintain-store", persist_result=False)
def maintain_store(
    store: str | None = None,
    host: str = "*",
    retention: dict[str, str] | None = None,
    dry_run: bool = False,
    hours_per_task: int = HOURS_PER_TASK,
) -> dict[str, Any]:
    """Remove what is past its age, down-sample and merge telemetry, and clear up after writers that died."""
    place, _ = _places(store, None)
    document = pipelines.maintain_store(
        PrefectRunner(),
        store=place,
        host=host,
        retention=load_settings().retention.plain() if retention is None else retention,
        dry_run=dry_run,
        hours_per_task=hours_per_task,
    )
    create_table_artifact(
        maintenance_rows(document),
        key=MAINTENANCE_KEY,
        description="What would be done (dry run)" if dry_run else "What was done",
    )
    return document


def drain() -> None:
    """Send the logs and events that Prefect still holds back.

    To be called before an embedded server is stopped: at exit Prefect would try for a minute to reach it.
    """
    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=DRAIN_TIMEOUT_S)


def publish_artifacts(document: Mapping[str, Any]) -> None:
    """Show a report on Prefect's pages: its Markdown, a link to the page, and a table of its incidents.

    A run that had nothing to judge has no report; its Markdown says so.
    """
    create_markdown_artifact(document["markdown"], key=REPORT_KEY, description=document["headline"])
    if document["report"] is None:
        return
    address = str(document["report"])
    link = address if "://" in address else Path(address).resolve().as_uri()
    create_link_artifact(link, link_text=document["headline"], key=LINK_KEY)
    rows = [
        {
            "id": incident["id"],
            "host": incident["host"],
            "start": incident["start"],
            "end": incident["end"],
            "subsystem": incident["subsystem"],
            "cause": incident["causes"][0]["title"] if incident["causes"] else "",
            "severity": incident["severity"],
        }
        for incident in document["incidents"]
    ]
    create_table_artifact(rows, key=INCIDENTS_KEY, description=f"Incidents of {document['report_id']}")
