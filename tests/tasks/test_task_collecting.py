"""Collecting: in this process, and in one of its own that ends with its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reveal_core.errors import UnavailableError, UsageError
from storage.store import Store
from tasks.collecting import collect, collect_apart
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
