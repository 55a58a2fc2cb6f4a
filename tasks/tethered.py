"""Runs a command that ends when its parent does.

A process that is killed outright cannot stop its children; the kernel can. The request survives the ``exec``,
and made here, in a fresh process, it needs no code between ``fork`` and ``exec`` of a parent that has
threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``."""


def tethered(command: Sequence[str], niceness: int = 0, number: int = signal.SIGTERM) -> list[str]:
    """Return the command line that runs ``command`` so that a signal reaches it when its parent dies.

    The tie is to the thread that starts it, so that thread must live as long as the command should.
    """
    return [
        sys.executable,
        "-m",
        "tasks.tethered",
        str(niceness),
        str(int(number)),
        str(os.getpid()),
        *command,
    ]


def main(arguments: Sequence[str]) -> None:
    """Tie this process to its parent and become the command."""
    niceness, number, parent, *command = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != int(parent):
        return  # it died before the tie was made
    os.nice(int(niceness))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
