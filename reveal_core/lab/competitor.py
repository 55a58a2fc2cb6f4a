"""Processes that compete with the workload, run as ``python -m reveal_core.lab.competitor KIND``.

They say ``ready``, begin when told ``go``, and end with their standard input.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from reveal_core.lab.namespaces import enter_namespace
from reveal_core.lab.processes import die_with_parent, leave_with_parent

KINDS = {
    "compute": ("spin", "fork", "switch", "pause"),
    "memory": ("touch", "reread", "stream", "leak", "compact"),
    "disk": ("write", "scan", "sync"),
    "traffic": ("packets", "connections", "knock", "flows", "flap"),
}
"""What a competitor can do, by the module of `reveal_core.lab.competing` that does it."""


def work_of(kind: str) -> Callable[[argparse.Namespace], None]:
    """Return what a kind of competitor does; only its module is imported, for a start is a disturbance."""
    module = next(name for name, kinds in KINDS.items() if kind in kinds)
    work: Callable[[argparse.Namespace], None] = getattr(
        import_module(f"reveal_core.lab.competing.{module}"), kind
    )
    return work


def _copies(count: int) -> tuple[list[int] | None, int, int]:
    """Split into ``count`` processes, before any thread exists; the copies die with the first.

    Returns the other copies in the first process and None in these, and the ends of a pipe that closes at go.
    """
    wait_end, go_end = os.pipe()
    first = os.getpid()
    others: list[int] = []
    for _ in range(count - 1):
        pid = os.fork()
        if pid == 0:
            die_with_parent(first)
            os.close(go_end)
            return None, wait_end, -1
        others.append(pid)
    return others, wait_end, go_end


def _end(copies: list[int]) -> None:
    """End the copies and wait for them, so that nothing competes any more once the first is gone."""
    for pid in copies:
        os.kill(pid, signal.SIGKILL)
    for pid in copies:
        os.waitpid(pid, 0)


def main() -> None:
    """Get ready, wait for go, and compete until the parent leaves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[kind for kinds in KINDS.values() for kind in kinds])
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument(
        "--cgroup", action="append", default=[], type=Path, help="cgroup.procs file to enter by"
    )
    parser.add_argument("--netns", default="")
    parser.add_argument("--file", default="")
    parser.add_argument("--bytes", type=int, default=0)
    parser.add_argument("--span", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--send", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0, help="a second")
    parser.add_argument("--pid", type=int, default=0)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--interface", default="")
    parser.add_argument("--on", type=float, default=0.0, help="seconds stopped or down")
    parser.add_argument("--off", type=float, default=0.0, help="seconds between these")
    options = parser.parse_args()
    work = work_of(options.kind)
    for procs in options.cgroup:
        procs.write_text(str(os.getpid()), encoding="ascii")
    if options.netns:
        enter_namespace(options.netns)
    others, wait_end, go_end = _copies(options.copies)
    if others is not None:
        started = threading.Event()
        leave_with_parent(started, before=lambda: _end(others))
        print("ready", flush=True)  # noqa: T201 - the protocol with the parent
        started.wait()
        os.close(go_end)
    else:
        os.read(wait_end, 1)
    work(options)
    threading.Event().wait()  # a competitor with an end waits for its parent's


if __name__ == "__main__":
    main()
