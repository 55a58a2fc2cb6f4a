"""The mapping file of ``reveal import csv|parquet``: what the columns of a table are, as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from reveal_core.catalog import Metric, load_catalog
from reveal_core.channels import Subsystem
from reveal_core.errors import UsageError
from reveal_core.importing.names import Target, known_metric, other_metric
from reveal_core.importing.times import ISO, UNITS_NS, parse_zone
from reveal_core.timespec import parse_time

MetricName = Annotated[str, Field(pattern=r"^[A-Za-z][\w%()+-]*(\.[\w%()+-]+)+$")]
"""At least two parts, as in the catalogue: `family.name`."""
Form = Literal["level", "rate", "counter", "count", "state"]


class TimeMapping(BaseModel, extra="forbid"):
    """Where the times are."""

    column: str | None = Field(default=None, description="Its column; guessed from the names if not given.")
    format: str | None = Field(
        default=None, description="iso, a unit (ns, us, ms, s, m, h), or a pattern of strptime."
    )
    zone: str | None = Field(default=None, description="Of times without one: Europe/London, +01:00.")
    origin: str | None = Field(default=None, description="What numbers count from; 1970 if not given.")

    @field_validator("format")
    @classmethod
    def _is_a_format(cls, text: str | None) -> str | None:
        if text is not None and text != ISO and text not in UNITS_NS and "%" not in text:
            raise ValueError(f"{text!r} is none of iso, {', '.join(UNITS_NS)}, or a strptime pattern")
        return text

    @field_validator("zone")
    @classmethod
    def _is_a_zone(cls, text: str | None) -> str | None:
        if text is not None:
            _as_value(lambda: parse_zone(text))
        return text

    @field_validator("origin")
    @classmethod
    def _is_a_time(cls, text: str | None) -> str | None:
        if text is not None:
            _as_value(lambda: parse_time(text))
        return text


class HostMapping(BaseModel, extra="forbid"):
    """Whose samples they are."""

    column: str | None = Field(default=None, description="Column that names the host of a row.")
    name: str | None = Field(default=None, description="The one host of the table.")
    prefix: str = Field(default="", description="Put before what the column says.")


class LongMapping(BaseModel, extra="forbid"):
    """A table with one sample a row."""

    metric: str = Field(description="Column that names the metric.")
    value: str = Field(description="Column of the sample.")


class ColumnMapping(BaseModel, extra="forbid"):
    """What a column, or in a long table a metric's name, becomes."""

    metric: MetricName | None = Field(default=None, description="Name in the catalogue, or one of your own.")
    instance: str = Field(default="", description="Which core, GPU, disk …")
    form: Form = Field(
        default="level",
        description="level, rate (per second), counter (cumulative), count (since the row before), state.",
    )
    scale: float = Field(default=1.0, description="What values are multiplied with to get the unit.")
    unit: str = Field(default="", description="Of your own metric.")
    subsystem: Subsystem | None = Field(default=None, description="Of your own metric.")

    @field_validator("scale")
    @classmethod
    def _is_finite(cls, value: float) -> float:
        if not 0 < abs(value) < float("inf"):
            raise ValueError("it must be a finite number other than 0")
        return value

    @model_validator(mode="after")
    def _fits(self) -> ColumnMapping:
        known = load_catalog().get(self.metric or "")
        if known is not None and self.form == "counter" and known.kind != "counter":
            raise ValueError(f"{self.metric} is a {known.kind} in the catalogue, not a counter")
        if known is None and known_metric(self.metric or "") and self.form in ("counter", "count"):
            raise ValueError(f"{self.metric} is derived from others: give it as a level")
        if known is not None and (self.unit or self.subsystem):
            raise ValueError(f"{self.metric} has its unit and subsystem from the catalogue")
        if self.form == "counter" and self.scale != int(self.scale):
            raise ValueError("a counter is multiplied with a whole number only")
        return self


class TableMapping(BaseModel, extra="forbid"):
    """A mapping file.

    ``instance_column`` names the device of a row, where a wide table has one row for each device. A column
    that is in neither ``columns`` nor ``ignore`` is kept under a name of its own. ``job`` goes into the facts
    of every segment.
    """

    time: TimeMapping = Field(default_factory=TimeMapping)
    host: HostMapping = Field(default_factory=HostMapping)
    long: LongMapping | None = None
    instance_column: str | None = None
    columns: dict[str, ColumnMapping] = Field(default_factory=dict)
    ignore: list[str] = Field(default_factory=list)
    job: dict[str, str] = Field(default_factory=dict)


def read_mapping(path: Path) -> dict[str, Any]:
    """Return a mapping file's content, checked.

    Raises
    ------
    UsageError
        If it cannot be read, is no TOML, or says something that is not known.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"mapping file {path} cannot be read: {reason}") from error
    table_mapping(content, str(path))
    return content


def table_mapping(content: Mapping[str, Any] | None, where: str = "the mapping") -> TableMapping:
    """Return a mapping.

    Raises
    ------
    UsageError
        If something in it is not known; the line says where.
    """
    try:
        return TableMapping.model_validate(dict(content or {}))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{where}: {place or 'content'}: {said}") from error


def stored_as(source: str, name: str, mapped: ColumnMapping | None) -> tuple[Metric, str, float]:
    """Return the metric that holds a column, its form (level, count or counter), and its scale.

    Parameters
    ----------
    source
        The kind, for the name of a column that nothing is said of.
    name
        The column.
    mapped
        What the mapping says of it.
    """
    said = mapped or ColumnMapping()
    metric = said.metric or (name if known_metric(name) else None)
    if metric is not None and known_metric(metric):
        catalogued = load_catalog().get(metric)
        form = said.form
        if mapped is None and catalogued is not None and catalogued.kind == "counter":
            form = "counter"  # a table in Reveal's own names holds what Reveal collects
        if form in ("counter", "count"):
            stored, scale = Target(metric, form, said.scale).stored()
            return stored, form, scale
        return Target(metric, "level", said.scale).stored()[0], "level", said.scale
    kept = {"rate": "level", "state": "level"}.get(said.form, str(said.form))
    unit = f"{said.unit}/s" if said.form == "count" and said.unit else said.unit
    made = other_metric(
        source,
        name,
        unit=unit,
        subsystem=said.subsystem or "",
        kind={"counter": "counter", "state": "state"}.get(said.form, "gauge"),
    )
    if metric is not None:
        made = Metric(metric, made.subsystem, made.kind, made.unit, name)
    return made, kept, said.scale


def _as_value(check: Any) -> None:
    """Let a usage error count as a wrong value, so that the place in the file is told with it."""
    try:
        check()
    except UsageError as error:
        raise ValueError(str(error)) from error
