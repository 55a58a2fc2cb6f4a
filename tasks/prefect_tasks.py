"""The stages as Prefect tasks: names, retries, caching, concurrency tags; only this module knows Prefect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any

from prefect import Task
from prefect.cache_policies import INPUTS, NO_CACHE, RUN_ID, CachePolicy
from prefect.context import FlowRunContext
from prefect.runtime import flow_run
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.utilities.annotations import quote

from reveal_core.errors import UnavailableError
from tasks.alerting import announce_incidents
from tasks.arrivals import commit_arrivals, note_silent, plan_arrivals
from tasks.collecting import collect_apart
from tasks.compare_plan import plan_comparison
from tasks.comparing import (
    begin_comparison,
    compare_setting,
    finish_comparison,
    prepare_host,
    prepare_windows,
)
from tasks.drifting import refit_hosts, watch_hosts
from tasks.fitting import fit_hosts
from tasks.investigating import investigate_host
from tasks.maintaining import clean_store, maintain_hosts, plan_maintenance
from tasks.peers import compare_peers, find_peers
from tasks.planning import classify_hosts, plan_hosts
from tasks.pool import ONE_THREAD, run_apart, worth_it
from tasks.publishing import publish_report
from tasks.runner import Stage, stage_title
from tasks.scoring import choose_model, score_hosts
from tasks.stragglers import note_stragglers
from tasks.subject import choose_baseline, find_subject

STORE_TAG = "reveal-store"
"""Tag of tasks that use the store: ``prefect concurrency-limit create reveal-store 8`` bounds them."""
MODEL_TAG = "reveal-model"
"""Tag of tasks that use a core for seconds to minutes: limit it to what the workers have."""
RETRY_DELAYS_S = [2.0, 10.0, 30.0]

WITHIN_RUN: CachePolicy = RUN_ID + INPUTS
"""When a flow run is retried, what was done is not done again; another run does its own work."""


def may_heal(_task: Any, _run: Any, state: Any) -> bool:
    """Retry only what may heal by itself: a store or server that does not answer, never bad input."""
    error = state.result(raise_on_failure=False)
    return isinstance(error, UnavailableError)


def _task(
    stage: Stage, name: str, *, tags: Sequence[str], cache: CachePolicy, run_name: str | None = None
) -> Any:
    return Task(
        fn=stage,
        name=name,
        description=stage_title(stage),
        tags=list(tags),
        task_run_name=run_name,
        retries=len(RETRY_DELAYS_S),
        retry_delay_seconds=RETRY_DELAYS_S,
        retry_condition_fn=may_heal,
        cache_policy=cache,
        persist_result=cache is not NO_CACHE,
        result_serializer="json",
    )


TASKS: dict[Callable[..., Any], Any] = {
    # A retry would sample another stretch of time: what was missed cannot be collected afterwards.
    collect_apart: Task(fn=collect_apart, name="collect", tags=[STORE_TAG], cache_policy=NO_CACHE),
    plan_hosts: _task(plan_hosts, "plan-hosts", tags=[STORE_TAG], cache=NO_CACHE),
    plan_arrivals: _task(plan_arrivals, "plan-arrivals", tags=[STORE_TAG], cache=NO_CACHE),
    note_silent: _task(note_silent, "note-silent", tags=[STORE_TAG], cache=NO_CACHE),
    commit_arrivals: _task(commit_arrivals, "commit-arrivals", tags=[STORE_TAG], cache=NO_CACHE),
    classify_hosts: _task(classify_hosts, "classify-hosts", tags=[STORE_TAG], cache=NO_CACHE),
    choose_model: _task(choose_model, "choose-model", tags=[], cache=NO_CACHE),
    # Not cached: whoever fits again wants another version.
    fit_hosts: _task(
        fit_hosts, "fit-hosts", tags=[STORE_TAG, MODEL_TAG], cache=NO_CACHE, run_name="fit-{hardware_class}"
    ),
    refit_hosts: _task(
        refit_hosts,
        "refit-hosts",
        tags=[STORE_TAG, MODEL_TAG],
        cache=NO_CACHE,
        run_name="refit-{arguments[hardware_class]}",
    ),
    watch_hosts: _task(
        watch_hosts,
        "watch-hosts",
        tags=[STORE_TAG, MODEL_TAG],
        cache=NO_CACHE,
        run_name="watch-{hardware_class}",
    ),
    score_hosts: _task(score_hosts, "score-hosts", tags=[STORE_TAG, MODEL_TAG], cache=WITHIN_RUN),
    find_peers: _task(find_peers, "find-peers", tags=[STORE_TAG], cache=NO_CACHE),
    compare_peers: _task(compare_peers, "compare-peers", tags=[STORE_TAG, MODEL_TAG], cache=NO_CACHE),
    note_stragglers: _task(note_stragglers, "note-stragglers", tags=[STORE_TAG], cache=NO_CACHE),
    publish_report: _task(
        publish_report, "publish-report", tags=[STORE_TAG], cache=NO_CACHE, run_name="publish-{report_id}"
    ),
    # What a channel did not take is kept and tried by the next run: a retry here would tell others twice.
    announce_incidents: Task(
        fn=announce_incidents, name="announce-incidents", tags=[STORE_TAG], cache_policy=NO_CACHE
    ),
    investigate_host: _task(
        investigate_host,
        "investigate-host",
        tags=[STORE_TAG, MODEL_TAG],
        cache=NO_CACHE,
        run_name="{report_id}",
    ),
    find_subject: _task(find_subject, "find-subject", tags=[STORE_TAG], cache=NO_CACHE),
    choose_baseline: _task(choose_baseline, "choose-baseline", tags=[STORE_TAG], cache=NO_CACHE),
    plan_comparison: _task(plan_comparison, "plan-comparison", tags=[STORE_TAG], cache=NO_CACHE),
    begin_comparison: _task(begin_comparison, "begin-comparison", tags=[], cache=NO_CACHE),
    prepare_host: _task(prepare_host, "prepare-host", tags=[STORE_TAG, MODEL_TAG], cache=NO_CACHE),
    prepare_windows: _task(prepare_windows, "prepare-windows", tags=[MODEL_TAG], cache=NO_CACHE),
    compare_setting: _task(
        compare_setting, "compare-setting", tags=[MODEL_TAG], cache=NO_CACHE, run_name="compare-{name}"
    ),
    finish_comparison: _task(finish_comparison, "finish-comparison", tags=[], cache=NO_CACHE),
    clean_store: _task(clean_store, "clean-store", tags=[STORE_TAG], cache=NO_CACHE),
    plan_maintenance: _task(plan_maintenance, "plan-maintenance", tags=[STORE_TAG], cache=NO_CACHE),
    # Not cached: what was done is not there to be done again.
    maintain_hosts: _task(maintain_hosts, "maintain-hosts", tags=[STORE_TAG, MODEL_TAG], cache=NO_CACHE),
}
"""Every stage that a flow runs, with its task."""


def apart(stage: Stage, workers: int) -> Any:
    """Return the task of a heavy stage that only waits for a process of the pool, which does the work."""
    known = TASKS[stage]

    @wraps(stage)
    def elsewhere(*args: Any, **arguments: Any) -> Any:
        return run_apart(workers, stage, signature(stage).bind(*args, **arguments).arguments)

    return _task(elsewhere, known.name, tags=sorted(known.tags), cache=known.cache_policy)


def dask_runner(workers: int, address: str | None) -> Any:
    """Return a task runner that hands tasks to Dask.

    Parameters
    ----------
    workers
        Processes of the cluster that is started on this machine.
    address
        Of a scheduler that is there already; None to start a cluster for each flow run.

    Raises
    ------
    UnavailableError
        If prefect-dask is not installed.
    """
    try:
        from prefect_dask import DaskTaskRunner
    except ImportError as error:
        raise UnavailableError(
            "fleet.runner = dask needs prefect-dask: install reveal-telemetry[dask]"
        ) from error
    if address is not None:
        return DaskTaskRunner(address=address)
    return DaskTaskRunner(
        cluster_kwargs={
            "n_workers": workers,
            "threads_per_worker": 1,
            "dashboard_address": None,
            "env": dict.fromkeys(ONE_THREAD, "1"),
        }
    )


class PrefectRunner:
    """Runs stages as tasks of the flow that it is used in.

    Parameters
    ----------
    workers
        Processes that heavy calls are spread over where there are many; 1 for this process alone.
    """

    def __init__(self, workers: int = 1) -> None:
        self._workers = workers

    @property
    def run_id(self) -> str | None:
        """Id of the flow run."""
        return str(flow_run.id) if flow_run.id else None

    def call(self, stage: Stage, /, **arguments: Any) -> Any:
        """Run one stage as a task."""
        return TASKS[stage](**_as_they_are(arguments))

    def map(self, stage: Stage, calls: Sequence[Mapping[str, Any]], *, heavy: bool = False) -> list[Any]:
        """Submit a task per set of arguments to the flow's task runner and wait for all."""
        elsewhere = heavy and worth_it(len(calls), self._workers)
        task = apart(stage, self._workers) if elsewhere else TASKS[stage]
        # Dask takes apart the tuple that quotes an argument; threads hand it over as it is.
        context = FlowRunContext.get()
        threads = context is not None and isinstance(context.task_runner, ThreadPoolTaskRunner)
        futures = [task.submit(**(_as_they_are(each) if threads else each)) for each in calls]
        for future in futures:
            future.wait()
        return [future.result() for future in futures]


def _as_they_are(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments in which Prefect looks for no futures: it would visit every element of them."""
    return {name: quote(value) for name, value in arguments.items()}
