"""Grids of settings to compare: named settings, and products of values, as a TOML file or a mapping."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from reveal_core.errors import UsageError
from reveal_core.profiles import Profile, load_profile


class GridSetting(BaseModel, extra="forbid"):
    """One setting by name: ``[[setting]]``."""

    name: str = Field(min_length=1, max_length=200)
    profile: str = "default"
    overrides: dict[str, Any] = Field(default_factory=dict)


class GridFile(BaseModel, extra="forbid"):
    """What a grid file may hold."""

    reference: str = Field(default="default", description="Name of the setting that others are held against.")
    repeats: int = Field(default=2, ge=1, le=20, description="Fits of each setting, each with another seed.")
    perturbations: int = Field(default=40, ge=1, description="Perturbations injected on each host.")
    setting: list[GridSetting] = Field(default_factory=list)
    grid: dict[str, list[Any]] = Field(
        default_factory=dict, description="Values by name of a setting (and profile): every combination."
    )


@dataclass(frozen=True)
class NamedSetting:
    """A setting to compare.

    Attributes
    ----------
    name
        Told on pages.
    profile
        Every value of it.
    given
        What the grid says of it: the profile's name and what it overrides.
    """

    name: str
    profile: Profile
    given: dict[str, Any]


@dataclass(frozen=True)
class Grid:
    """Settings to compare, and how."""

    settings: tuple[NamedSetting, ...]
    reference: str
    repeats: int
    perturbations: int


def read_grid(path: Path) -> dict[str, Any]:
    """Return a grid file's content.

    Raises
    ------
    UsageError
        If it cannot be read or is no TOML, or `parse_grid` refuses it.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"grid file {path} cannot be read: {reason}") from error
    parse_grid(content, where=str(path))
    return content


def parse_grid(content: Mapping[str, Any], *, where: str = "grid") -> Grid:
    """Return the settings of a grid, each checked.

    Parameters
    ----------
    content
        As `GridFile` has it.
    where
        What messages call it.

    Raises
    ------
    UsageError
        If a key or a value is not what it may be; the line names the file and the key.
    """
    try:
        file = GridFile.model_validate(dict(content))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{where}: {key}: {first['msg']}") from error
    entries = [(f"setting {one.name}", one) for one in file.setting]
    entries += [(f"grid {one.name}", one) for one in _products(file.grid, where)]
    settings: dict[str, NamedSetting] = {}
    for key, entry in entries:
        if entry.name in settings:
            raise UsageError(f"{where}: {key}: the name stands twice")
        try:
            profile = load_profile(entry.profile, entry.overrides)
        except UsageError as error:
            raise UsageError(f"{where}: {key}: {error}") from error
        settings[entry.name] = NamedSetting(
            entry.name, profile, {"profile": entry.profile, **entry.overrides}
        )
    if not settings:
        raise UsageError(f"{where}: no setting to compare: it needs [[setting]] or [grid]")
    if file.reference not in settings:
        raise UsageError(
            f"{where}: reference: no setting is called {file.reference!r}: choose from {', '.join(settings)}"
        )
    return Grid(tuple(settings.values()), file.reference, file.repeats, file.perturbations)


def _products(grid: Mapping[str, list[Any]], where: str) -> list[GridSetting]:
    """Return every combination of a grid's values, named after the profile and what is overridden."""
    for key, values in grid.items():
        if not values:
            raise UsageError(f"{where}: grid.{key}: at least one value is needed")
    found = []
    for values in product(*grid.values()) if grid else ():
        chosen = dict(zip(grid, values, strict=True))
        profile = str(chosen.pop("profile", "default"))
        name = " ".join([profile, *(f"{key}={_short(value)}" for key, value in chosen.items())])
        found.append(GridSetting(name=name[:200], profile=profile, overrides=chosen))
    return found


def _short(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(_short(part) for part in value)
    if isinstance(value, dict):
        return "+".join(f"{key}" if part is True else f"{key}:{_short(part)}" for key, part in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)
