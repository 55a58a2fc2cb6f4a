"""The workload's files: mini-batches read past the page cache, and checkpoints written to disk."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from reveal_core.lab.model import FEATURES, ROWS, Floats

BATCHES = 96
"""Number of mini-batch files."""
BATCH_BYTES = ROWS * FEATURES * 4
_CHUNK = 1 << 20


def write_batches(directory: Path, seed: int) -> None:
    """Write the mini-batch files, `BATCHES` of 1 MiB, and drop them from the page cache.

    Raises
    ------
    OSError
        If the directory cannot be written or is full.
    """
    rng = np.random.default_rng(seed)
    for index in range(BATCHES):
        data = rng.standard_normal((ROWS, FEATURES), dtype=np.float32).tobytes()
        with (directory / f"batch-{index:03d}").open("wb") as file:
            file.write(data)
            file.flush()
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class BatchReader:
    """Reads mini-batches into one buffer, from the disk each time.

    Parameters
    ----------
    directory
        Where `write_batches` put them.

    Attributes
    ----------
    batch
        The last mini-batch read, shape ``(ROWS, FEATURES)``.
    """

    def __init__(self, directory: Path) -> None:
        self._buffer = mmap.mmap(-1, BATCH_BYTES)  # page aligned, as O_DIRECT wants it
        self.batch: Floats = np.frombuffer(self._buffer, np.float32).reshape(ROWS, FEATURES)
        self._files: list[int] = []
        for index in range(BATCHES):
            path = directory / f"batch-{index:03d}"
            try:
                self._files.append(os.open(path, os.O_RDONLY | os.O_DIRECT))
            except OSError:  # a file system without direct reads; dropping the pages below does as well
                self._files.append(os.open(path, os.O_RDONLY))

    def read(self, index: int) -> Floats:
        """Read a mini-batch, modulo `BATCHES`, and return it in the buffer that is reused."""
        descriptor = self._files[index % BATCHES]
        view = memoryview(self._buffer)
        done = 0
        while done < BATCH_BYTES:
            count = os.preadv(descriptor, [view[done:]], done)
            if count == 0:
                raise OSError(f"mini-batch {index % BATCHES} ends after {done} bytes")
            done += count
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        return self.batch


class CheckpointWriter:
    """Writes checkpoints in turn to two files of a fixed size, with fsync, and drops their pages.

    Parameters
    ----------
    directory
        Where the two files go; they are allocated at once, so that the disk's free space stays as it is.
    size
        Bytes of a checkpoint.
    """

    def __init__(self, directory: Path, size: int) -> None:
        self._size = size
        self._files = [os.open(directory / f"checkpoint-{n}", os.O_RDWR | os.O_CREAT, 0o600) for n in (0, 1)]
        self._turn = 0
        filler = np.random.default_rng(1).bytes(_CHUNK)
        for descriptor in self._files:
            for offset in range(0, size, _CHUNK):
                os.pwrite(descriptor, filler, offset)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def write(self, state: list[Floats]) -> None:
        """Write the state, repeated until a checkpoint is full, and wait until the disk has it."""
        descriptor = self._files[self._turn]
        self._turn = 1 - self._turn
        offset = 0
        while offset < self._size:
            for values in state:
                data = values.data.cast("B")[: self._size - offset]
                offset += os.pwrite(descriptor, data, offset) if data else 0
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
