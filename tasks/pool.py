"""Stages run side by side in processes of their own: what keeps a core busy gets little out of threads."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from multiprocessing import get_context
from multiprocessing.util import Finalize
from typing import Any

from reveal_core.errors import UnavailableError
from tasks.tethered import PR_SET_PDEATHSIG

ONE_THREAD = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Each process has a core to itself, so threads within one would only be in each other's way."""
_LEAST_EACH = 2
"""So many calls must there be for each process: it takes seconds to start."""
# The kernel ends a tied process with the thread that started it, and the threads of a flow end with the flow:
# so the processes are started by one thread that lives as long as this process does.
_KEEPER = ThreadPoolExecutor(1, thread_name_prefix="pool-keeper")


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


def worth_it(calls: int, workers: int) -> bool:
    """Tell whether so many calls are worth the start of so many processes."""
    return workers > 1 and calls >= _LEAST_EACH * workers


def prepare(parent: int) -> None:
    """Prepare a process of the pool before it imports anything large; it ends when its parent does."""
    for name in ONE_THREAD:
        os.environ[name] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the parent that is interrupted, and ends the pool
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:  # it died before the tie was made
        os._exit(1)


@lru_cache(maxsize=1)
def _pool(workers: int) -> ProcessPoolExecutor:
    # Not forked: other libraries hold threads and locks here.
    pool = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=prepare, initargs=(os.getpid(),)
    )
    # A process that multiprocessing has started waits at its end for its children before it ends its pools,
    # which would be for ever. By a priority above that of the queues by which the pool is told to end.
    Finalize(None, pool.shutdown, kwargs={"cancel_futures": True}, exitpriority=100)
    return pool


def _submit(workers: int, stage: Callable[..., Any], arguments: Mapping[str, Any]) -> Future[Any]:
    try:
        return _pool(workers).submit(stage, **arguments)
    except BrokenProcessPool:  # one of its processes was killed in an earlier call
        _pool.cache_clear()
        return _pool(workers).submit(stage, **arguments)


def submit(workers: int, stage: Callable[..., Any], arguments: Mapping[str, Any]) -> Future[Any]:
    """Begin a stage in a process of the pool, which is started when it is needed first."""
    return _KEEPER.submit(_submit, workers, stage, arguments).result()


def result(future: Future[Any]) -> Any:
    """Return what a stage returned; its exception comes through.

    Raises
    ------
    UnavailableError
        If its process was killed.
    """
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise UnavailableError(
            "a process that worked on this was killed, most likely for want of memory: "
            "fleet.workers and fleet.hosts_per_task bound what is held at once"
        ) from error


def run_apart(workers: int, stage: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Run a stage in a process of the pool and return its result, as `result` does."""
    return result(submit(workers, stage, arguments))


def map_apart(
    workers: int,
    stage: Callable[..., Any],
    calls: Sequence[Mapping[str, Any]],
    done: Callable[[int], None] = lambda _count: None,
) -> list[Any]:
    """Run a stage once per set of arguments in processes of their own; return the results in order.

    Parameters
    ----------
    workers
        How many processes.
    stage
        A function of a module; arguments and result are plain values.
    calls
        The arguments. Every call is made, even if one fails; the first exception comes through after that.
    done
        Told after each call, in order, how many are done.
    """
    futures = [submit(workers, stage, arguments) for arguments in calls]
    results: list[Any] = []
    failures: list[Exception] = []
    try:
        for number, future in enumerate(futures, 1):
            try:
                results.append(result(future))
            except Exception as error:  # noqa: BLE001  one group of hosts must not cost the others their results
                failures.append(error)
            done(number)
    finally:
        for future in futures:
            future.cancel()
    if failures:
        raise failures[0]
    return results
