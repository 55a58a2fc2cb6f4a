"""A host with 48 cores and GPUs, whole: what it gives, and GPUs that are lost or hang while it is sampled."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import polars as pl
import pytest
from collect_parts import copy_tree
from nvml_stub import name, stub_nvml

from reveal_core.catalog import load_catalog
from reveal_core.collect.agent import CollectStats, run_collector
from reveal_core.lab.wide_host import WideHost
from reveal_core.segment import Segment

REPOSITORY = Path(__file__).parents[2]


def test_a_host_of_48_cores_and_2_gpus_gives_the_publications_breadth(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    WideHost(root, cpus=48, interrupt_lines=200)
    with stub_nvml(tmp_path, gpus=2, load=False) as stub:
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", "channels", "--root", str(root), "--json"],
            cwd=REPOSITORY,
            env={**os.environ, **stub.env()},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    channels = json.loads(done.stdout)
    catalog = load_catalog()
    metrics = {channel["metric"] for channel in channels}
    assert len(metrics) >= 150
    assert len(channels) >= 700
    assert metrics <= catalog.keys()
    assert {channel["instance"] for channel in channels} >= {name(0), name(1), "cpu47"}
    for channel in channels:
        assert all(
            channel[key] for key in ("name", "metric", "subsystem", "kind", "unit", "source", "period_ms")
        )


class Run:
    """A collector that runs in a thread, on this machine's clock and a captured host."""

    def __init__(self, root: Path, seconds: float) -> None:
        self.segments: list[Segment] = []
        self.stop = threading.Event()
        self.stats: CollectStats | None = None
        self.root = root
        self.thread = threading.Thread(target=self.collect, args=(seconds,), daemon=True)

    def __enter__(self) -> Run:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(30)

    def collect(self, seconds: float) -> None:
        self.stats = run_collector(
            host="node-1",
            interval_s=0.1,
            duration_s=seconds,
            root=self.root,
            segment_s=60.0,
            on_segment=self.segments.append,
            stop=self.stop,
        )

    def frame(self) -> pl.DataFrame:
        return pl.concat([pl.read_parquet(io.BytesIO(s.data)) for s in self.segments], how="diagonal")


def present(frame: pl.DataFrame, channel: str, first: int, last: int) -> float:
    """Return the share of ticks in a stretch at which a channel has a sample."""
    return frame[channel][first:last].count() / (last - first)


@pytest.mark.timeout(120)
def test_one_gpu_lost_and_one_hanging_cost_the_other_six_nothing(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    with stub_nvml(tmp_path, gpus=8) as stub, Run(root, seconds=60.0) as run:
        time.sleep(3.0)
        stub.set(3, "lost")
        stub.set(5, "hang")
        time.sleep(4.0)
        told = time.monotonic()
        run.stop.set()
        run.thread.join(20)
        ended = time.monotonic() - told
        stub.clear(5, "hang")
    assert ended < 5
    frame, stats = run.frame(), run.stats
    assert stats is not None
    assert stats.ticks == frame.height
    utilization = {gpu: f"gpu.utilization/{name(gpu)}" for gpu in range(8)}
    healthy, faulty = (5, 25), (frame.height - 25, frame.height)
    for gpu in range(8):
        assert present(frame, utilization[gpu], *healthy) > 0.8, gpu
    for gpu in set(range(8)) - {3, 5}:
        assert present(frame, utilization[gpu], *faulty) > 0.8, gpu
    assert present(frame, utilization[3], *faulty) == 0
    assert present(frame, utilization[5], *faulty) == 0
    assert present(frame, "cpu.user/cpu0", 0, frame.height) == 1.0
    # The beat goes on: what a busy machine may lose of it, dying GPUs must not add to.
    assert stats.lost_ticks <= 3
    assert frame["reveal.late_reads/gpu"].drop_nulls().to_list()[-1] >= 1
    assert frame["reveal.coverage/gpu"].to_list()[-1] < 90
    assert frame[f"gpu.lost/{name(3)}"].drop_nulls().to_list()[-1] == 1
