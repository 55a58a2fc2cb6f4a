"""Competitors for the disk."""

from __future__ import annotations

import argparse
import mmap
import os
import random
import threading
import time
from pathlib import Path
from typing import NoReturn

CHUNK_BYTES = 8 << 20
READ_BYTES = 1 << 20
SYNC_SPAN_BYTES = 8 << 20
BLOCK_BYTES = 4096


def write(options: argparse.Namespace) -> None:
    """Write a span of a file over and over through the page cache, and wait for the disk at the end.

    Each chunk's writeback is begun at once and waited for one span later, so that dirty pages and writeback
    stay high. The pace spreads the budget over the time, and what is not written in time is not written.
    """
    chunk = random.Random(0).randbytes(CHUNK_BYTES)
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


def scan(options: argparse.Namespace) -> None:
    """Read the files of a folder past the page cache, in any order, several at a time."""
    files = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in sorted(Path(options.file).glob("batch-*"))]

    def read(seed: int) -> NoReturn:
        order = random.Random(seed)
        view = memoryview(mmap.mmap(-1, READ_BYTES))  # page aligned, as O_DIRECT wants it
        while True:
            os.preadv(files[order.randrange(len(files))], [view], 0)

    for number in range(options.count):
        threading.Thread(target=read, args=(number,), daemon=True).start()


def sync(options: argparse.Namespace) -> NoReturn:
    """Write single blocks of a file and wait for the disk after each."""
    descriptor = os.open(f"{options.file}-{os.getpid()}", os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, SYNC_SPAN_BYTES)
    order = random.Random(os.getpid())
    block = order.randbytes(BLOCK_BYTES)
    while True:
        os.pwrite(descriptor, block, order.randrange(SYNC_SPAN_BYTES // BLOCK_BYTES) * BLOCK_BYTES)
        os.fdatasync(descriptor)
