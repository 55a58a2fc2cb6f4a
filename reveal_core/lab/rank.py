"""One rank of the workload, run as ``python -m reveal_core.lab.rank``."""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path

import numpy as np

from reveal_core.lab.control import LOSS, STALL, serve_control
from reveal_core.lab.datafiles import BatchReader, CheckpointWriter
from reveal_core.lab.exchange import Exchange, LinkLost
from reveal_core.lab.gate import InputGate
from reveal_core.lab.model import CLASSES, PARAMETERS, ROWS, Floats, Network
from reveal_core.lab.namespaces import enter_namespace, enter_private_namespace, join_private_namespace
from reveal_core.lab.processes import leave_with_parent
from reveal_core.lab.progress import ProgressWriter
from reveal_core.lab.variants import DEFAULT_VARIANT, VARIANTS, Variant, variant_of

EVALUATE_BATCHES = 24
JITTER = 0.12
ANSWER = 1 << 16
"""Numbers that the ranks swap for a request: 256 KiB of float32."""
BURST_S, LULL_S = (2.0, 6.0), (0.8, 3.0)
"""Bounds of how long requests come in a burst, and of how long none comes after it."""
REQUEST_GAP_S, LONGEST_GAP_S = 0.035, 0.25
"""Mean time between the end of a request and the next one of a burst, and the longest."""
_IDLE_STEP_S = 0.05
"""Waiting for a request is published in steps of so long."""


class Rank:
    """One of the two ranks of a data-parallel job.

    Parameters
    ----------
    rank
        0 leads: it decides when to evaluate, writes the checkpoints, and is the one that requests come to.
    files
        Directory of mini-batches and checkpoints.
    run
        Directory of control socket, progress file and port file.
    seed
        Seed of weights, jitter and order.
    exchange
        The connection to the other rank.
    variant
        What the job is like.
    gate
        Before everything that is read as input.
    """

    def __init__(
        self,
        rank: int,
        files: Path,
        run: Path,
        seed: int,
        exchange: Exchange,
        variant: Variant,
        gate: InputGate,
    ) -> None:
        self.rank = rank
        self.exchange = exchange
        self.variant = variant
        self.gate = gate
        self.network = Network(seed)
        self.inbox = np.zeros(PARAMETERS, np.float32)
        self.answer = np.zeros(ANSWER, np.float32)
        self.reader = BatchReader(files)
        self.checkpoints: CheckpointWriter | None = None
        if rank == 0 and variant.checkpoint_period_s:
            self.checkpoints = CheckpointWriter(files, variant.checkpoint_bytes)
        self.progress = ProgressWriter(run / f"progress-{rank}")
        self.random = np.random.default_rng([seed, rank])
        self.passes = self._passes_for(variant.compute_s)
        self.step = 0
        self.finished = 0
        self.idle_s = 0.0
        self.accuracy = 0.0
        now = time.monotonic()
        self.next_checkpoint = now + 0.5 * variant.checkpoint_period_s
        self.next_pause = now + 0.7 * variant.pause_period_s
        self.burst_ends = now

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
        """Work until the process is ended, setting the connection up anew whenever it breaks."""
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
                if self.variant.serves:
                    self._serve_request()
                else:
                    self._train_step()
            except LinkLost as loss:
                print(f"step {self.step}: {loss}", file=sys.stderr, flush=True)  # noqa: T201
                self.network.gradient.fill(0)
                connected = False

    def _due(self, period: float) -> float:
        return time.monotonic() + period * float(self.random.uniform(1 - JITTER, 1 + JITTER))

    def _tell(self, phase: str) -> None:
        self.progress.set(self.finished, phase, self.idle_s)

    def _read(self, index: int) -> Floats:
        self.gate.wait()
        return self.reader.read(index)

    def _train_step(self) -> None:
        self._tell("train")
        time.sleep(self.variant.wait_s * float(self.random.uniform(0.7, 1.3)))
        batch = self._read(2 * self.step + self.rank)
        for _ in range(self.passes):
            self.network.accumulate(batch)
        evaluate = self.rank == 0 and time.monotonic() >= self.next_pause
        _, self.passes, evaluate = self.exchange.meet(self.step, self.passes, evaluate)
        self.exchange.all_reduce(self.network.gradient, self.inbox)
        self.network.apply(1 / (2 * self.passes))
        self.step += 1
        self.finished += 1
        if evaluate:
            self._evaluate()
            self.next_pause = self._due(self.variant.pause_period_s)
        if self.checkpoints is not None and time.monotonic() >= self.next_checkpoint:
            self._tell("checkpoint")
            self.checkpoints.write([self.network.weights, self.network.momentum])
            self.next_checkpoint = self._due(self.variant.checkpoint_period_s)

    def _evaluate(self) -> None:
        """Run the network forward only, on other batches, and weigh its answers; no exchange, about 2 s."""
        right = 0
        for index in range(EVALUATE_BATCHES):
            self._tell("evaluate")
            time.sleep(self.variant.wait_s * 0.5 * float(self.random.uniform(0.7, 1.3)))
            batch = self._read(2 * index + self.rank)
            for _ in range(2 * self.passes):
                answers = self.network.forward(batch).argsort(axis=1)
            right += int((answers[:, -1] == batch[:, :CLASSES].argmax(axis=1)).sum())
            self.finished += 1
        self.accuracy = right / (EVALUATE_BATCHES * ROWS)

    def _serve_request(self) -> None:
        """Wait for a request, answer it on both ranks, and swap the answers."""
        if self.rank == 0:
            self._await_request()
        load = self.rank == 0 and time.monotonic() >= self.next_pause
        _, self.passes, load = self.exchange.meet(self.step, self.passes, load)
        self._tell("serve")
        batch = self._read(2 * self.step + self.rank)
        for _ in range(2 * self.passes):  # forward alone costs about half of a training pass
            shares = self.network.forward(batch)
            shares.argsort(axis=1)
        self.answer[: shares.size] = shares.ravel()
        self.exchange.all_reduce(self.answer, self.inbox)
        self.step += 1
        self.finished += 1
        if load:
            for index in range(EVALUATE_BATCHES):  # as large as a checkpoint
                self._read(2 * index + self.rank)
            self.next_pause = self._due(self.variant.pause_period_s)

    def _await_request(self) -> None:
        if time.monotonic() >= self.burst_ends:
            self._idle(float(self.random.uniform(*LULL_S)))
            self.burst_ends = time.monotonic() + float(self.random.uniform(*BURST_S))
        self._idle(min(float(self.random.exponential(REQUEST_GAP_S)), LONGEST_GAP_S))

    def _idle(self, seconds: float) -> None:
        """Wait, and publish the time as idle while it goes by."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            began = time.monotonic()
            time.sleep(min(left, _IDLE_STEP_S))
            self.idle_s += time.monotonic() - began
            self._tell("serve")


def main() -> None:
    """Set the rank up and run it until its parent leaves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, choices=(0, 1), required=True)
    parser.add_argument("--files", type=Path, required=True)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--variant", choices=[v.name for v in VARIANTS], default=DEFAULT_VARIANT)
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
    gate = InputGate()
    effects = {LOSS: exchange.set_loss, STALL: gate.set_share}
    serve_control(arguments.run / f"rank-{arguments.rank}.sock", effects)
    variant = variant_of(arguments.variant)
    rank = Rank(arguments.rank, arguments.files, arguments.run, arguments.seed, exchange, variant, gate)
    rank.run_forever(go)


if __name__ == "__main__":
    main()
