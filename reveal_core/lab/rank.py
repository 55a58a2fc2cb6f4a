"""One rank of the workload, run as ``python -m reveal_core.lab.rank``."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from reveal_core.lab.control import serve_control
from reveal_core.lab.datafiles import BatchReader, CheckpointWriter
from reveal_core.lab.exchange import Exchange, LinkLost
from reveal_core.lab.model import CLASSES, PARAMETERS, ROWS, Network
from reveal_core.lab.namespaces import enter_namespace, enter_private_namespace, join_private_namespace
from reveal_core.lab.processes import leave_with_parent
from reveal_core.lab.progress import ProgressWriter

COMPUTE_S = 0.045
"""Computing time of a step on an unloaded core; the passes over a mini-batch are chosen to meet it."""
WAIT_S = 0.026
"""Mean wait of a step for its input; with it the two ranks keep about 60 % of two cores busy."""
CHECKPOINT_PERIOD_S = 8.0
EVALUATE_PERIOD_S = 15.0
EVALUATE_BATCHES = 24
JITTER = 0.12


class Rank:
    """One of the two ranks of a data-parallel training job.

    Parameters
    ----------
    rank
        0 leads: it decides when to evaluate, and writes the checkpoints.
    files
        Directory of mini-batches and checkpoints.
    run
        Directory of control socket, progress file and port file.
    seed
        Seed of weights, jitter and order.
    exchange
        The connection to the other rank.
    """

    def __init__(self, rank: int, files: Path, run: Path, seed: int, exchange: Exchange) -> None:
        self.rank = rank
        self.exchange = exchange
        self.network = Network(seed)
        self.inbox = np.zeros(PARAMETERS, np.float32)
        self.reader = BatchReader(files)
        self.checkpoints = CheckpointWriter(files) if rank == 0 else None
        self.progress = ProgressWriter(run / f"progress-{rank}")
        self.random = np.random.default_rng([seed, rank])
        self.passes = self._passes_for(COMPUTE_S)
        self.step = 0
        self.finished = 0
        self.accuracy = 0.0
        now = time.monotonic()
        self.next_checkpoint = now + 0.5 * CHECKPOINT_PERIOD_S
        self.next_evaluation = now + 0.7 * EVALUATE_PERIOD_S

    def _passes_for(self, seconds: float) -> int:
        batch = self.reader.read(self.rank)
        fastest = float("inf")
        for _ in range(8):  # the fastest of several: what the core does when nothing disturbs it
            start = time.perf_counter()
            self.network.accumulate(batch)
            fastest = min(fastest, time.perf_counter() - start)
        self.network.gradient.fill(0)
        return max(1, round(seconds / fastest))

    def run_forever(self, go: threading.Event) -> None:
        """Train until the process is ended, setting the connection up anew whenever it breaks."""
        connected = False
        while True:
            try:
                if not connected:
                    self.exchange.connect()
                    self.step, self.passes = self.exchange.adopt(self.step, self.passes, self.network.weights)
                    connected = True
                    if not go.is_set():
                        print("ready", flush=True)  # noqa: T201 - the protocol with the parent
                        go.wait()
                self._train_step()
            except LinkLost as loss:
                print(f"step {self.step}: {loss}", file=sys.stderr, flush=True)  # noqa: T201
                self.network.gradient.fill(0)
                connected = False

    def _due(self, period: float) -> float:
        return time.monotonic() + period * float(self.random.uniform(1 - JITTER, 1 + JITTER))

    def _train_step(self) -> None:
        self.progress.set(self.finished, "train")
        time.sleep(WAIT_S * float(self.random.uniform(0.7, 1.3)))
        batch = self.reader.read(2 * self.step + self.rank)
        for _ in range(self.passes):
            self.network.accumulate(batch)
        evaluate = self.rank == 0 and time.monotonic() >= self.next_evaluation
        _, self.passes, evaluate = self.exchange.meet(self.step, self.passes, evaluate)
        self.exchange.all_reduce(self.network.gradient, self.inbox)
        self.network.apply(1 / (2 * self.passes))
        self.step += 1
        self.finished += 1
        if evaluate:
            self._evaluate()
            self.next_evaluation = self._due(EVALUATE_PERIOD_S)
        if self.checkpoints is not None and time.monotonic() >= self.next_checkpoint:
            self.progress.set(self.finished, "checkpoint")
            self.checkpoints.write([self.network.weights, self.network.momentum])
            self.next_checkpoint = self._due(CHECKPOINT_PERIOD_S)

    def _evaluate(self) -> None:
        """Run the network forward only, on other batches, and weigh its answers; no exchange, about 2 s."""
        right = 0
        for index in range(EVALUATE_BATCHES):
            self.progress.set(self.finished, "evaluate")
            time.sleep(WAIT_S * 0.5 * float(self.random.uniform(0.7, 1.3)))
            batch = self.reader.read(2 * index + self.rank)
            for _ in range(2 * self.passes):
                answers = self.network.forward(batch).argsort(axis=1)
            right += int((answers[:, -1] == batch[:, :CLASSES].argmax(axis=1)).sum())
            self.finished += 1
        self.accuracy = right / (EVALUATE_BATCHES * ROWS)


def main() -> None:
    """Set the rank up and run it until its parent leaves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, choices=(0, 1), required=True)
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1", help="address that rank 0 listens on")
    parser.add_argument("--netns", default="", help="network namespace to enter")
    parser.add_argument(
        "--private", type=int, default=0, help="use a private namespace: rank 1 joins this process's"
    )
    arguments = parser.parse_args()
    go = threading.Event()
    port_file = arguments.run / "port"
    if arguments.private and arguments.rank == 0:
        enter_private_namespace()
    elif arguments.rank == 1:
        parent = os.getppid()
        while not port_file.exists():
            time.sleep(0.02)
            if os.getppid() != parent:
                sys.exit("the parent has left")
        if arguments.private:
            join_private_namespace(arguments.private)
    leave_with_parent(go)  # a thread, and whoever enters a user namespace must have none
    if arguments.netns:
        enter_namespace(arguments.netns)
    if arguments.rank == 0:
        exchange = Exchange(0, (arguments.host, 0))
        partial = port_file.with_suffix(".new")
        partial.write_text(str(exchange.port), encoding="ascii")
        partial.rename(port_file)
    else:
        exchange = Exchange(1, (arguments.host, int(port_file.read_text(encoding="ascii"))))
    serve_control(arguments.run / f"rank-{arguments.rank}.sock", exchange.set_loss)
    Rank(arguments.rank, arguments.files, arguments.run, arguments.seed, exchange).run_forever(go)


if __name__ == "__main__":
    main()
