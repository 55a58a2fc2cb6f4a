"""Stages in processes of their own: results, failures, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from threading import Thread

import psutil
import pytest

from reveal_core.errors import UnavailableError
from tasks.pool import map_apart, worth_it
from tasks.runner import DirectRunner

NUMBERS = [{"s": str(number)} for number in range(5)]


def test_results_come_in_order_from_other_processes() -> None:
    told: list[int] = []
    assert map_apart(2, json.loads, NUMBERS, told.append) == [0, 1, 2, 3, 4]
    assert told == [1, 2, 3, 4, 5]
    pids = set(map_apart(2, os.getpid, [{}] * 4))
    assert os.getpid() not in pids
    assert map_apart(2, os.getenv, [{"key": "POLARS_MAX_THREADS"}]) == ["1"]
    assert os.environ.get("OMP_NUM_THREADS") != "1"


def test_every_call_is_made_even_if_one_fails() -> None:
    told: list[int] = []
    with pytest.raises(ValueError, match="Expecting"):
        map_apart(2, json.loads, [*NUMBERS, {"s": "nothing"}, {"s": "7"}], told.append)
    assert told[-1] == 7


def test_a_process_that_is_killed_is_told_and_replaced() -> None:
    with pytest.raises(UnavailableError, match="was killed"):
        map_apart(2, os._exit, [{"status": 1}])
    assert map_apart(2, json.loads, NUMBERS) == [0, 1, 2, 3, 4]


def test_the_pool_outlives_the_thread_that_began_it() -> None:
    """The kernel ties a process to the *thread* that started it, and a flow's threads end with the flow."""
    with pytest.raises(UnavailableError, match="was killed"):
        map_apart(2, os._exit, [{"status": 1}])  # so that the pool is begun anew, and by a thread below
    seen: list[set[int]] = []
    for _ in range(3):
        flow = Thread(target=lambda: seen.append(set(map_apart(2, os.getpid, [{}] * 8))))
        flow.start()
        flow.join()
        time.sleep(0.2)
    assert len(seen) == 3
    assert len(set.union(*seen)) <= 2


def test_few_calls_are_not_worth_it() -> None:
    assert not worth_it(3, 2)
    assert not worth_it(100, 1)
    assert worth_it(4, 2)
    runner = DirectRunner(workers=2)
    assert runner.map(os.getpid, [{}] * 3, heavy=True) == [os.getpid()] * 3
    assert os.getpid() not in runner.map(os.getpid, [{}] * 4, heavy=True)
    assert runner.map(os.getpid, [{}] * 4) == [os.getpid()] * 4


def test_the_processes_end_when_their_parent_is_killed() -> None:
    code = "import os; from tasks.pool import map_apart; print(*map_apart(2, os.getpid, [{}] * 4)); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        children = [psutil.Process(int(pid)) for pid in set(parent.stdout.readline().split())]
        parent.send_signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs(children, timeout=10)
    assert not alive, gone
