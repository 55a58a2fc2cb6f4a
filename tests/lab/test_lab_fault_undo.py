"""Faults whose injector was killed or told to end: nothing of them stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lab_parts import INJECTOR, REPOSITORY, competitors, needs_root, until

from reveal_core.errors import UnavailableError
from reveal_core.lab.faults import inject
from reveal_core.lab.journal import clean_up

HUGE_PAGES = Path("/proc/sys/vm/nr_hugepages")


@pytest.mark.root
@needs_root
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_injector_is_undone(tmp_path: Path, number: signal.Signals) -> None:
    before = int(HUGE_PAGES.read_text())
    command = [sys.executable, "-c", INJECTOR, "huge-pages-reserved", str(tmp_path / "state")]
    # What runs in the background of a shell ignores SIGINT, and so would all that it starts.
    with subprocess.Popen(
        command,
        cwd=REPOSITORY,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as injector:
        until(lambda: int(HUGE_PAGES.read_text()) > before, "huge pages")
        with pytest.raises(UnavailableError, match="another fault"):
            inject("cpu-contention", duration_s=1, state_dir=tmp_path / "state")
        injector.send_signal(number)
        injector.wait()
    undone = clean_up(tmp_path / "state")
    assert (f"restored {HUGE_PAGES} to {before}" in undone) == (number == signal.SIGKILL)
    assert int(HUGE_PAGES.read_text()) == before


def test_competitors_of_a_killed_injector_leave(tmp_path: Path) -> None:
    before = set(competitors("spin"))
    command = [sys.executable, "-c", INJECTOR, "cpu-contention", str(tmp_path / "state")]
    with subprocess.Popen(command, cwd=REPOSITORY) as injector:
        until(lambda: len(set(competitors("spin")) - before) > len(os.sched_getaffinity(0)), "competitors")
        injector.kill()
        injector.wait()
    until(lambda: set(competitors("spin")) <= before, "the competitors are gone")
    assert any("competitor spin" in line or "reveal-fault" in line for line in clean_up(tmp_path / "state"))
    assert not list((tmp_path / "state/journal").iterdir())
