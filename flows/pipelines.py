"""What the flows do, written once over a runner: called directly, or as tasks under Prefect."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from flows.comparison import compare_detectors as compare_detectors
from flows.settings import ADAPTIVE, load_settings
from reveal_core.errors import UsageError
from reveal_core.timespec import parse_duration
from tasks.alerting import announce_incidents
from tasks.collecting import collect_apart
from tasks.drifting import TRIGGER, refit_hosts, watch_hosts
from tasks.fitting import fit_hosts
from tasks.investigating import investigate_host
from tasks.planning import classify_hosts, groups_of, parse_range, plan_hosts
from tasks.publishing import publish_report, report_name
from tasks.runner import Runner
from tasks.scoring import choose_model, require_scored, score_hosts

HOSTS_PER_TASK = 8


def collect_telemetry(
    run: Runner, *, store: str, host: str | None, duration: str | None, interval: str, segment: str, root: str
) -> dict[str, Any]:
    """Collect a host's telemetry for a while, in a process of its own."""
    for text in filter(None, (duration, None if interval == ADAPTIVE else interval, segment)):
        parse_duration(text)
    return dict(
        run.call(
            collect_apart,
            store=store,
            host=host,
            interval=interval,
            duration=duration,
            segment=segment,
            root=root,
        )
    )


def fit_detectors(
    run: Runner,
    *,
    store: str,
    tracking_uri: str,
    host: str,
    start: str | None,
    end: str | None,
    profile: str,
    overrides: Mapping[str, Any],
    seed: int,
    promote: bool,
    gate: Mapping[str, Any] | None = None,
    gate_start: str | None = None,
    gate_end: str | None = None,
    force: str | None = None,
    without_incidents: bool = False,
) -> list[dict[str, Any]]:
    """Fit and register a model for each hardware class among the hosts; the gate promotes if asked."""
    parse_range(start, end)
    if force is not None and not force.strip():
        raise UsageError("--force needs a reason: it is kept in the model's history")
    plans = run.call(plan_hosts, store=store, host=host, start=start, end=end)
    classes = _by_class(run, store, plans)
    judged: dict[str, list[dict[str, str]]] = {}
    if gate_start is not None or gate_end is not None:
        parse_range(gate_start, gate_end)
        others = run.call(plan_hosts, store=store, host=host, start=gate_start, end=gate_end)
        judged = _by_class(run, store, others)
        for name in sorted(set(classes) - set(judged)):
            raise UsageError(f"no host of class {name} has telemetry in the gate's range")
    calls = [
        {
            "store": store,
            "tracking_uri": tracking_uri,
            "hardware_class": name,
            "plans": members,
            "profile": profile,
            "overrides": dict(overrides),
            "seed": seed,
            "promote": promote or force is not None,
            "flow_run_id": run.run_id,
            "gate": dict(gate or {}),
            "gate_plans": judged.get(name),
            "force": force,
            "without_incidents": without_incidents,
        }
        for name, members in sorted(classes.items())
    ]
    return run.map(fit_hosts, calls)


