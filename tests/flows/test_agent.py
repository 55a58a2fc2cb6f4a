"""The agent as a process: killed, ended, told to read its settings anew, asked for its health."""

from __future__ import annotations

import io
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from reveal_core.segment import decode_metadata

REVEAL = [sys.executable, "-m", "flows.cli"]


@contextmanager
def agent(folder: Path, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``reveal collect`` in a folder, as an agent unless told otherwise; kill it if it is still there."""
    process = subprocess.Popen(
        [*REVEAL, "collect", "--json", "--host", "node-1", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


def segments(store: Path) -> list[Path]:
    return sorted((store / "telemetry").rglob("*.parquet")) if store.is_dir() else []


def mono_of(paths: list[Path]) -> list[int]:
    return [value for path in paths for value in pl.read_parquet(path)["mono"].to_list()]


COLLECTORS = """
import os, sys
from tasks.collecting import collect

for line in sys.stdin:
    store, told = line.split()
    pid = os.fork()
    if pid == 0:
        with open(told, "w") as file:
            collect(
                store, host="node-1", interval_s=0.02, duration_s=None, segment_s=0.1,
                on_stored=lambda key, size: print(key, file=file, flush=True),
            )
    print(pid, flush=True)
"""
"""Starts a collector for each line that names its store and where it is to tell what it has stored."""


@pytest.mark.slow
def test_twenty_kills_lose_nothing_that_was_stored_and_leave_nothing_half_done(tmp_path: Path) -> None:
    rng = random.Random(20)
    with subprocess.Popen(
        [sys.executable, "-c", COLLECTORS],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        for number in range(20):
            store, told = tmp_path / f"store-{number}", tmp_path / f"told-{number}"
            starter.stdin.write(f"{store} {told}\n")
            starter.stdin.flush()
            pid = int(starter.stdout.readline())
            try:
                wait_for(lambda told=told: told.exists() and told.stat().st_size > 0)  # type: ignore[misc]
                time.sleep(rng.uniform(0, 0.4))
            finally:
                os.kill(pid, signal.SIGKILL)
            # What it was killed in the middle of telling it has not told.
            lines = told.read_text().splitlines(keepends=True)
            acknowledged = [line for line in lines if line.endswith("\n")]
            there = {str(path.relative_to(store)) for path in segments(store)}
            assert {line.strip() for line in acknowledged} <= there, "an acknowledged segment is gone"
            mono = mono_of(segments(store))  # every file under a final name can be read
            assert all(b > a for a, b in itertools.pairwise(mono))
            heads = [decode_metadata(pq.read_metadata(path).metadata)[0] for path in segments(store)]
            assert [head["seq"] for head in heads] == list(range(len(heads)))
        starter.stdin.close()


def test_the_end_comes_within_five_seconds_and_everything_is_stored(tmp_path: Path) -> None:
    with agent(tmp_path, "--store", str(tmp_path / "store"), "--segment", "1s") as process:
        wait_for(lambda: len(segments(tmp_path / "store")) >= 1, process)
        told = time.monotonic()
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=20)
        assert time.monotonic() - told < 5
    assert process.returncode == 0, errors
    result = json.loads(output)
    assert result["ticks"] == len(mono_of(segments(tmp_path / "store")))
    assert result["spooled"] == 0


def test_new_settings_are_taken_up_on_sighup_and_wrong_ones_are_not(tmp_path: Path) -> None:
    config = tmp_path / "reveal.toml"
    config.write_text('[collect]\ninterval = "100ms"\nsegment = "500ms"\n')
    store = tmp_path / "store"

    def intervals() -> list[str]:
        return [
            decode_metadata(pq.read_metadata(p).metadata)[0]["facts"]["interval"] for p in segments(store)
        ]

    with agent(tmp_path, "--store", str(store)) as process:
        wait_for(lambda: "100 ms" in intervals(), process)
        config.write_text('[collect]\ninterval = "50ms"\nsegment = "500ms"\n')
        process.send_signal(signal.SIGHUP)
        wait_for(lambda: "50 ms" in intervals(), process)
        config.write_text('[collect]\ninterval = "no time"\n')
        process.send_signal(signal.SIGHUP)
        before = len(segments(store))
        wait_for(lambda: len(segments(store)) > before + 2, process)
        assert intervals()[-1] == "50 ms"
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert "no time" in errors
    assert len(errors.strip().splitlines()) == 1
    assert json.loads(output)["ticks"] == len(mono_of(segments(store)))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_its_health_is_told_to_prometheus(tmp_path: Path) -> None:
    port = free_port()

    def scrape() -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[:1] != "#"}

    def up() -> bool:
        try:
            return scrape().get("reveal_stored_segments_total", 0) > 0
        except OSError:
            return False

    where = f"127.0.0.1:{port}"
    with agent(tmp_path, "--store", "store", "--segment", "500ms", "--metrics", where) as process:
        wait_for(up, process)
        found = scrape()
    assert found['reveal_source_up{source="stat"}'] == 1
    assert found["reveal_channels"] > 300
    assert found["reveal_samples_total"] > found["reveal_channels"]
    assert 0 < found["reveal_cpu_seconds_total"] < 60
    assert found["reveal_stored_bytes_total"] > 1000


@pytest.mark.parametrize(
    ("where", "code", "line"),
    [("nonsense", 2, "HOST:PORT"), ("127.0.0.1:99999", 3, "99999"), ("192.0.2.1:9464", 3, "192.0.2.1")],
)
def test_an_address_that_cannot_be_served_is_told(tmp_path: Path, where: str, code: int, line: str) -> None:
    with agent(tmp_path, "--store", "store", "--duration", "1s", "--metrics", where) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    assert line in errors
    assert len(errors.strip().splitlines()) == 1
    assert not segments(tmp_path / "store")


def test_many_open_files_are_not_needed(tmp_path: Path) -> None:
    limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", *REVEAL, "collect", "--json", "--duration", "1s"]
    done = subprocess.run(
        [*limited, "--store", "store", "--segment", "500ms"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ticks"] == 10
    frame = pl.read_parquet(io.BytesIO(segments(tmp_path / "store")[-1].read_bytes()))
    assert frame["cpu.user/cpu0"].null_count() == 0
