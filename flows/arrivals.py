"""Scoring whatever has arrived since the last run, however late, and noting hosts that are silent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flows.scoring import HOSTS_PER_TASK, Scoring, announce_report, judge, publish, regimes_of
from tasks.arrivals import commit_arrivals, note_silent, plan_arrivals
from tasks.runner import Runner
from tasks.scoring import require_scored


def score_arrivals(
    run: Runner,
    *,
    store: str,
    tracking_uri: str,
    host: str,
    model: str | None,
    reach_s: float,
    silent_s: float,
    forget_s: float,
    hosts_per_task: int = HOSTS_PER_TASK,
    plugins: Sequence[str] = (),
    announce: bool = False,
    now: str | None = None,
) -> dict[str, Any]:
    """Score what has arrived since the last run, however late, and note hosts that are silent.

    Every segment is judged once in effect: it counts as judged when a report says what came of it. A run that
    is killed, done again, or done twice at once changes nothing but the work.

    Parameters
    ----------
    run
        Runs the stages.
    store, tracking_uri, host, model, hosts_per_task, plugins
        As `Scoring` has them.
    reach_s, silent_s, forget_s, now
        As `tasks.arrivals.plan_arrivals` takes them.
    announce
        Whether to tell of what was found.

    Returns
    -------
    dict
        As `score_fleet`: the last report, with the ``windows`` and ``incidents`` of all. ``reports`` are the
        addresses of all, ``silent`` the hosts from which nothing comes. Where nothing has arrived and no host
        is silent, ``report`` is None.
    """
    how = Scoring(store, tracking_uri, host, model, hosts_per_task, plugins)
    found = run.call(
        plan_arrivals,
        store=store,
        host=host,
        reach_s=reach_s,
        silent_s=silent_s,
        forget_s=forget_s,
        now=now,
    )
    silent: list[dict[str, Any]] = []
    if found["silent"] or found["forgotten"]:
        silent = run.call(
            note_silent,
            store=store,
            silent=found["silent"],
            forgotten=found["forgotten"],
            silent_s=silent_s,
            now=found["now"],
        )
    documents: list[dict[str, Any]] = []
    hosts = dict.fromkeys(item["host"] for item in [*found["silent"], *found["forgotten"]])
    every: list[dict[str, Any]] = []
    rounds = found["rounds"] or ([[]] if silent or found["forgotten"] else [])
    for number, plans in enumerate(rounds, 1):
        newest = number == len(rounds)
        outcome = judge(run, how, plans, silent if newest else ())
        every += outcome.results
        if outcome.scored:
            documents.append(publish(run, how, outcome))
            hosts |= {result["host"]: None for result in outcome.scored}
        # A host that could not be judged is tried again by the next run.
        good = {result["host"] for result in outcome.scored}
        done = [plan for plan in plans if plan["host"] in good]
        run.call(commit_arrivals, store=store, plans=done, forgotten=found["forgotten"] if newest else [])
    if every and not documents:
        require_scored(every)
    if not documents:
        return _nothing(found)
    document = _joined(documents)
    told = announce_report(run, store, list(hosts), document) if announce else None
    return {
        **document,
        "regimes": regimes_of(every),
        "alerts": told,
        "silent": [item["host"] for item in found["silent"]],
    }


def _joined(documents: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the last report's document with what the earlier ones of the same run found."""
    last = documents[-1]
    return {
        **last,
        "windows": sum(document["windows"] for document in documents),
        "incidents": [incident for document in documents for incident in document["incidents"]],
        "quarantined": [item for document in documents for item in document["quarantined"]],
        "reports": [document["report"] for document in documents],
    }


def _nothing(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a run that had nothing to judge."""
    text = f"Nothing has arrived since the last run from any of {found['hosts']} hosts."
    return {
        "report": None,
        "report_id": None,
        "model": None,
        "windows": 0,
        "hosts": [],
        "incidents": [],
        "fleet": [],
        "quarantined": [],
        "reports": [],
        "regimes": [],
        "alerts": None,
        "silent": [item["host"] for item in found["silent"]],
        "headline": text,
        "markdown": text,
    }
