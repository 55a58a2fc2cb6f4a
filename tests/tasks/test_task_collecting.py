"""Collecting: in this process, and in one of its own that ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.segment import Segment
from storage import spool
from storage.backend import Backend
from storage.spool import Spool
from storage.store import Store
from tasks import collecting
from tasks.collecting import asked_dense_s, collect, collect_apart
from tasks.investigating import ask_denser
from tasks.tethered import tethered


def test_what_was_collected_is_in_the_store(tmp_path: Path) -> None:
    stored: list[tuple[str, int]] = []
    result = collect(
        str(tmp_path),
        host="here",
        interval_s=0.1,
        duration_s=1.0,
        segment_s=0.5,
        on_stored=lambda key, size: stored.append((key, size)),
    )
    assert result["segments"] == [key for key, _ in stored]
    assert result["bytes"] == sum(size for _, size in stored)
    start, end = Store(str(tmp_path)).extent("here")
    read = Store(str(tmp_path)).read_telemetry("here", start, end)
    assert read.telemetry.frame.height == result["ticks"] == 10


def test_a_store_that_cannot_be_written_is_told_before_anything_is_sampled(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UnavailableError, match="store"):
        collect(str(file), host="here", interval_s=0.1, duration_s=60, segment_s=60)


class AwayStore:
    """A remote store, in this process' memory, that is away until it is told to be back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = "memory://fleet/telemetry"
        self.away = True
        write = Backend.write
        check = Backend.check

        def write_if_there(backend: Backend, key: str, data: bytes) -> None:
            self.refuse(backend)
            write(backend, key, data)

        def check_if_there(backend: Backend, write: bool = False) -> None:
            self.refuse(backend)
            check(backend, write)

        monkeypatch.setattr(Backend, "write", write_if_there)
        monkeypatch.setattr(Backend, "check", check_if_there)

    def refuse(self, backend: Backend) -> None:
        if self.away and not backend.local:
            raise UnavailableError(f"store {backend.shown}: cannot be reached: 503")


def test_a_store_away_for_ten_minutes_costs_what_exceeds_the_spool_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "FIRST_RETRY_S", 0.01)
    monkeypatch.setattr(spool, "LAST_RETRY_S", 0.02)
    monkeypatch.setattr(collecting, "FLUSH_S", 0.0)
    store = AwayStore(monkeypatch)
    sizes: list[int] = []
    add = Spool.add

    def weighed(waiting: Spool, segment: Segment) -> str:
        sizes.append(len(segment.data))
        return add(waiting, segment)

    monkeypatch.setattr(Spool, "add", weighed)

    def run(seconds: float, stop: threading.Event, bound: int) -> dict[str, Any]:
        return collect(
            store.url,
            host="here",
            interval_s=0.02,
            duration_s=None,
            segment_s=0.1,
            spool=str(tmp_path / "spool"),
            spool_bytes=bound,
            stop=stop,
            watch=lambda _collector, _sink: threading.Timer(seconds, stop.set).start(),
        )

    # Twenty segments' time stands for ten minutes; the spool holds about eight.
    first = run(2.0, threading.Event(), 8 * 60_000)
    held = sorted((tmp_path / "spool").rglob("*.parquet"))
    assert first["segments"] == []
    assert first["given_up"] > 0
    assert first["spooled"] == len(held) == len(sizes) - first["given_up"]
    assert sum(path.stat().st_size for path in held) <= 8 * 60_000
    assert sum(path.stat().st_size for path in held) + max(sizes) > 8 * 60_000
    names = [path.name for path in held]

    store.away = False
    monkeypatch.setattr(collecting, "FLUSH_S", 20.0)
    second = run(0.5, threading.Event(), 1 << 30)
    assert second["spooled"] == 0
    assert second["given_up"] == 0
    brought = [key.rpartition("/")[2] for key in second["segments"]]
    assert brought[: len(names)] == names, "what waited goes first, oldest first"
    assert len(brought) == len(names) + len(sizes) - len(names) - first["given_up"]
    assert not list((tmp_path / "spool").rglob("*.parquet"))
    start, end = Store(store.url).extent("here")  # type: ignore[misc]
    assert Store(store.url).read_telemetry("here", start, end).quarantined == []


