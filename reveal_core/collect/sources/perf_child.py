"""Starts a helper process that must not outlive the agent; run as a script, in the helper's own process.

``python perf_child.py PARENT NICE COMMAND…`` asks the kernel to end the process together with its parent,
takes all the file handles it may have, lowers its priority, and becomes the command. It is a process of its
own because such settings between fork and exec are not safe in a program with threads.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``."""


def become(parent: int, nice: int, command: list[str]) -> None:
    """Settle limits and turn into the command; never returns.

    The signal is tied to the thread of the agent that starts the helper, which is the one that samples. It is
    lost if the command has file capabilities; then the closed pipe ends it at its next word.
    """
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the agent ended before its helper had begun")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    os.execvp(command[0], command)


if __name__ == "__main__":
    become(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
