"""The smallest difference of a signal that is worth noticing, as data in ``floors.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files

from reveal_core.catalog import load_catalog

TABLES = ("single", "few")
"""Tables of events that have a floor of their own, by patterns of metrics."""


@dataclass(frozen=True)
class Floors:
    """What ``floors.toml`` says.

    Attributes
    ----------
    by_unit
        Floor of a physical unit.
    default
        Of an ``event`` counter, another ``counter`` and a ``gauge`` whose unit is not in the table.
    by_pattern
        Floor of the metrics that match a shell pattern; these go before all others.
    """

    by_unit: dict[str, float]
    default: dict[str, float]
    by_pattern: dict[str, float]


@cache
def load_floors() -> Floors:
    """Return the table of floors."""
    text = files("reveal_core.catalog").joinpath("floors.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    patterns = {pattern: data[table]["floor"] for table in TABLES for pattern in data[table]["metrics"]}
    return Floors(data["floors"], data["default"], patterns)


@cache
def floor_of(metric: str, unit: str) -> float:
    """Return the smallest difference of a window's level that is worth noticing, in the physical unit."""
    floors = load_floors()
    for pattern, floor in floors.by_pattern.items():
        if fnmatchcase(metric, pattern):
            return floor
    known = load_catalog().get(metric)
    if known is not None and known.floor is not None:
        return known.floor
    if known is not None and known.event and known.kind == "counter":
        return floors.default["event"]
    if unit in floors.by_unit:
        return floors.by_unit[unit]
    return floors.default["counter"] if unit.endswith("/s") else floors.default["gauge"]
