"""A process that is kept up: started again, but not for ever, and ended with all that it has started."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from flows.site_service import MOST_ENDS, Service
from reveal_core.errors import UnavailableError

ONCE = """
import pathlib, sys, time
mark = pathlib.Path(sys.argv[1])
if not mark.exists():
    mark.touch()
    sys.exit("not yet")
time.sleep(60)
"""
PARENT = """
import pathlib, subprocess, sys, time
stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", stubborn])
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
time.sleep(60)
"""


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_what_ends_is_started_again_and_told(tmp_path: Path) -> None:
    service = Service([sys.executable, "-c", ONCE, str(tmp_path / "mark")], tmp_path / "thing.log", {})
    said: list[str] = []
    try:
        first = service.companion.process
        first.wait()
        service.look(said.append)
        assert service.companion.process is not first
        assert said == ["the thing ended with code 1: not yet; it is started again"]
        service.look(said.append)
        assert len(said) == 1
    finally:
        service.stop()
    assert service.companion.process.poll() is not None


@pytest.mark.parametrize(("again", "ends"), [(True, MOST_ENDS), (False, 0)])
def test_what_ends_again_and_again_is_given_up(tmp_path: Path, again: bool, ends: int) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('no room')"]
    service = Service(command, tmp_path / "thing.log", {}, again=again)
    said: list[str] = []
    for _ in range(ends):
        service.companion.process.wait()
        service.look(said.append)
    service.companion.process.wait()
    with pytest.raises(UnavailableError, match="the thing ended with code 1: no room"):
        service.look(said.append)
    assert len(said) == ends
    service.stop()


def test_it_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    told = tmp_path / "child"
    service = Service([sys.executable, "-c", PARENT, str(told)], tmp_path / "thing.log", {})
    until(lambda: told.exists() and told.read_text() != "")
    child = int(told.read_text())
    service.stop()
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_it_has_its_own_environment(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import os, sys; sys.exit(os.environ['THING'] + os.environ['HOME'])"]
    service = Service(command, tmp_path / "thing.log", {"THING": "it is set, "}, again=False)
    service.companion.process.wait()
    with pytest.raises(UnavailableError, match=f"it is set, {os.environ['HOME']}"):
        service.look(print)
