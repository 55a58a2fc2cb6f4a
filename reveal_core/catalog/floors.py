"""The smallest difference of a signal that is worth noticing, as data in ``floors.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

from reveal_core.catalog import load_catalog


@cache
def _tables() -> tuple[dict[str, float], dict[str, float]]:
    text = files("reveal_core.catalog").joinpath("floors.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    return data["floors"], data["default"]


def floor_of(metric: str, unit: str) -> float:
    """Return the smallest difference of a window's level that is worth noticing, in the physical unit."""
    by_unit, default = _tables()
    known = load_catalog().get(metric)
    if known is not None and known.floor is not None:
        return known.floor
    if known is not None and known.event and known.kind == "counter":
        return default["event"]
    if unit in by_unit:
        return by_unit[unit]
    return default["counter"] if unit.endswith("/s") else default["gauge"]