def test_a_bounded_run_needs_its_store_and_an_agent_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = AwayStore(monkeypatch)
    options: dict[str, Any] = {"host": "here", "interval_s": 0.1, "segment_s": 0.2, "spool": str(tmp_path)}
    with pytest.raises(UnavailableError, match="503"):
        collect(store.url, duration_s=1.0, **options)
    stop = threading.Event()
    monkeypatch.setattr(collecting, "FLUSH_S", 0.0)
    result = collect(
        store.url,
        duration_s=None,
        stop=stop,
        watch=lambda _collector, _sink: threading.Timer(0.5, stop.set).start(),
        **options,
    )
    assert result["spooled"] >= 1


def test_a_process_apart_gives_the_same_result_and_the_same_errors(tmp_path: Path) -> None:
    options = {"host": "here", "interval": "100ms", "segment": "60s"}
    result = collect_apart(str(tmp_path), duration="300ms", **options)
    assert result["ticks"] == 3
    assert len(result["segments"]) == 1
    with pytest.raises(UsageError, match=r"^--root /nowhere is no folder$"):
        collect_apart(str(tmp_path), duration="1s", root="/nowhere", **options)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"


def test_a_tethered_process_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    program = (
        "import subprocess, sys, time; from tasks.tethered import tethered;"
        "child = subprocess.Popen(tethered(['sleep', '600'], niceness=5));"
        "print(child.pid, flush=True); time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        until = time.monotonic() + 30
        while b"sleep" not in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0]:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert os.getpriority(os.PRIO_PROCESS, child) == 5
        parent.kill()
        parent.wait()
        while not gone(child):
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        if not gone(child):
            os.kill(child, signal.SIGKILL)


def test_a_command_line_is_kept_as_it_is() -> None:
    done = subprocess.run(tethered(["printf", "%s|", "a b", "*"]), capture_output=True, text=True, check=True)
    assert done.stdout == "a b|*|"


def test_a_host_hears_for_how_long_it_is_asked_to_sample_densely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    assert asked_dense_s(store, "node/1") == 0.0
    now = datetime.now(UTC)
    key = store.ask_dense("node/1", now + timedelta(minutes=5))
    assert 290 < asked_dense_s(store, "node/1") <= 300
    assert asked_dense_s(store, "node-2") == 0.0
    store.ask_dense("node/1", now - timedelta(minutes=5))
    assert asked_dense_s(store, "node/1") == 0.0
    for damaged in (b"", b"[]", b'{"dense_until": "soon"}', b"\xff"):
        (tmp_path / key).write_bytes(damaged)
        assert asked_dense_s(store, "node/1") == 0.0
        assert not (tmp_path / key).exists()  # it is in quarantine

    def away(_self: Backend, _key: str) -> bytes:
        raise UnavailableError("the store is away")

    monkeypatch.setattr(Backend, "read", away)
    assert asked_dense_s(store, "node/1") == 0.0


def test_only_who_can_and_for_what_is_recent_is_asked_for_denser_samples(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    now = datetime.now(UTC)
    assert ask_denser(store, "node-1", now, {"interval": "100 ms"}) == []
    assert ask_denser(store, "node-1", now - timedelta(hours=1), {"interval": "adaptive"}) == []
    assert store.dense_until("node-1") is None
    (note,) = ask_denser(store, "node-1", now - timedelta(minutes=2), {"interval": "adaptive"})
    assert note.startswith("node-1 was asked to sample densely until ")
    assert store.dense_until("node-1") > now + timedelta(minutes=9)
