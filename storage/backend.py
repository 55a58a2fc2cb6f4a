"""A root URL opened through fsspec: whole files listed, read and written atomically, with one-line errors."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.registry import known_implementations
from fsspec.spec import AbstractFileSystem

from reveal_core.errors import UnavailableError

T = TypeVar("T")
R = TypeVar("R")

OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oci", "oss", "memory"})
"""Schemes whose single put is atomic: the object is there whole or not at all."""

STALE_S = 3600.0
"""Age in seconds after which a temporary file is the leftover of a writer that died."""

TEMPORARY = ".tmp"
_SWEPT_S = 60.0
"""Between two looks for the leftovers of dead writers."""

_KINDS = {"html": "text/html; charset=utf-8", "json": "application/json"}
_KIND_OPTIONS = {"s3": "ContentType", "s3a": "ContentType", "gs": "content_type", "gcs": "content_type"}
_PARALLEL = 16
_PLACINGS = 10
_LONGEST_REASON = 300
_REMOTE_PACKAGES = frozenset(
    {
        "botocore",
        "aiobotocore",
        "s3fs",
        "aiohttp",
        "gcsfs",
        "google",
        "adlfs",
        "azure",
        "fsspec",
        "ocifs",
        "ossfs",
    }
)


def _is_remote_error(error: Exception) -> bool:
    """Tell whether an error is the store's (network, credentials, permission) and not a mistake of ours."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _REMOTE_PACKAGES


def _reason(error: BaseException) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_REASON else line[:_LONGEST_REASON] + "…"


def _missing_package(scheme: str, error: ImportError) -> str:
    """Return the package that a scheme's file system comes from."""
    package = str(known_implementations[scheme]["class"]).partition(".")[0]
    if package == "fsspec" and isinstance(error.__cause__, ImportError) and error.__cause__.name:
        return error.__cause__.name
    return package


def is_stale(name: str, now: float) -> bool:
    """Tell by its name whether a temporary file is what a dead writer left; ``now`` in s since 1970."""
    born = name.partition("-")[0]
    return born.isdigit() and now - int(born) > STALE_S


