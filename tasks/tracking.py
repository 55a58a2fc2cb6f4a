"""What MLflow keeps: the run of a fit, its figures, and the registered model that scoring loads by alias."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reveal_core.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHAMPION = "champion"
CHALLENGER = "challenger"
PREVIOUS = "previous"
HEALTH_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class ModelRef:
    """A version of a registered model.

    ``alias`` is the one it was asked for by, or was given; ``""`` where it has none.
    """

    name: str
    version: str
    alias: str
    run_id: str

    @property
    def label(self) -> str:
        """``name@version``, as scores and reports name it."""
        return f"{self.name}@{self.version}"


def without_secrets(uri: str) -> str:
    """Return an address without user and password, fit for a message.

    >>> without_secrets("https://me:secret@mlflow.example:5000/x")
    'https://mlflow.example:5000/x'
    """
    parts = urlsplit(uri)
    if parts.hostname is None or "@" not in parts.netloc:
        return uri
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def check_server(uri: str) -> None:
    """Raise UnavailableError if ``uri`` names a server that does not answer within five seconds.

    MLflow itself would retry for minutes first.
    """
    if urlsplit(uri).scheme not in ("http", "https"):
        return
    request = urllib.request.Request(f"{without_secrets(uri).rstrip('/')}/health")
    try:
        urllib.request.urlopen(request, timeout=HEALTH_TIMEOUT_S).close()
    except urllib.error.HTTPError:
        return  # it answers; whether it lets us in shows at the first call
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise UnavailableError(f"MLflow at {without_secrets(uri)} cannot be reached: {reason}") from error


class Tracking:
    """A tracking store and model registry: a server, or a SQLite file with its artifacts beside it."""

    def __init__(self, uri: str) -> None:
        self.uri = uri

    @property
    def shown(self) -> str:
        """The address as messages show it."""
        return without_secrets(self.uri)

    @cached_property
    def client(self) -> MlflowClient:
        """The client, once the store is known to answer.

        Raises
        ------
        UnavailableError
            If the server does not answer, or the database can be neither opened nor created.
        """
        check_server(self.uri)
        folder = self.local_folder
        with self.expected():
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
            import mlflow

            # The fluent calls that log a model read the process's address, not a client's.
            mlflow.set_tracking_uri(self.uri)
            mlflow.set_registry_uri(self.uri)
            client = mlflow.MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            client.search_experiments(max_results=1)
        return client

    @property
    def local_folder(self) -> Path | None:
        """The folder of a SQLite file, None for every other store."""
        if not self.uri.startswith("sqlite:///"):
            return None
        return Path(self.uri.removeprefix("sqlite:///")).resolve().parent

    @contextmanager
    def expected(self) -> Iterator[None]:
        """Turn what MLflow, its database and the network raise into one line.

        Raises
        ------
        UnavailableError
            In place of MLflow's, SQLAlchemy's, requests' and the operating system's errors.
        """
        from mlflow.exceptions import MlflowException
        from requests.exceptions import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, RequestException, SQLAlchemyError, OSError) as error:
            line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UnavailableError(f"MLflow at {self.shown}: {line}") from error

    def experiment(self, name: str) -> str:
        """Return the id of an experiment, created if it is new.

        Raises
        ------
        UnavailableError
            If the store does not answer.
        """
        client = self.client
        with self.expected():
            found = client.get_experiment_by_name(name)
            if found is None:
                # Without a location MLflow would put artifacts of a SQLite store into the working directory.
                folder = self.local_folder
                location = (folder / "mlflow-artifacts" / name.replace("/", "_")).as_uri() if folder else None
                return str(client.create_experiment(name, artifact_location=location))
        if found.lifecycle_stage != "active":
            raise UsageError(
                f"MLflow experiment {name} at {self.shown} is deleted: restore it or remove it for good"
            )
        return str(found.experiment_id)

    def resolve(self, reference: str) -> ModelRef:
        """Return the version that a reference names.

        Parameters
        ----------
        reference
            ``name``, ``name@alias``, ``name@version`` or ``name/version``, with or without ``models:/``
            before it. A name alone means its champion.

        Raises
        ------
        UsageError
            If there is no such model, alias or version; the line names those that exist.
        UnavailableError
            If the registry does not answer.
        """
        from mlflow.exceptions import MlflowException

        text = reference.removeprefix("models:/").strip("/")
        name, separator, which = text.replace("/", "@").partition("@")
        alias = which if separator else CHAMPION
        if not name or not alias:
            raise UsageError(f"{reference!r} names no model: write name, name@alias or name/version")
        client = self.client
        by_number = alias.isdecimal()
        try:
            with self.expected():
                version = (
                    client.get_model_version(name, alias)
                    if by_number
                    else client.get_model_version_by_alias(name, alias)
                )
        except UnavailableError as error:
            cause = error.__cause__
            if isinstance(cause, MlflowException) and cause.error_code in (
                "RESOURCE_DOES_NOT_EXIST",
                "INVALID_PARAMETER_VALUE",
            ):
                raise UsageError(f"no model {name}@{alias} at {self.shown}: {self.known_models()}") from error
            raise
        return ModelRef(name, str(version.version), "" if by_number else alias, version.run_id or "")

    def known_models(self) -> str:
        """Return which models the registry holds, as the end of a sentence."""
        with self.expected():
            known = sorted(model.name for model in self.client.search_registered_models(max_results=20))
        return f"it holds {', '.join(known)}" if known else "it holds none yet, reveal fit makes one"


def run_url(tracking: Tracking, experiment_id: str, run_id: str) -> str:
    """Return the page of a run on an MLflow server, ``""`` for a store without pages."""
    if urlsplit(tracking.uri).scheme not in ("http", "https"):
        return ""
    return f"{tracking.shown.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"


def text_params(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters as MLflow takes them: text of at most 6,000 characters."""
    return {name: str(value)[:6000] for name, value in parameters.items()}
