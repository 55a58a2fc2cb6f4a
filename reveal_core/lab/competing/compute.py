"""Competitors for the cores and the scheduler."""

from __future__ import annotations

import argparse
import os
import signal
import time
from contextlib import suppress
from typing import NoReturn

from reveal_core.lab.processes import ProcessId, die_with_parent


def spin(_: argparse.Namespace) -> NoReturn:
    """Keep a core busy."""
    value = 1
    while True:
        value = (value * 1103515245 + 12345) % 2147483648


def fork(_: argparse.Namespace) -> NoReturn:
    """Start processes that end at once, one after another."""
    while True:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)


def switch(_: argparse.Namespace) -> NoReturn:
    """Hand a byte to another process and back, again and again: both are put on a core each time."""
    from_here, to_there = os.pipe()
    from_there, to_here = os.pipe()
    first = os.getpid()
    if os.fork() == 0:
        die_with_parent(first)
        while True:
            os.write(to_here, os.read(from_here, 1))
    while True:
        os.write(to_there, b"x")
        os.read(from_there, 1)


def pause(options: argparse.Namespace) -> None:
    """Stop a process and let it go on, in turns, for as long as it lives."""
    process = ProcessId(options.pid, options.start)
    while process.alive():
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(options.on)
            os.kill(process.pid, signal.SIGCONT)
        time.sleep(options.off)
