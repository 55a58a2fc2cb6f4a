"""Measuring in a process of its own, on a store to be thrown away: a folder, or an S3 server on loopback."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import psutil

from reveal_core.errors import UnavailableError
from tasks.memory import peak_memory_bytes

LOOK_S = 0.2
"""How often the memory of a measured process is looked at; a look costs it nothing."""
RESULTS = ("scores", "incidents", "ledger", "regimes", "reports", "alerts")
"""What a run leaves in a store; taken away so that the next one begins as this one did."""
BUCKET = "reveal-bench"


def watched(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return what a function returns, called in a process of its own, and the most memory this took, MiB.

    The memory is the resident set of the process and all below it, added up: what they share counts more than
    once.

    Raises
    ------
    UnavailableError
        If the process was killed; what the function raises comes through.
    """
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(there, function, arguments))
    process.start()
    there.close()
    peak = 0
    try:
        tree = psutil.Process(process.pid)
        peak = _resident(tree)
        while not here.poll(LOOK_S):
            peak = max(peak, _resident(tree))
        done, result, own = here.recv()
        peak = max(peak, own)  # of one that ended before it was looked at
    except EOFError:
        done, result = False, UnavailableError("the measured process was killed before it was done")
    except BaseException:
        process.terminate()
        raise
    finally:
        here.close()
        process.join()
    if not done:
        raise result
    return result, round(peak / 2**20, 1)


def _answer(there: Connection, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    # What libraries print must not get into the document of the command that waits.
    with redirect_stdout(sys.stderr):
        try:
            there.send((True, function(*arguments), peak_memory_bytes()))
        except Exception as error:  # noqa: BLE001  raised again by who waits for it
            there.send((False, error, peak_memory_bytes()))


def _resident(tree: psutil.Process) -> int:
    """Return the resident memory of a process and all below it; one that has just ended has none."""
    total = 0
    try:
        processes = [tree, *tree.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def forget_results(store: str) -> None:
    """Take away what runs left in a store, but not its telemetry."""
    from storage.store import Store

    backend = Store(store).backend
    for area in RESULTS:
        path = backend.path(area)
        if backend.fs.exists(path):
            backend.fs.rm(path, recursive=True)
    backend.fs.invalidate_cache()


@contextmanager
def environment(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set variables of this process, and of those that it starts, for a while; None takes one away."""
    before = {name: os.environ.get(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def _set(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextmanager
def s3_store() -> Iterator[str]:
    """Run an S3 server on loopback, for this process and its children; yield the root of an empty store.

    Raises
    ------
    UnavailableError
        If the server or the file system is not installed.
    """
    try:
        import s3fs
        from moto.server import ThreadedMotoServer
    except ImportError as error:
        raise UnavailableError(
            f"--s3 needs a server and a client, and {error.name} is not installed: "
            "pip install 'moto[server]' s3fs"
        ) from error
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would tell of every request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        access = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        with environment(access):
            s3fs.S3FileSystem(endpoint_url=access["AWS_ENDPOINT_URL"], skip_instance_cache=True).mkdir(BUCKET)
            yield f"s3://{BUCKET}"
    finally:
        server.stop()


def remove_store(store: str) -> None:
    """Take away a store of the bench."""
    from storage.store import Store

    backend = Store(store).backend
    if backend.local:
        shutil.rmtree(backend.root)
    else:
        for name in backend.fs.ls(backend.root, detail=False):
            backend.fs.rm(name, recursive=True)
