"""What lies in a store as files and folders, for those who keep it in order."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from reveal_core.errors import UnavailableError
from storage.backend import Backend

_TIMES = ("LastModified", "last_modified", "mtime", "created")


@dataclass(frozen=True, slots=True, order=True)
class StoredFile:
    """A file's key, its size in bytes, and when it was written by the store's clock, UTC."""

    key: str
    bytes: int
    written: datetime = field(compare=False)


class ReadOnlyBackend(Backend):
    """A store in which nothing is changed: what a dry run works on, so that no mistake of ours can."""

    def write(self, key: str, data: bytes) -> None:
        """Refuse."""
        raise UnavailableError(f"store {self.shown}: {key} is not written in a dry run")

    def remove(self, key: str) -> None:
        """Refuse."""
        raise UnavailableError(f"store {self.shown}: {key} is not removed in a dry run")


def files_below(backend: Backend, key: str) -> list[StoredFile]:
    """Return every file below a folder, hidden ones left out, sorted by key; none if there is no such folder.

    Raises
    ------
    UnavailableError
        If a folder cannot be listed.
    """
    if backend.local:
        with backend.errors(f"list {key}"):
            found = list(_walk(backend.path(key)))
    else:
        try:
            with backend.errors(f"list {key}"):
                backend.fs.invalidate_cache()
                # One listing of all that begins so, where a folder after the other would take an hour.
                entries = backend.fs.find(backend.path(key), detail=True)
                found = []
                for path, info in entries.items():
                    with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                        found.append((str(path), *_told(backend, str(path), info)))
        except FileNotFoundError:
            return []
    root, below = f"{backend.root}/", f"{backend.path(key)}/"
    return sorted(
        StoredFile(path.removeprefix(root), size, written)
        for path, size, written in found
        if path.startswith(below) and "/." not in path[len(below) - 1 :]
    )


def _told(backend: Backend, path: str, info: Mapping[str, Any]) -> tuple[int, datetime]:
    """Return size and time of a file as its store tells them, each kind of store by another name."""
    size = int(info.get("size") or 0)
    for name in _TIMES:
        time = info.get(name)
        if isinstance(time, int | float):
            return size, datetime.fromtimestamp(time, UTC)
        if isinstance(time, datetime) and time.tzinfo is not None:
            return size, time.astimezone(UTC)
    told: datetime = backend.fs.modified(path)
    return size, told.astimezone(UTC)


def _walk(path: str) -> Iterator[tuple[str, int, datetime]]:
    for entry in _entries(path):
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path)
        else:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat()
                yield entry.path, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC)


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:  # removed since it was listed
        return []


def empty_folders(backend: Backend, key: str, before: datetime) -> list[str]:
    """Return the topmost folders below one that hold no file, unchanged since a time; none in object stores.

    Object stores have no folders.
    """
    if not backend.local:
        return []
    found: list[str] = []
    with backend.errors(f"list {key}"):
        for entry in _entries(backend.path(key)):
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                found += _empty(entry.path, before.timestamp())
    root = f"{backend.root}/"
    return sorted(path.removeprefix(root) for path in found)


def _empty(path: str, before: float) -> list[str]:
    """Return the folder itself if it is empty throughout, else the empty ones within it."""
    entries = _entries(path)
    folders = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    inner = [_empty(folder.path, before) for folder in folders]
    whole = [found for folder, found in zip(folders, inner, strict=True) if found == [folder.path]]
    try:
        old = os.stat(path).st_mtime < before
    except FileNotFoundError:
        return []
    if old and len(whole) == len(entries):
        return [path]
    return [empty for found in inner for empty in found]


def remove_empty(backend: Backend, key: str, *, within: bool = False) -> None:
    """Remove a folder that is empty, and those above that are empty then; ``within``: first those in it.

    Areas of the store stay, and so does every folder that holds a file. Where others write at the same time
    nothing is lost: a writer makes its folder anew.
    """
    if not backend.local:
        return
    with backend.errors(f"remove {key}"):
        for folder, _, _ in os.walk(backend.path(key), topdown=False) if within else ():
            _remove_folder(folder)
        while "/" in key:
            if not _remove_folder(backend.path(key)):
                return
            key = key.rpartition("/")[0]


def _remove_folder(path: str) -> bool:
    """Remove a folder; return False if there is something in it."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True
