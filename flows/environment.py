"""What the orchestrator and the tracker must know before they are imported.

Both read their environment at import, so this runs first, at the edge, and imports neither.
"""

from __future__ import annotations

import logging
import os
import tomllib
import warnings
from pathlib import Path
from typing import Any

from reveal_core.errors import UnavailableError

NOISY_LOGGERS = ("alembic", "mlflow", "httpx", "httpcore", "sqlalchemy", "urllib3", "botocore", "asyncio")
"""Libraries that log their own progress on standard error; ``--verbose`` lets it through."""


def prepare_environment(*, verbose: bool = False) -> None:
    """Set the variables of Prefect and MLflow for a command, without overriding what a person has set.

    Nothing phones home, nothing of theirs reaches standard output, and without ``verbose`` their logs stay
    silent: Prefect would print the traceback of an expected error that the command reports in one line.
    """
    defaults = {
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        # An embedded server takes 13 to 27 s to start; Prefect gives up after 20.
        "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        # A server that is down must cost seconds, not the default of twenty minutes of retries.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    if not verbose:
        # The console handler only: logs still reach a Prefect server and its pages.
        defaults["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] = "CRITICAL"
        defaults["PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW"] = "ignore"
        defaults["MLFLOW_LOGGING_LEVEL"] = "ERROR"
        warnings.filterwarnings("ignore")
    for name, value in defaults.items():
        os.environ.setdefault(name, value)
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.INFO if verbose else logging.ERROR)


def prefect_api_url() -> str | None:
    """Return the address of the Prefect server that a person has configured, or None.

    Looks where Prefect looks (``PREFECT_API_URL``, ``prefect.toml`` in the working directory, the active
    profile), by hand because importing Prefect takes seconds and most commands do not need it.

    Raises
    ------
    UnavailableError
        If a configuration file of Prefect's cannot be read.
    """
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    try:
        project = _read_toml(Path("prefect.toml"))
        if url := project.get("api", {}).get("url"):
            return str(url)
        profiles = _read_toml(Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise UnavailableError(f"Prefect's configuration cannot be read: {error}") from error
    active = os.environ.get("PREFECT_PROFILE") or profiles.get("active")
    url = profiles.get("profiles", {}).get(active, {}).get("PREFECT_API_URL") if active else None
    return str(url) if url else None


def _read_toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