class Backend:
    """Whole files below one root.

    Parameters
    ----------
    url
        A path, or a URL of any scheme that fsspec knows.
    storage_options
        Passed to the fsspec file system (endpoint, credentials); standard variables such as
        ``AWS_ENDPOINT_URL`` and fsspec's own configuration work without.

    Raises
    ------
    UnavailableError
        If the scheme is not known, or needs a package that is not installed.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self.shown = re.sub(r"//[^/@]+@", "//***@", url)
        if not url.strip():
            raise UnavailableError("store: the URL is empty")
        scheme = fsspec.utils.get_protocol(url)
        target = os.path.expanduser(url) if scheme == "file" and "://" not in url else url
        try:
            with self.errors("open it"):
                self.fs, root = fsspec.core.url_to_fs(target, **dict(storage_options or {}))
        except ImportError as error:
            package = _missing_package(scheme, error)
            raise UnavailableError(
                f"store {self.shown}: {scheme}:// needs the Python package {package}, which is not installed"
            ) from error
        except (ValueError, FileNotFoundError) as error:
            known = scheme in fsspec.available_protocols()
            reason = _reason(error) if known else f"no file system is known for {scheme}://"
            raise UnavailableError(f"store {self.shown}: {reason}") from error
        self.local = isinstance(self.fs, LocalFileSystem)
        protocols = {self.fs.protocol} if isinstance(self.fs.protocol, str) else set(self.fs.protocol)
        self.single_put = bool(protocols & OBJECT_STORES)
        self.root: str = root.rstrip("/")
        if not self.root.partition("/")[0] and self.single_put and "memory" not in protocols:
            raise UnavailableError(f"store {self.shown}: the URL names no bucket")
        self._kind_option = next((_KIND_OPTIONS[p] for p in protocols if p in _KIND_OPTIONS), "")
        self._swept: dict[str, float] = {}
        self.url = (self.root or "/") if self.local else url if url.endswith("://") else url.rstrip("/")

    @contextlib.contextmanager
    def errors(self, action: str) -> Iterator[None]:
        """Turn what the store raises into one line; ``FileNotFoundError`` passes, for callers to judge."""
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            if not _is_remote_error(error):
                raise
            raise UnavailableError(f"store {self.shown}: cannot {action}: {_reason(error)}") from error

    def path(self, key: str) -> str:
        """Return a key's path in the file system."""
        return f"{self.root}/{key}"

    def address(self, key: str) -> str:
        """Return what a person opens: a local path, or a URL."""
        return self.path(key) if self.local else str(self.fs.unstrip_protocol(self.path(key)))

    def each(self, function: Callable[[T], R], items: Sequence[T]) -> list[R]:
        """Return the function's results in order; side by side where every call waits for a network."""
        if self.local or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(_PARALLEL, len(items))) as pool:
            return list(pool.map(function, items))

    def names(self, key: str) -> list[str]:
        """Return the names in a folder, sorted, hidden ones left out; none if there is no such folder."""
        try:
            with self.errors(f"list {key or 'it'}"):
                # Others write beside us: a listing that fsspec has cached would hide what they wrote.
                self.fs.invalidate_cache()
                found = self.fs.ls(self.path(key), detail=False)
        except FileNotFoundError:
            return []
        names = {
            str(path).rstrip("/").rpartition("/")[2]
            for path in found
            if str(path).rstrip("/") != self.path(key)
        }
        return sorted(name for name in names if name and not name.startswith("."))

    def read(self, key: str) -> bytes | None:
        """Return a file's bytes; None if it is not there."""
        try:
            with self.errors(f"read {key}"):
                return bytes(self.fs.cat_file(self.path(key)))
        except FileNotFoundError:
            return None

    def remove(self, key: str) -> None:
        """Remove a file; one that is gone already is no error."""
        with contextlib.suppress(FileNotFoundError), self.errors(f"remove {key}"):
            self.fs.rm_file(self.path(key))

    def write(self, key: str, data: bytes) -> None:
        """Put a whole file under a key, replacing what is there.

        The file is there whole or not at all, also when the writer is killed: an object store takes one put;
        elsewhere a temporary file (``<area>/.tmp``) is written, on a local disk synced, and renamed.

        Raises
        ------
        UnavailableError
            If the store cannot be written: the line names the key and the reason.
        """
        try:
            with self.errors(f"write {key}"):
                if self.single_put:
                    self.fs.pipe_file(self.path(key), data, **self._kind(key))
                else:
                    self._write_by_rename(key, data)
        except FileNotFoundError as error:
            raise UnavailableError(f"store {self.shown}: cannot write {key}: {_reason(error)}") from error

    def _kind(self, key: str) -> dict[str, str]:
        """Return what an object store is told of a file: a browser shows a report that is called a page."""
        kind = _KINDS.get(key.rpartition(".")[2])
        return {self._kind_option: kind} if kind and self._kind_option else {}

    def _write_by_rename(self, key: str, data: bytes) -> None:
        if not self.local and type(self.fs).mv is AbstractFileSystem.mv:
            raise UnavailableError(f"store {self.shown}: this kind of store cannot be written atomically")
        folder = self.path(f"{key.partition('/')[0]}/{TEMPORARY}")
        self.fs.makedirs(folder, exist_ok=True)
        # Only this one folder ever holds unfinished files, so one look finds what dead writers left behind; a
        # look now and then, for whoever writes the results of a thousand hosts.
        if time.monotonic() - self._swept.get(folder, -_SWEPT_S) >= _SWEPT_S:
            self._swept[folder] = time.monotonic()
            self._sweep(folder)
        temporary = f"{folder}/{int(time.time())}-{os.getpid()}-{secrets.token_hex(6)}"
        target = self.path(key)
        try:
            if self.local:
                _write_synced(temporary, data)
                _place(temporary, target)
            else:
                self.fs.makedirs(target.rpartition("/")[0], exist_ok=True)
                self.fs.pipe_file(temporary, data)
                self._rename(temporary, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(temporary)
            raise

    def _rename(self, temporary: str, target: str) -> None:
        try:
            self.fs.mv(temporary, target)
        except OSError:
            # Some file systems do not rename onto a file that exists.
            if not self.fs.exists(target):
                raise
            self.fs.rm_file(target)
            self.fs.mv(temporary, target)

    def _sweep(self, folder: str) -> None:
        now = time.time()
        for path in self.fs.ls(folder, detail=False):
            if is_stale(str(path).rpartition("/")[2], now):
                # Another writer may be sweeping too, and another user's leftover is not ours to remove.
                with contextlib.suppress(FileNotFoundError, PermissionError):
                    self.fs.rm_file(path)

    def check(self, write: bool = False) -> None:
        """Make sure that the root can be reached and, with ``write``, written.

        Raises
        ------
        UnavailableError
            If not; one line with the reason.
        """
        if write:
            probe = f"telemetry/{TEMPORARY}/0-check-{secrets.token_hex(6)}"
            self.write(probe, b"")
            # A right to write without one to delete is enough for an agent.
            with contextlib.suppress(PermissionError), contextlib.suppress(FileNotFoundError):
                self.fs.rm_file(self.path(probe))
        try:
            with self.errors("reach it"):
                self.fs.invalidate_cache()
                if self.local and not os.path.isdir(self.root or "/"):
                    problem = "is not a folder" if os.path.lexists(self.root) else "does not exist"
                    raise UnavailableError(f"store {self.shown}: {problem}")
                self.fs.ls(self.root or "/", detail=False)
        except FileNotFoundError as error:
            bucket = self.root.partition("/")[0]
            if not self.single_put or (bucket and not self._bucket_exists(bucket)):
                raise UnavailableError(f"store {self.shown}: does not exist") from error

    def _bucket_exists(self, bucket: str) -> bool:
        with self.errors("reach it"):
            return bool(self.fs.exists(bucket))


def _write_synced(path: str, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _place(temporary: str, target: str) -> None:
    """Rename a file to where it belongs, whose folder is made if it is missing."""
    folder = os.path.dirname(target)
    for _ in range(_PLACINGS):
        try:
            os.makedirs(folder, exist_ok=True)
            os.replace(temporary, target)
        except FileNotFoundError:
            # Maintenance removes folders that are empty, as this one was until now.
            continue
        with contextlib.suppress(FileNotFoundError):
            _sync_folder(folder)
        return
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
