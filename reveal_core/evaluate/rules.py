"""Bounds that a person may replace by settings: numbers in a frozen dataclass, checked by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from reveal_core.errors import UsageError

Rules = TypeVar("Rules")


def with_settings(defaults: Rules, settings: Mapping[str, Any], where: str) -> Rules:
    """Return rules with some bounds replaced.

    Parameters
    ----------
    defaults
        A dataclass whose fields are numbers.
    settings
        By name of a field its new value.
    where
        What the settings are called, for the message.

    Raises
    ------
    UsageError
        If a name is not known, or a value is no finite number of at least 0.

    Examples
    --------
    >>> from reveal_core.evaluate.gate import GateRules
    >>> with_settings(GateRules(), {"recall_drop": 0.1}, "method.gate").recall_drop
    0.1
    """
    kinds = {field.name: type(getattr(defaults, field.name)) for field in fields(defaults)}  # type: ignore[arg-type]
    values: dict[str, float] = {}
    for name, value in settings.items():
        if name not in kinds:
            raise UsageError(f"setting {where}.{name} is not known: choose from {', '.join(kinds)}")
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not (math.isfinite(number) and number >= 0) or (kinds[name] is int and number != int(number)):
            what = "a whole number" if kinds[name] is int else "a number"
            raise UsageError(f"setting {where}.{name} is {value!r}: it must be {what} of at least 0")
        values[name] = kinds[name](number)
    return replace(defaults, **values)  # type: ignore[type-var]
