"""Running a pipeline: directly, or as a Prefect flow where one is asked for or an API is configured."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from flows.environment import prefect_api_url
from flows.output import Say, progress
from flows.settings import load_settings
from reveal_core.errors import UnavailableError
from storage.store import Store
from tasks.pool import cores
from tasks.runner import DirectRunner
from tasks.tracking import check_server, without_secrets

HEALTH_TIMEOUT_S = 5.0


def as_flow(flow: bool | None) -> bool:
    """Tell whether a command runs as a flow: as asked, else if a Prefect API is configured.

    An embedded server takes 13 to 27 s to start, which a person who asked for no orchestrator should not wait
    for.
    """
    return prefect_api_url() is not None if flow is None else flow


def run_pipeline(name: str, title: str, /, *, flow: bool | None, **arguments: Any) -> Any:
    """Run a pipeline of `flows.pipelines`, or the flow of the same name, with progress on a terminal.

    Parameters
    ----------
    name
        Name of the function in `flows.pipelines` and in `flows.prefect_flows`.
    title
        What the person is waiting for.
    flow
        True for a flow, False for a direct call, None for a flow only where a Prefect API is configured.
    arguments
        As both functions take them.

    Raises
    ------
    UnavailableError
        If the configured Prefect server does not answer, besides what the pipeline raises.
    """
    with progress(title) as say:
        return call_pipeline(name, title, say, flow=as_flow(flow), **arguments)


def call_pipeline(name: str, title: str, say: Say, /, *, flow: bool, **arguments: Any) -> Any:
    """Run a pipeline or the flow of the same name; as `run_pipeline`, with somebody else's progress."""
    if not flow:
        from flows import pipelines

        runner = DirectRunner(say, load_settings().fleet.workers or cores())
        return getattr(pipelines, name)(runner, **arguments)
    _check_places(name, arguments)
    url = prefect_api_url()
    if url is None:
        say(f"{title} (starting an embedded Prefect server)")
        os.environ["PREFECT_SERVER_EPHEMERAL_ENABLED"] = "true"
    else:
        check_prefect(url)
    from flows import prefect_flows

    say(title)
    return getattr(prefect_flows, name)(**arguments)


def _check_places(name: str, arguments: Mapping[str, Any]) -> None:
    """Look whether store and tracker are there before a flow does, which retries them for half a minute."""
    if name != "collect_telemetry":
        Store(arguments["store"]).check()
    if uri := arguments.get("tracking_uri"):
        check_server(uri)


def check_prefect(url: str) -> None:
    """Raise UnavailableError if a Prefect server does not answer; Prefect would retry for half a minute."""
    try:
        urllib.request.urlopen(f"{url.rstrip('/')}/health", timeout=HEALTH_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return  # it answers; a server that asks for a key answers so
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UnavailableError(f"Prefect at {without_secrets(url)} cannot be reached: {reason}") from error
