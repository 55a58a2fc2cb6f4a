"""``reveal deploy``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from flows import options
from flows.deploying import FILE, deploy
from flows.environment import prefect_api_url
from flows.output import emit
from reveal_core.errors import UnavailableError


def deploy_command(
    pool: Annotated[
        str, typer.Option("--pool", metavar="NAME", help="The work pool, made if there is none.")
    ] = "reveal",
    file: Annotated[
        Path, typer.Option("--file", metavar="FILE", help="What to deploy.", show_default="Reveal's own")
    ] = FILE,
    json: options.Json = False,
) -> None:
    """Put the flows with their schedules on the Prefect server that is configured."""
    url = prefect_api_url()
    if url is None:
        raise UnavailableError("no Prefect server is configured: set PREFECT_API_URL")
    from flows.dispatch import check_prefect

    check_prefect(url)
    found = deploy({**os.environ, "PREFECT_API_URL": url}, folder=Path.cwd(), pool=pool, file=file)

    def show(console: Console) -> None:
        for one in found:
            console.print(f"{one['name']}: {', '.join(one['schedules']) or 'on demand'}", markup=False)
        console.print(f"A worker runs them: prefect worker start --pool {pool}", markup=False)

    emit({"pool": pool, "deployments": found}, as_json=json, text=show)
