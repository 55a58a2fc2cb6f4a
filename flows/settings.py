"""Reveal's settings: one tree, from ``REVEAL_*`` variables and ``reveal.toml``, read once at the edge.

What is read here is handed down as plain arguments; nothing below `flows` reads settings or the environment.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from reveal_core.errors import UsageError
from reveal_core.jobtable import WORK_METRICS
from reveal_core.timespec import parse_age, parse_duration

DEFAULT_STORE = "./reveal-data"
ADAPTIVE = "adaptive"
"""In place of a sampling interval: it follows what the host does."""

REACH, SILENT_AFTER, FORGET_AFTER = "2h", "3m", "7d"
"""How late telemetry may come, when a host of which nothing comes is silent, and when it is given up."""


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


Duration = Annotated[str, AfterValidator(_duration)]


def _age(text: str) -> str:
    try:
        parse_age(text)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return text


Age = Annotated[str, AfterValidator(_age)]


def _ten_minutes(text: str) -> str:
    if parse_duration(text) < 600.0:
        raise ValueError("it must be 10m at least")
    return text


class CollectSettings(BaseModel, extra="forbid"):
    """How the collector samples: ``REVEAL_COLLECT__INTERVAL`` and so on."""

    host: str | None = Field(default=None, description="The host's label; the host name if not given.")
    interval: str = Field(
        default="100ms", description="Time between two samples, or adaptive to follow what the host does."
    )
    segment: str = Field(default="60s", description="Length of a segment: what a power cut can lose.")
    root: Path = Field(default=Path("/"), description="Where /proc and /sys are looked for.")
    spool: Path | None = Field(
        default=None,
        description="Folder for segments while a remote store is away; $STATE_DIRECTORY/spool, else "
        "~/.local/state/reveal/spool, if not given.",
    )
    spool_mib: int = Field(default=1024, ge=1, description="Bound of the spool; beyond, the oldest go.")
    metrics: str | None = Field(
        default=None, description="HOST:PORT where the agent's own health is served to Prometheus."
    )

    def spool_folder(self) -> Path:
        """Return the folder of the spool; systemd names the state directory of a service."""
        if self.spool is not None:
            return self.spool
        state = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
        if state:
            return Path(state) / "spool"
        base = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
        return Path(base).expanduser() / "reveal/spool"


class MethodSettings(BaseModel, extra="forbid"):
    """What is fitted: ``REVEAL_METHOD__PROFILE`` and so on."""

    profile: str = Field(default="default", description="Named set of method settings.")
    seed: int = Field(default=0, ge=0, description="Seed of everything random in a fit.")
    overrides: dict[str, Any] = Field(default_factory=dict, description="Settings of the profile to replace.")
    gate: dict[str, float] = Field(
        default_factory=dict,
        description="Bounds of the promotion gate to replace; docs/models.md lists them.",
    )
    drift: dict[str, float] = Field(
        default_factory=dict, description="Bounds of what counts as drift to replace; likewise."
    )


class AlertSettings(BaseModel, extra="forbid"):
    """Who is told of incidents: ``REVEAL_ALERTS__ALERTMANAGER`` and so on; docs/alerts.md has examples."""

    alertmanager: list[str] = Field(
        default_factory=list, description="Addresses of Alertmanagers: http://alertmanager:9093."
    )
    webhooks: list[str] = Field(
        default_factory=list, description="Addresses that get each notice as JSON by POST."
    )
    webhook_secret: SecretStr | None = Field(
        default=None, description="Signs what webhooks get (HMAC-SHA256)."
    )
    notify: list[SecretStr] = Field(
        default_factory=list, description="Addresses of Apprise, for Slack, e-mail and others."
    )
    per_day: int | None = Field(
        default=None,
        ge=0,
        description="New incidents told of in a day; if not given the budget over all hosts, at least 4.",
    )
    remind: Duration = Field(
        default="1h",
        description="The same kind on the same host is told again after this long at the soonest.",
    )
    report_url: str | None = Field(
        default=None, description="Where the store's reports/ folder is served, so that notices link to it."
    )

    def plain(self) -> dict[str, Any]:
        """Return what the telling stage takes, secrets in clear."""
        return {
            "alertmanager": self.alertmanager,
            "webhooks": self.webhooks,
            "webhook_secret": self.webhook_secret.get_secret_value() if self.webhook_secret else None,
            "notify": [url.get_secret_value() for url in self.notify],
            "per_day": self.per_day,
            "remind_s": parse_duration(self.remind),
            "report_url": self.report_url,
        }


class PrometheusSettings(BaseModel, extra="forbid"):
    """How ``reveal import prometheus`` enters the server: ``REVEAL_PROMETHEUS__TOKEN`` and so on."""

    token: SecretStr | None = Field(default=None, description="Sent as a bearer token.")
    token_file: Path | None = Field(default=None, description="File with the token, read for each request.")
    user: str | None = Field(default=None, description="User of basic authentication.")
    password: SecretStr | None = Field(default=None, description="Its password.")


class MLflowSettings(BaseModel, extra="forbid"):
    """Where models and runs are kept: ``REVEAL_MLFLOW__URI`` and so on."""

    uri: str | None = Field(
        default=None, description="Tracking address; MLFLOW_TRACKING_URI or a local file if not given."
    )


class FleetSettings(BaseModel, extra="forbid"):
    """How work is cut into tasks: ``REVEAL_FLEET__HOSTS_PER_TASK`` and so on."""

    hosts_per_task: int = Field(
        default=8, ge=1, description="Hosts that one task handles; in a large fleet up to twice."
    )
    workers: int | None = Field(
        default=None, ge=1, description="Processes that scoring is spread over; one a core if not given."
    )
    runner: Literal["local", "dask"] = Field(
        default="local", description="Where tasks of flows run: this machine, or workers of Dask."
    )
    dask: str | None = Field(
        default=None,
        description="Address of a Dask scheduler; a cluster on this machine is started if not given.",
    )
    reach: Duration = Field(default=REACH, description="How late telemetry may come and still be judged.")
    silent_after: Duration = Field(
        default=SILENT_AFTER, description="A host is silent when its newest sample is older."
    )
    forget_after: Duration = Field(
        default=FORGET_AFTER, description="A host that has been silent for longer is not waited for."
    )


class RetentionSettings(BaseModel, extra="forbid"):
    """How long the store keeps what: ``REVEAL_RETENTION__RAW`` and so on; a duration, or ``forever``."""

    raw: Age = Field(default="14d", description="Telemetry as collected; what is older is down-sampled.")
    telemetry: Age = Field(default="90d", description="Telemetry in either form.")
    unjudged: Age = Field(
        default="7d", description="How much longer telemetry stays as collected that no run has judged."
    )
    scores: Age = Field(default="90d", description="Scores of windows.")
    incidents: Age = Field(default="400d", description="Incidents that nobody labelled.")
    reports: Age = Field(default="90d", description="Reports, but the latest.")
    quarantine: Age = Field(default="30d", description="Files that could not be read.")
    compact_after: Age = Field(
        default="1h", description="How long after an hour is over its small segments are merged."
    )

    def plain(self) -> dict[str, str]:
        """Return what the maintaining stages take."""
        return dict(self.model_dump())


class PeerSettings(BaseModel, extra="forbid"):
    """How hosts of a job are compared: ``REVEAL_PEERS__SPAN`` and so on; docs/jobs.md explains them."""

    metrics: list[str] = Field(
        default=list(WORK_METRICS),
        description="Metrics of work done, as shell patterns; none compares nobody.",
    )
    span: Annotated[Duration, AfterValidator(_ten_minutes)] = Field(
        default="1h", description="Time over which hosts are compared, at least 10m."
    )
    score: float = Field(default=3.0, gt=0, description="A host that is named stands out by this at least.")
    effect: float = Field(
        default=0.05, gt=0, lt=1, description="And differs by this share, in both halves of the time."
    )


class Settings(BaseSettings):
    """All settings of the command line and the flows.

    A variable ``REVEAL_STORE`` beats ``store`` in ``reveal.toml``; an option of a command beats both.
    ``REVEAL_CONFIG`` names another file than ``./reveal.toml``.
    """

    model_config = SettingsConfigDict(env_prefix="REVEAL_", env_nested_delimiter="__", extra="forbid")

    store: str = Field(default=DEFAULT_STORE, description="Root of the store: a folder or any fsspec URL.")
    store_options: dict[str, Any] = Field(
        default_factory=dict, description="Options of the store's file system."
    )
    collect: CollectSettings = CollectSettings()
    method: MethodSettings = MethodSettings()
    mlflow: MLflowSettings = MLflowSettings()
    fleet: FleetSettings = FleetSettings()
    peers: PeerSettings = PeerSettings()
    alerts: AlertSettings = AlertSettings()
    retention: RetentionSettings = RetentionSettings()
    prometheus: PrometheusSettings = PrometheusSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read arguments, then variables, then the file; no dotenv and no secrets folder."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=config_file())


def config_file() -> Path:
    """Return the settings file: what ``REVEAL_CONFIG`` names, else ``reveal.toml`` in the working directory.

    Raises
    ------
    UsageError
        If ``REVEAL_CONFIG`` names a file that is not there.
    """
    named = os.environ.get("REVEAL_CONFIG")
    if named and not Path(named).is_file():
        raise UsageError(f"REVEAL_CONFIG names {named}, which is no file")
    return Path(named or "reveal.toml")


def load_settings() -> Settings:
    """Return the settings of this process.

    Raises
    ------
    UsageError
        If a variable or the file holds something else than a setting allows; the line names which.
    """
    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"setting {where} (variable REVEAL_{where.replace('.', '__').upper()} or {config_file()}): "
            f"{first['msg']}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"settings file {config_file()} cannot be read: {error}") from error
    except ValueError as error:
        raise UsageError(f"settings cannot be read: {error}") from error


def plugins(settings: Settings) -> list[str]:
    """Return the detectors of other libraries that the settings name: a model may hold these and no others.

    Raises
    ------
    UsageError
        If one cannot be imported, or is no outlier detector.
    """
    if "detectors" not in settings.method.overrides:
        return []
    from reveal_core.profiles import load_profile
    from tasks.models import plugins_of

    return plugins_of(load_profile(settings.method.profile, settings.method.overrides).to_dict())


def mlflow_uri(settings: Settings, store: str) -> str:
    """Return the tracking address for a store.

    The settings' or ``MLFLOW_TRACKING_URI`` where one is set. Else a SQLite file, because MLflow needs a
    database and nobody should have to set one up: inside a local store, in the working directory for a remote
    one.
    """
    if configured := settings.mlflow.uri or os.environ.get("MLFLOW_TRACKING_URI"):
        return configured
    scheme, separator, rest = store.partition("://")
    if not separator:
        folder = Path(store)
    elif scheme in ("file", "local"):
        folder = Path(rest)
    else:
        return f"sqlite:///{Path('reveal-mlflow.db').resolve()}"
    return f"sqlite:///{folder.resolve() / 'mlflow.db'}"
