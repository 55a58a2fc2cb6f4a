"""``reveal deploy``: the flows with their schedules on the Prefect server that is configured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reveal_core.errors import UnavailableError, UsageError

FILE = Path(__file__).resolve().parents[1] / "deployments" / "prefect.yaml"
TIMEOUT_S = 300.0


def declared(file: Path = FILE) -> list[dict[str, Any]]:
    """Return the deployments that a file declares.

    Raises
    ------
    UsageError
        If it is no such file.
    """
    import yaml

    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict) or not isinstance(found.get("deployments"), list):
        raise UsageError(f"{file} declares no deployments")
    return list(found["deployments"])


def deploy(
    environment: Mapping[str, str], *, folder: Path, pool: str, file: Path = FILE
) -> list[dict[str, Any]]:
    """Make the work pool if there is none, and every deployment; what is there already is brought up to date.

    Parameters
    ----------
    environment
        Variables, with ``PREFECT_API_URL``.
    folder
        Where Prefect runs: it looks for files beside it.
    pool
        Name of the work pool, of type process.
    file
        What declares the deployments.

    Returns
    -------
    list of dict
        ``name`` and ``schedules`` of each deployment.

    Raises
    ------
    UsageError
        If the file declares none.
    UnavailableError
        If Prefect does not take them; the line is its last.
    """
    found = declared(file)
    _prefect(["work-pool", "create", pool, "--type", "process", "--overwrite"], environment, folder)
    _prefect(["--no-prompt", "deploy", "--all", "--prefect-file", str(file)], environment, folder)
    return [
        {
            "name": f"{_flow_name(one['entrypoint'])}/{one['name']}",
            "schedules": [_words(schedule) for schedule in one.get("schedules", ())],
        }
        for one in found
    ]


def _flow_name(entrypoint: str) -> str:
    return entrypoint.rpartition(".")[2].replace("_", "-")


def _words(schedule: Mapping[str, Any]) -> str:
    if "interval" in schedule:
        return f"every {schedule['interval']:g} s"
    return f"{schedule['cron']} {schedule.get('timezone', 'UTC')}"


def _prefect(arguments: list[str], environment: Mapping[str, str], folder: Path) -> None:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *arguments],
            env=dict(environment),
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"prefect {arguments[0]} did not end within {TIMEOUT_S:.0f} s") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
        raise UnavailableError(f"prefect {' '.join(arguments[:2])} failed: {lines[-1].strip()}")
