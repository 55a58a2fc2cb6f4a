"""From OTLP metrics of hosts to channels, by ``otlp_names.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from reveal_core.catalog import load_catalog
from reveal_core.importing.names import Target
from reveal_core.importing.nvidia_smi import gpu_name

GAUGE, COUNTER, COUNT, LEVEL = "gauge", "counter", "count", "level"
"""What a metric's points are: a gauge; a cumulative count that only grows; counts over intervals (delta); a
cumulative sum that goes up and down."""

_COUNTED = {
    # Counters are whole numbers at rest, so fractions of seconds and joules are kept in smaller units.
    "s": ("us", 1e6),
    "ms": ("ms", 1.0),
    "J": ("uJ", 1e6),
    "By": ("B", 1.0),
}
_LEVELS = {"s": "s", "By": "B", "Cel": "°C", "W": "W", "Hz": "Hz", "V": "V", "%": "%"}


@dataclass(frozen=True, slots=True)
class Rule:
    """What points become; see the head of ``otlp_names.toml``."""

    only: tuple[tuple[str, re.Pattern[str]], ...]
    metric: str
    instance: str
    scale: float
    level: bool
    gpu: bool


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Points that are known and not taken: of a name, or where an attribute has a value."""

    names: re.Pattern[str]
    why: str
    attribute: str = ""
    values: re.Pattern[str] = re.compile("")


@dataclass(frozen=True)
class Names:
    """The file's content."""

    attributes: Mapping[str, str]
    rules: Mapping[str, tuple[Rule, ...]]
    left_out: tuple[LeftOut, ...]
    subsystems: tuple[tuple[re.Pattern[str], str], ...]


@dataclass(frozen=True, slots=True)
class Known:
    """A channel of the catalogue: counts over an interval and rates are told per second."""

    target: Target
    instance: str


@dataclass(frozen=True, slots=True)
class Other:
    """A channel of its own, for what the catalogue does not know.

    Attributes
    ----------
    instance
        The values of its attributes.
    unit
        Of the stored value.
    scale
        What values are multiplied with.
    counter
        Whether it is a cumulative count.
    subsystem
        `""` where the name tells it.
    """

    instance: str
    unit: str
    scale: float
    counter: bool
    subsystem: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """Why points are not taken."""

    why: str


Place = Known | Other | Refused
CHANGES = Refused("changes of what goes up and down, without where it began")


@cache
def names() -> Names:
    """Return the content of ``otlp_names.toml``.

    Raises
    ------
    ValueError
        If it says something that is not known.
    """
    data = tomllib.loads(files(__package__).joinpath("otlp_names.toml").read_text(encoding="utf-8"))
    unknown = set(data) - {"attributes", "metrics", "subsystems", "left_out", "left_out_points"}
    if unknown:
        raise ValueError(f"otlp_names.toml has unknown tables {sorted(unknown)}")
    rules = {
        name: tuple(_rule(name, entry) for entry in (entries if isinstance(entries, list) else [entries]))
        for name, entries in data["metrics"].items()
    }
    points = tuple(
        LeftOut(re.compile(one["names"]), one["why"], one["attribute"], re.compile(one["values"]))
        for one in data["left_out_points"]
    )
    whole = tuple(LeftOut(re.compile(key), why) for key, why in data["left_out"].items())
    subsystems = tuple((re.compile(key), name) for key, name in data["subsystems"].items())
    return Names(data["attributes"], rules, (*points, *whole), subsystems)


def _rule(name: str, entry: Mapping[str, Any]) -> Rule:
    unknown = set(entry) - {"only", "metric", "instance", "scale", "level", "gpu"}
    if unknown:
        raise ValueError(f"otlp_names.toml: {name} has unknown keys {sorted(unknown)}")
    return Rule(
        only=tuple((key, re.compile(values)) for key, values in entry.get("only", {}).items()),
        metric=entry["metric"],
        instance=entry.get("instance", ""),
        scale=float(entry.get("scale", 1.0)),
        level=bool(entry.get("level", False)),
        gpu=bool(entry.get("gpu", False)),
    )


def place(name: str, form: str, unit: str, attributes: Mapping[str, str], whose: str = "") -> Place:
    """Return where points of a metric with the same attributes go.

    Parameters
    ----------
    name, unit
        Of the metric.
    form
        `GAUGE`, `COUNTER`, `COUNT` or `LEVEL`.
    attributes
        Of the points.
    whose
        What tells a container or a service of the host from others, for what the catalogue does not know.

    Examples
    --------
    >>> place("system.cpu.time", COUNTER, "s", {"cpu": "cpu3", "state": "wait"})
    Known(target=Target(metric='cpu.iowait', form='counter', scale=100.0), instance='cpu3')
    """
    said = names()
    short = {said.attributes.get(key, key): value for key, value in attributes.items()}
    if short.get("cpu", "").isdigit():
        short["cpu"] = f"cpu{short['cpu']}"
    for entry in said.left_out:
        if entry.names.fullmatch(name) and _has(short, entry):
            return Refused(f"left out: {entry.why}")
    for rule in said.rules.get(name, ()):
        if all(values.fullmatch(short.get(key, "")) for key, values in rule.only):
            found = _known(rule, form, short)
            if found is not None:
                return found
    subsystem = next((one for pattern, one in said.subsystems if pattern.fullmatch(name)), "")
    return _other(form, unit, attributes, whose, subsystem)


def _has(attributes: Mapping[str, str], entry: LeftOut) -> bool:
    if not entry.attribute:
        return True
    value = attributes.get(entry.attribute, "")
    return bool(value) and entry.values.fullmatch(value) is not None


def _known(rule: Rule, form: str, attributes: Mapping[str, str]) -> Known | Refused | None:
    """Return the channel of a rule; None if an attribute is missing that says of what the points are."""
    try:
        metric, instance = rule.metric.format(**attributes), rule.instance.format(**attributes)
    except KeyError:
        return None
    counter = load_catalog()[metric].kind == "counter" and not rule.level
    if not counter and form == COUNT:
        return CHANGES
    # A gauge of what is a count by convention is its rate: so the collector's deltatorate processor makes it.
    kind = ("interval" if form in (COUNT, GAUGE) else "counter") if counter else "level"
    return Known(Target(metric, kind, rule.scale), gpu_name(instance) if rule.gpu else instance)


def _other(form: str, unit: str, attributes: Mapping[str, str], whose: str, subsystem: str) -> Other:
    own = [attributes[key] for key in sorted(attributes) if attributes[key]]
    instance = ",".join([whose, *own] if whose else own)
    if form == COUNTER:
        stored, scale = _COUNTED.get(unit, ("1", 1.0))
        return Other(instance, stored, scale, True, subsystem)
    level = _LEVELS.get(unit, "")
    return Other(instance, f"{level or 1}/s" if form == COUNT else level, 1.0, False, subsystem)