def _by_class(run: Runner, store: str, plans: list[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    classes: dict[str, list[dict[str, str]]] = {}
    for plan in run.call(classify_hosts, store=store, plans=plans):
        classes.setdefault(plan["hardware_class"], []).append(plan)
    return classes


def watch_drift(
    run: Runner,
    *,
    store: str,
    tracking_uri: str,
    host: str,
    start: str | None,
    end: str | None,
    model: str | None,
    rules: Mapping[str, Any],
    refit: bool,
    seed: int,
    plugins: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Look whether hosts have drifted from what their model was fitted on; fit a challenger if asked.

    A challenger is never promoted here: a person, or a fit with the gate, decides that.
    """
    parse_range(start, end)
    classes = _by_class(run, store, run.call(plan_hosts, store=store, host=host, start=start, end=end))
    models = run.call(choose_model, tracking_uri=tracking_uri, model=model, hardware_classes=sorted(classes))
    calls = [
        {
            "store": store,
            "tracking_uri": tracking_uri,
            "hardware_class": name,
            "model": models[name],
            "plans": members,
            "rules": dict(rules),
            "plugins": list(plugins),
        }
        for name, members in sorted(classes.items())
    ]
    found = run.map(watch_hosts, calls)
    fits = [
        {
            "store": store,
            "tracking_uri": tracking_uri,
            "hardware_class": watched["hardware_class"],
            "plans": classes[watched["hardware_class"]],
            "profile": watched["profile"],
            "overrides": watched["overrides"],
            "seed": seed,
            "promote": False,
            "flow_run_id": run.run_id,
            "trigger": f"{TRIGGER}{watched['why']}",
        }
        for watched in found
        if refit and watched["drifted"] and not watched["answered"]
    ]
    challengers = {fitted["hardware_class"]: fitted for fitted in run.map(refit_hosts, fits)}
    return [
        {
            **{name: value for name, value in watched.items() if name != "overrides"},
            "challenger": challengers.get(watched["hardware_class"]),
        }
        for watched in found
    ]


def score_fleet(
    run: Runner,
    *,
    store: str,
    tracking_uri: str,
    host: str,
    start: str | None,
    end: str | None,
    model: str | None,
    hosts_per_task: int = HOSTS_PER_TASK,
    injected: Sequence[Mapping[str, Any]] = (),
    title: str | None = None,
    plugins: Sequence[str] = (),
    announce: bool = False,
) -> dict[str, Any]:
    """Score hosts with registered models, publish one report, and tell of its incidents if asked.

    Whom to tell is read from the settings of where this runs: it is secret, and arguments of a flow are shown
    on Prefect's pages.
    """
    parse_range(start, end)
    plans = run.call(plan_hosts, store=store, host=host, start=start, end=end)
    classified = run.call(classify_hosts, store=store, plans=plans)
    models = run.call(
        choose_model,
        tracking_uri=tracking_uri,
        model=model,
        hardware_classes=sorted({plan["hardware_class"] for plan in classified}),
    )
    calls = [
        {
            "store": store,
            "tracking_uri": tracking_uri,
            "model": reference,
            "plans": group,
            "plugins": list(plugins),
        }
        for name, reference in sorted(models.items())
        for group in groups_of(
            [plan for plan in classified if plan["hardware_class"] == name], hosts_per_task
        )
    ]
    results = [result for group in run.map(score_hosts, calls) for result in group]
    scored = require_scored(results)
    reference = next(m for m in models.values() if f"{m['name']}@{m['version']}" == scored[0]["model"])
    notes = [f"{r['host']} was not scored: {r['skipped']}" for r in results if r["skipped"]]
    notes += [f"{r['host']} was scored by {r['model']}." for r in scored if r["model"] != scored[0]["model"]]
    since, until = min(r["start"] for r in scored), max(r["end"] for r in scored)
    version = f"{reference['name']}/{reference['version']}"
    command = ["reveal", "score", "--store", store, "--host", host, "--start", since, "--end", until]
    document = run.call(
        publish_report,
        store=store,
        tracking_uri=tracking_uri,
        report_id=report_name("score", datetime.now(UTC), store, host, since, until, version),
        title=title
        or (f"Telemetry of {scored[0]['host']}" if len(scored) == 1 else f"Telemetry of {len(scored)} hosts"),
        model=reference,
        scored=scored,
        injected=[dict(fault) for fault in injected],
        notes=notes,
        command=shlex.join([*command, "--model", version]),
        plugins=list(plugins),
    )
    told = None
    if announce:
        told = run.call(
            announce_incidents,
            store=store,
            hosts=[result["host"] for result in scored],
            fleet=document["fleet"],
            report=document["report"],
            report_id=document["report_id"],
            budget=document["alarm_budget"],
            alerts=load_settings().alerts.plain(),
        )
    regimes = [r["regime"] for r in scored if r["regime"] is not None]
    return {**document, "regimes": regimes, "alerts": told}


def investigate_incident(
    run: Runner,
    *,
    store: str,
    host: str,
    start: str,
    end: str,
    baseline_start: str | None,
    baseline_end: str | None,
    profile: str,
    overrides: Mapping[str, Any],
    seed: int,
) -> dict[str, Any]:
    """Judge one host's range against a baseline, or against itself, and publish a report."""
    if (baseline_start is None) != (baseline_end is None):
        missing = "end" if baseline_end is None else "start"
        raise UsageError(f"a baseline needs a start and an end: --baseline-{missing} is missing")
    parse_range(start, end)
    parse_range(baseline_start, baseline_end)
    plan = _one_host(run.call(plan_hosts, store=store, host=host, start=start, end=end), host)
    baseline = None
    command = ["reveal", "investigate", "--store", store, "--host", plan["host"]]
    command += ["--start", plan["start"], "--end", plan["end"], "--profile", profile, "--seed", str(seed)]
    if baseline_start is not None:
        baseline = run.call(
            plan_hosts, store=store, host=plan["host"], start=baseline_start, end=baseline_end
        )[0]
        command += ["--baseline-start", baseline["start"], "--baseline-end", baseline["end"]]
    document = run.call(
        investigate_host,
        store=store,
        report_id=report_name("investigate", datetime.now(UTC), *command),
        plan=plan,
        baseline=baseline,
        profile=profile,
        overrides=dict(overrides),
        seed=seed,
        command=shlex.join(command),
    )
    return dict(document)


def _one_host(plans: Sequence[dict[str, str]], pattern: str) -> dict[str, str]:
    if len(plans) > 1:
        names = ", ".join(plan["host"] for plan in plans[:8])
        raise UsageError(f"{pattern!r} matches {len(plans)} hosts ({names}): an investigation is of one")
    return plans[0]
