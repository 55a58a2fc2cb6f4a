"""Scoring a range of a fleet, and what that has in common with scoring whatever has arrived."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from flows.peers import with_peers
from flows.settings import load_settings
from tasks.alerting import announce_incidents
from tasks.planning import classify_hosts, groups_of, parse_range, plan_hosts
from tasks.publishing import publish_report, report_name
from tasks.runner import Runner
from tasks.scoring import choose_model, not_scored, require_scored, score_hosts

HOSTS_PER_TASK = 8
MANY_TASKS = 64
"""Beyond so many tasks groups grow to twice their size: each task costs an orchestrator a tenth of a second
and more, and so many are enough to even out the work of some cores."""


@dataclass(frozen=True)
class Scoring:
    """How a fleet is scored.

    Attributes
    ----------
    store, tracking_uri
        Where telemetry and results lie, and where models are registered.
    host
        A host's label, or a shell pattern over labels.
    model
        Reference to one model for all hosts; each hardware class's champion if None.
    hosts_per_task
        Hosts that one task handles; up to twice as many where there would be more than `MANY_TASKS` tasks.
    plugins
        Detectors of other libraries that models may hold.
    """

    store: str
    tracking_uri: str
    host: str
    model: str | None = None
    hosts_per_task: int = HOSTS_PER_TASK
    plugins: Sequence[str] = ()


@dataclass(frozen=True)
class Scored:
    """What came of some plans: of each host what `tasks.scoring.score_hosts` returns, and who scored."""

    results: list[dict[str, Any]]
    models: dict[str, dict[str, str]]
    notes: list[str] = field(default_factory=list)

    @property
    def scored(self) -> list[dict[str, Any]]:
        """The hosts that could be scored."""
        return [result for result in self.results if not result["skipped"]]


def score_range(
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
    """Score a range of hosts with registered models, publish one report, and tell of it if asked.

    Whom to tell is read from the settings of where this runs: it is secret, and arguments of a flow are shown
    on Prefect's pages.
    """
    parse_range(start, end)
    how = Scoring(store, tracking_uri, host, model, hosts_per_task, plugins)
    plans = run.call(plan_hosts, store=store, host=host, start=start, end=end)
    outcome = judge(run, how, plans)
    require_scored(outcome.results)
    document = publish(run, how, outcome, title=title, injected=injected)
    hosts = [result["host"] for result in outcome.scored]
    told = announce_report(run, store, hosts, document) if announce else None
    return {**document, "regimes": regimes_of(outcome.scored), "alerts": told}


def judge(
    run: Runner, how: Scoring, plans: Sequence[Mapping[str, Any]], silent: Sequence[dict[str, Any]] = ()
) -> Scored:
    """Score the hosts of some plans, each with the champion of its class; silent ones stand beside them."""
    if not plans and not silent:
        return Scored([], {})
    classified = (
        run.call(classify_hosts, store=how.store, plans=[dict(plan) for plan in plans]) if plans else []
    )
    classes = {plan["hardware_class"] for plan in classified if plan["hardware_class"]}
    wanted = classes or {result["hardware_class"] for result in silent if result["hardware_class"]}
    if not wanted:
        return Scored([not_scored(plan, "", _why_not(plan)) for plan in classified], {})
    models = run.call(
        choose_model, tracking_uri=how.tracking_uri, model=how.model, hardware_classes=sorted(wanted)
    )
    size = task_size(len(classified), how.hosts_per_task)
    calls = [
        {
            "store": how.store,
            "tracking_uri": how.tracking_uri,
            "model": reference,
            "plans": group,
            "plugins": list(how.plugins),
        }
        for name, reference in sorted(models.items())
        for group in groups_of([plan for plan in classified if plan["hardware_class"] == name], size)
    ]
    results = [result for group in run.map(score_hosts, calls, heavy=True) for result in group]
    results += [
        not_scored(plan, "", _why_not(plan)) for plan in classified if plan["hardware_class"] not in models
    ]
    results, told = with_peers(run, how.store, results)
    return Scored(_with_silent(results, silent), models, [*_notes(results), *told])


def task_size(hosts: int, least: int) -> int:
    """Return how many hosts one task handles.

    >>> [task_size(hosts, 8) for hosts in (10, 512, 800, 1000, 5000)]
    [8, 8, 12, 15, 16]
    """
    return max(least, min(2 * least, hosts // MANY_TASKS))


def _why_not(plan: Mapping[str, Any]) -> str:
    if plan["hardware_class"]:
        return f"its hardware class {plan['hardware_class']} has no champion yet"
    return str(plan["reason"])


def _with_silent(results: Sequence[dict[str, Any]], silent: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return results with those of silent hosts; one of which late telemetry was judged has a single one."""
    # A silence of days must not stretch the report, which is of what was judged now.
    since = min((result["start"] for result in results if not result["skipped"]), default="")
    quiet = {result["host"]: {**result, "start": max(result["start"], since)} for result in silent}
    joined = []
    for result in results:
        other = None if result["skipped"] else quiet.pop(result["host"], None)
        if other is not None:
            result = {**result, "end": other["end"], "incidents": result["incidents"] + other["incidents"]}
        joined.append(result)
    left = {result["host"] for result in joined}
    return joined + [result for host, result in quiet.items() if host not in left]


def _notes(results: Sequence[Mapping[str, Any]]) -> list[str]:
    scored = [result for result in results if not result["skipped"]]
    notes = [f"{r['host']} was not scored: {r['skipped']}" for r in results if r["skipped"]]
    return notes + [
        f"{r['host']} was scored by {r['model']}." for r in scored if r["model"] != scored[0]["model"]
    ]


def publish(
    run: Runner,
    how: Scoring,
    outcome: Scored,
    *,
    title: str | None = None,
    injected: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Publish a report of the hosts that could be scored."""
    scored = outcome.scored
    by_label = {f"{model['name']}@{model['version']}": model for model in outcome.models.values()}
    label = next((result["model"] for result in scored if result["model"]), min(by_label))
    reference = by_label[label]
    since, until = min(r["start"] for r in scored), max(r["end"] for r in scored)
    version = f"{reference['name']}/{reference['version']}"
    command = ["reveal", "score", "--store", how.store, "--host", how.host, "--start", since, "--end", until]
    return dict(
        run.call(
            publish_report,
            store=how.store,
            tracking_uri=how.tracking_uri,
            report_id=report_name("score", datetime.now(UTC), how.store, how.host, since, until, version),
            title=title
            or (
                f"Telemetry of {scored[0]['host']}"
                if len(scored) == 1
                else f"Telemetry of {len(scored)} hosts"
            ),
            model=reference,
            scored=scored,
            injected=[dict(fault) for fault in injected],
            notes=outcome.notes,
            command=shlex.join([*command, "--model", version]),
            plugins=list(how.plugins),
        )
    )


def announce_report(
    run: Runner, store: str, hosts: Sequence[str], document: Mapping[str, Any]
) -> dict[str, Any]:
    """Tell of what a report found, and of what is over, by the settings of this machine."""
    return dict(
        run.call(
            announce_incidents,
            store=store,
            hosts=list(hosts),
            fleet=document["fleet"],
            report=document["report"],
            report_id=document["report_id"],
            budget=document["alarm_budget"],
            alerts=load_settings().alerts.plain(),
        )
    )


def regimes_of(scored: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the regimes that hosts are held in."""
    return [result["regime"] for result in scored if result["regime"] is not None]
