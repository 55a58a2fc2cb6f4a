"""What the flows do, written once over a runner: called directly, or as tasks under Prefect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flows.arrivals import score_arrivals
from flows.comparison import compare_detectors as compare_detectors
from flows.investigation import investigate_incident as investigate_incident
from flows.maintenance import maintain_store as maintain_store
from flows.scoring import HOSTS_PER_TASK as HOSTS_PER_TASK
from flows.scoring import score_range
from flows.settings import ADAPTIVE, FORGET_AFTER, REACH, SILENT_AFTER
from reveal_core.errors import UsageError
from reveal_core.timespec import parse_duration
from tasks.collecting import collect_apart
from tasks.drifting import TRIGGER, refit_hosts, watch_hosts
from tasks.fitting import fit_hosts
from tasks.planning import classify_hosts, parse_range, plan_hosts
from tasks.runner import Runner
from tasks.scoring import choose_model


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
    classified = run.call(classify_hosts, store=store, plans=plans)
    for plan in classified:
        if plan["hardware_class"]:
            classes.setdefault(plan["hardware_class"], []).append(plan)
    if not classes:
        raise UsageError(classified[0]["reason"])
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
        if name in models  # what was never learned cannot drift
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
    new: bool = False,
    reach: str = REACH,
    silent_after: str = SILENT_AFTER,
    forget_after: str = FORGET_AFTER,
    hosts_per_task: int = HOSTS_PER_TASK,
    injected: Sequence[Mapping[str, Any]] = (),
    title: str | None = None,
    plugins: Sequence[str] = (),
    announce: bool = False,
) -> dict[str, Any]:
    """Score hosts with registered models and publish a report: a range, or what is ``new`` to the store.

    Of what is new, ``reach`` tells how late it may be, ``silent_after`` when a host of which nothing comes is
    silent, and ``forget_after`` when it is not waited for any longer.
    """
    if not new:
        return score_range(
            run,
            store=store,
            tracking_uri=tracking_uri,
            host=host,
            start=start,
            end=end,
            model=model,
            hosts_per_task=hosts_per_task,
            injected=injected,
            title=title,
            plugins=plugins,
            announce=announce,
        )
    if start is not None or end is not None:
        raise UsageError("--new judges whatever has arrived since the last run: it takes no --start or --end")
    return score_arrivals(
        run,
        store=store,
        tracking_uri=tracking_uri,
        host=host,
        model=model,
        reach_s=parse_duration(reach),
        silent_s=parse_duration(silent_after),
        forget_s=parse_duration(forget_after),
        hosts_per_task=hosts_per_task,
        plugins=plugins,
        announce=announce,
    )
