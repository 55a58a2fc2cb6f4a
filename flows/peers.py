"""Hosts that were scored are compared with those that run the same job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.settings import load_settings
from reveal_core.jobtable import job_of_facts
from reveal_core.timespec import parse_duration
from tasks.peers import compare_peers, find_peers
from tasks.runner import Runner
from tasks.stragglers import note_stragglers


def with_peers(
    run: Runner, store: str, results: Sequence[dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the results of scoring with the incidents of hosts that are out of step with their peers.

    In which metrics hosts are compared, and over how long, is read from the settings of where this runs.

    Parameters
    ----------
    run
        Runs the stages.
    store
        Root of the store.
    results
        From `tasks.scoring.score_hosts`.

    Returns
    -------
    results
        In the same order.
    notes
        Sentences that a reader must know.
    """
    scored = [
        {
            "host": result["host"],
            "start": result["start"],
            "end": result["end"],
            "job": job_of_facts(result["facts"]),
            "incidents": result["incidents"],
        }
        for result in results
        if not result["skipped"]
    ]
    if not scored:
        return list(results), []
    rules = load_settings().peers
    span_s = parse_duration(rules.span)
    found = run.call(find_peers, store=store, scored=scored, span_s=span_s)
    if not found["known"]:
        return list(results), []
    calls = [
        {
            "store": store,
            **group,
            "metrics": rules.metrics,
            "span_s": span_s,
            "threshold": rules.score,
            "effect": rules.effect,
        }
        for group in found["groups"]
        if rules.metrics
    ]
    compared = run.map(compare_peers, calls, heavy=True) if calls else []
    told = run.call(
        note_stragglers,
        store=store,
        scored=scored,
        running=found["running"],
        compared=compared,
        span_s=span_s,
    )
    joined = [
        {**result, "incidents": list(dict.fromkeys([*result["incidents"], *told.get(result["host"], ())]))}
        for result in results
    ]
    return joined, list(found["notes"])
