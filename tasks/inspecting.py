"""What ``reveal doctor`` and ``reveal channels`` look at: sources, store, MLflow and Prefect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from reveal_core.collect.agent import default_host, open_sources
from reveal_core.errors import UnavailableError, UsageError
from storage.store import Store
from tasks.tracking import Tracking, check_server, without_secrets


def list_channels(root: str, tick_ms: int) -> list[dict[str, Any]]:
    """Return every channel that this machine has, as ``reveal channels --json`` prints it.

    Raises
    ------
    UsageError
        If ``root`` is no folder.
    """
    _check_root(root)
    with closing(open_sources(Path(root), tick_ms)) as collector:
        return [channel.to_dict() for channel in collector.channels]


def _check_root(root: str) -> None:
    if not Path(root).is_dir():
        raise UsageError(f"--root {root} is no folder")


def inspect_machine(
    *,
    root: str,
    tick_ms: int,
    store: str,
    tracking_uri: str,
    prefect_url: str | None,
    check_prefect: Callable[[str], None],
) -> dict[str, Any]:
    """Return what works on this machine and, of what does not, why.

    Returns
    -------
    dict
        ``host``, ``sources`` (each ``source``, ``available``, ``reason``, ``channels``), ``channels`` (their
        number), and ``store``, ``mlflow``, ``prefect``, each with ``available``, ``reason`` and an address.

    Raises
    ------
    UsageError
        If ``root`` is no folder.
    """
    _check_root(root)
    with closing(open_sources(Path(root), tick_ms)) as collector:
        channels = len(collector.channels)
        sources = [
            {
                "source": status.source,
                "available": status.available,
                "reason": status.reason or "; ".join(status.notes),
                "channels": status.channels,
            }
            for status in collector.sources
        ]
    return {
        "host": default_host(),
        "sources": sources,
        "channels": channels,
        "store": {"url": store, **_works(lambda: _look_at_store(store))},
        "mlflow": {"uri": without_secrets(tracking_uri), **_works(lambda: _look_at_mlflow(tracking_uri))},
        "prefect": {
            "api": without_secrets(prefect_url) if prefect_url else None,
            **_works(lambda: _look_at_prefect(prefect_url, check_prefect)),
        },
    }


def _works(look: Callable[[], str]) -> dict[str, Any]:
    try:
        return {"available": True, "reason": look()}
    except UnavailableError as error:
        return {"available": False, "reason": str(error)}


def _look_at_store(url: str) -> str:
    store = Store(url)
    local = Path(store.url)
    if "://" not in store.url and not local.exists():
        if not _nearest(local).is_dir():
            raise UnavailableError(f"store {url}: {_nearest(local)} is no folder")
        return "is made by the first collect"
    store.check(write=True)
    hosts = store.hosts()
    return f"holds telemetry of {len(hosts)} hosts" if len(hosts) != 1 else f"holds telemetry of {hosts[0]}"


def _look_at_mlflow(uri: str) -> str:
    """Look without importing MLflow, which takes seconds, and without creating a database."""
    check_server(uri)
    folder = Tracking(uri).local_folder
    if folder is None:
        return "answers" if uri.startswith("http") else "not looked at: neither a server nor a local file"
    database = Path(uri.removeprefix("sqlite:///"))
    if not database.exists():
        return "local file, is made by the first fit"
    try:
        with database.open("r+b") as file:
            head = file.read(16)
    except OSError as error:
        raise UnavailableError(f"MLflow at {uri}: {error.strerror}") from error
    if not head.startswith(b"SQLite format 3"):
        raise UnavailableError(f"MLflow at {uri}: {database} is no SQLite file")
    return "local file"


def _look_at_prefect(url: str | None, check: Callable[[str], None]) -> str:
    if url is None:
        return "no API configured: commands run directly, --flow starts an embedded server"
    check(url)
    return "answers"


def _nearest(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
