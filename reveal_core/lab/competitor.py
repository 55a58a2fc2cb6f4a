"""Processes that compete with the workload, run as ``python -m reveal_core.lab.competitor KIND``.

They say ``ready``, begin when told ``go``, and end with their standard input.
"""

from __future__ import annotations

import argparse
import ctypes
import mmap
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np

from reveal_core.lab.namespaces import enter_namespace
from reveal_core.lab.processes import leave_with_parent

_PR_SET_PDEATHSIG = 1
_PAGE = mmap.PAGESIZE
TOUCH_BYTES = 64 << 20
STREAM_BYTES = 64 << 20
CHUNK_BYTES = 8 << 20
PACKETS_PER_BURST = 250
BURST_PERIOD_S = 0.01


def spin(_: argparse.Namespace) -> NoReturn:
    """Keep a core busy."""
    value = 1
    while True:
        value = (value * 1103515245 + 12345) % 2147483648


def touch(_: argparse.Namespace) -> NoReturn:
    """Touch each page of a mapping and give all of them back, again and again: a page fault for each page."""
    memory = mmap.mmap(-1, TOUCH_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)  # or the kernel may serve 512 pages with one fault
    pages = np.frombuffer(memory, np.uint8)[::_PAGE]
    while True:
        pages[:] = 1
        memory.madvise(mmap.MADV_DONTNEED)


def reread(options: argparse.Namespace) -> NoReturn:
    """Read a file of holes over and over, by calls and through a mapping: page cache without a disk."""
    descriptor = os.open(options.file, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(descriptor, options.bytes)
    mapping = mmap.mmap(descriptor, options.bytes, prot=mmap.PROT_READ)
    pages = np.frombuffer(mapping, np.uint8)[::_PAGE]
    buffer = bytearray(1 << 20)
    half = options.bytes // 2
    while True:
        for offset in range(0, half, len(buffer)):
            os.preadv(descriptor, [buffer], offset)
        pages[half // _PAGE :].max()


def stream(_: argparse.Namespace) -> NoReturn:
    """Copy an array far larger than the caches back and forth."""
    one = np.ones(STREAM_BYTES // 8)
    two = np.ones(STREAM_BYTES // 8)
    while True:
        np.copyto(two, one)
        np.copyto(one, two)


def write(options: argparse.Namespace) -> None:
    """Write a span of a file over and over through the page cache, and wait for the disk at the end.

    Each chunk's writeback is begun at once and waited for one span later, so that dirty pages and writeback
    stay high. The pace spreads the budget over the time, and what is not written in time is not written.
    """
    chunk = np.random.default_rng(0).bytes(CHUNK_BYTES)
    descriptor = os.open(options.file, os.O_RDWR | os.O_CREAT, 0o600)
    start = time.monotonic()
    written = 0
    while written < options.bytes and time.monotonic() - start < options.seconds:
        os.pwrite(descriptor, chunk, written % options.span)
        written += len(chunk)
        if written % (options.span // 2) < len(chunk):
            os.fdatasync(descriptor)
        ahead = written / options.bytes * options.seconds - (time.monotonic() - start)
        if ahead > 0:
            time.sleep(ahead)
    os.fdatasync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.ftruncate(descriptor, 0)


def packets(options: argparse.Namespace) -> NoReturn:
    """Send bursts of small datagrams to the other side, and read those that come from there."""
    inbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    inbox.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    inbox.bind((options.listen, options.port))

    def drain() -> None:
        buffer = bytearray(256)
        while True:
            inbox.recv_into(buffer)

    threading.Thread(target=drain, daemon=True).start()
    outbox = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    outbox.connect((options.send, options.port))
    payload = bytes(64)
    while True:
        for _ in range(PACKETS_PER_BURST):
            try:
                outbox.send(payload)
            except ConnectionRefusedError:
                continue  # the other side does not listen yet, or any more
        time.sleep(BURST_PERIOD_S)


def kinds() -> dict[str, Callable[[argparse.Namespace], None]]:
    """Return what a competitor can do."""
    return {
        "spin": spin,
        "touch": touch,
        "reread": reread,
        "stream": stream,
        "write": write,
        "packets": packets,
    }


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
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.close(go_end)
            if os.getppid() != first:
                os._exit(0)  # the first has gone already
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
    parser.add_argument("kind", choices=sorted(kinds()))
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
    options = parser.parse_args()
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
    kinds()[options.kind](options)
    threading.Event().wait()  # a competitor with an end waits for its parent's


if __name__ == "__main__":
    main()
