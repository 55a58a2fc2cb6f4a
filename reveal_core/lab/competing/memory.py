"""Competitors for memory: its pages, its bandwidth and its order."""

from __future__ import annotations

import argparse
import mmap
import os
import threading
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

PAGE = mmap.PAGESIZE
TOUCH_BYTES = 64 << 20
STREAM_BYTES = 64 << 20
COMPACT = Path("/proc/sys/vm/compact_memory")
LEAK_STEP_S = 0.05


def _pages(size: int) -> tuple[mmap.mmap, NDArray[np.uint8]]:
    """Return memory of one's own, and a view of the first byte of each of its pages."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)  # or the kernel may serve 512 pages with one fault
    return memory, np.frombuffer(memory, np.uint8)[::PAGE]


def touch(_: argparse.Namespace) -> NoReturn:
    """Touch each page of a mapping and give all of them back, again and again: a page fault for each page."""
    memory, pages = _pages(TOUCH_BYTES)
    while True:
        pages[:] = 1
        memory.madvise(mmap.MADV_DONTNEED)


def reread(options: argparse.Namespace) -> NoReturn:
    """Read a file of holes over and over, by calls and through a mapping: page cache without a disk."""
    descriptor = os.open(options.file, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(descriptor, options.bytes)
    mapping = mmap.mmap(descriptor, options.bytes, prot=mmap.PROT_READ)
    pages = np.frombuffer(mapping, np.uint8)[::PAGE]
    buffer = bytearray(1 << 20)
    half = options.bytes // 2
    while True:
        for offset in range(0, half, len(buffer)):
            os.preadv(descriptor, [buffer], offset)
        pages[half // PAGE :].max()


def stream(_: argparse.Namespace) -> NoReturn:
    """Copy an array far larger than the caches back and forth."""
    one = np.ones(STREAM_BYTES // 8)
    two = np.ones(STREAM_BYTES // 8)
    while True:
        np.copyto(two, one)
        np.copyto(one, two)


def leak(options: argparse.Namespace) -> None:
    """Take memory at a rate, up to a bound, and keep it."""
    _memory, pages = _pages(options.bytes)
    began = time.monotonic()
    taken = 0
    while taken < len(pages):
        due = min(len(pages), int((time.monotonic() - began) * options.rate / PAGE))
        pages[taken:due] = 1
        taken = due
        time.sleep(LEAK_STEP_S)
    threading.Event().wait()


def compact(options: argparse.Namespace) -> NoReturn:
    """Leave every second page of a mapping in use, and have the kernel move pages together; in turns."""
    memory, pages = _pages(TOUCH_BYTES)
    while True:
        pages[:] = 1
        for number in range(0, len(pages), 2):
            memory.madvise(mmap.MADV_DONTNEED, number * PAGE, PAGE)
        COMPACT.write_text("1", encoding="ascii")
        time.sleep(1 / options.rate)
