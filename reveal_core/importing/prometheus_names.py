"""From the series of Prometheus exporters to channels, by ``prometheus_names.toml``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.importing.names import other_metric
from reveal_core.importing.nvidia_smi import gpu_name
from reveal_core.importing.types import ImportedColumn

NAME = "__name__"
"""Label that holds a series' name."""
OTHER = "prometheus"
"""Source of the series that no exporter of the table has."""
SERVER_LABELS = (NAME, "instance", "job")
"""Labels that say where a series came from and not what it is of."""
_PATTERN_SIGNS = frozenset(r"\.[]()*+?|^$")
_HISTOGRAMS = ("histogram", "gaugehistogram", "summary")
_HISTOGRAM_LABELS = ("le", "quantile")
_COUNTED = {
    # Counters are whole numbers at rest, so fractions of seconds and joules are kept in smaller units.
    "seconds": ("us", 1e6),
    "milliseconds": ("ms", 1.0),
    "joules": ("uJ", 1e6),
    "bytes": ("B", 1.0),
}
_LEVELS = {"seconds": "s", "bytes": "B", "celsius": "°C", "watts": "W", "hertz": "Hz", "volts": "V"}


@dataclass(frozen=True, slots=True)
class Rule:
    """What a name, or names that fit a pattern, become; see the head of ``prometheus_names.toml``.

    Attributes
    ----------
    name
        Fits the whole name.
    only
        By label, what its whole value must fit.
    metric, instance
        Templates: labels by name, groups of ``name`` by number.
    scale
        To the catalogue's stored unit.
    missing
        Values that stand for none.
    """

    name: re.Pattern[str]
    only: tuple[tuple[str, re.Pattern[str]], ...]
    metric: str
    instance: str
    scale: float
    missing: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Names that are known and not taken."""

    name: re.Pattern[str]
    why: str


@dataclass(frozen=True, slots=True)
class SeriesLeftOut:
    """Series that are known and not taken, by the value of a label."""

    name: re.Pattern[str]
    label: str
    values: re.Pattern[str]
    why: str


@dataclass(frozen=True)
class Exporter:
    """A table of the file."""

    name: str
    names: re.Pattern[str]
    gpus: bool
    exact: Mapping[str, tuple[Rule, ...]]
    patterns: tuple[Rule, ...]
    series_left_out: tuple[SeriesLeftOut, ...]
    left_out: tuple[LeftOut, ...]

    def rules(self, name: str) -> tuple[Rule, ...]:
        """Return the rules for a name, in order."""
        fitting = tuple(rule for rule in self.patterns if rule.name.fullmatch(name))
        return (*self.exact.get(name, ()), *fitting)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the samples of a series go.

    Attributes
    ----------
    column
        The channel.
    counter
        Whether it is a raw cumulative count.
    scale
        What values are multiplied with.
    missing
        Values that stand for none, before they are scaled.
    known
        Whether the catalogue has the metric.
    """

    column: ImportedColumn
    counter: bool
    scale: float
    missing: tuple[float, ...]
    known: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a series, or all of a name, is not taken.

    Attributes
    ----------
    why
        The reason.
    known
        It is left out on purpose; otherwise nothing in the table or the catalogue knows it.
    """

    why: str
    known: bool


UNKNOWN = Refusal("unknown to the catalogue; --keep-unknown keeps it", False)


@cache
def exporters() -> tuple[Exporter, ...]:
    """Return the exporters of ``prometheus_names.toml``.

    Raises
    ------
    ValueError
        If the file says something that is not known.
    """
    text = files(__package__).joinpath("prometheus_names.toml").read_text(encoding="utf-8")
    return tuple(_exporter(name, table) for name, table in tomllib.loads(text).items())


def _exporter(name: str, table: dict[str, Any]) -> Exporter:
    unknown = set(table) - {"names", "instances", "missing", "metrics", "left_out", "left_out_series"}
    if unknown:
        raise ValueError(f"prometheus_names.toml: {name} has unknown keys {sorted(unknown)}")
    missing = tuple(float(value) for value in table.get("missing", ()))
    exact: dict[str, tuple[Rule, ...]] = {}
    patterns: list[Rule] = []
    for key, entries in table.get("metrics", {}).items():
        rules = [
            _rule(key, entry, missing) for entry in (entries if isinstance(entries, list) else [entries])
        ]
        if _PATTERN_SIGNS.isdisjoint(key):
            exact[key] = tuple(rules)
        else:
            patterns += rules
    return Exporter(
        name=name,
        names=re.compile(table["names"]),
        gpus=table.get("instances") == "gpu",
        exact=exact,
        patterns=tuple(patterns),
        series_left_out=tuple(
            SeriesLeftOut(
                re.compile(entry["names"]), entry["label"], re.compile(entry["values"]), entry["why"]
            )
            for entry in table.get("left_out_series", ())
        ),
        left_out=tuple(LeftOut(re.compile(key), why) for key, why in table.get("left_out", {}).items()),
    )


def _rule(key: str, entry: dict[str, Any], missing: tuple[float, ...]) -> Rule:
    unknown = set(entry) - {"only", "metric", "instance", "scale", "missing"}
    if unknown:
        raise ValueError(f"prometheus_names.toml: {key} has unknown keys {sorted(unknown)}")
    return Rule(
        name=re.compile(key),
        only=tuple((label, re.compile(values)) for label, values in entry.get("only", {}).items()),
        metric=entry["metric"],
        instance=entry.get("instance", ""),
        scale=float(entry.get("scale", 1.0)),
        missing=(*missing, *(float(value) for value in entry.get("missing", ()))),
    )


def known_names() -> str:
    """Return a pattern of the names that the exporters of the table have, as PromQL takes it."""
    return "|".join(exporter.names.pattern for exporter in exporters() if exporter.exact)


def judge_name(name: str) -> Refusal | None:
    """Return why no series of this name is taken; None if some may be."""
    for exporter in exporters():
        if not exporter.names.fullmatch(name):
            continue
        for rule in exporter.rules(name):
            metric = _metric_of(rule, name)
            if metric is None or metric in load_catalog():
                return None  # a template with labels is judged series by series
            if metric in load_left_out():
                return Refusal(load_left_out()[metric], True)
        for entry in exporter.left_out:
            if entry.name.fullmatch(name):
                return Refusal(entry.why, True)
    return UNKNOWN


def _metric_of(rule: Rule, name: str) -> str | None:
    """Return the metric of a rule whose template needs no label; None if it needs some."""
    found = rule.name.fullmatch(name)
    assert found is not None
    try:
        return rule.metric.format(name, *found.groups())
    except KeyError:
        return None


def place_series(labels: Mapping[str, str]) -> Place | Refusal:
    """Return the channel of a series that an exporter of the table has, or why it is not taken.

    Parameters
    ----------
    labels
        Of the series, its name among them.

    Examples
    --------
    >>> found = place_series({"__name__": "node_cpu_seconds_total", "cpu": "3", "mode": "user"})
    >>> found.column.name, found.counter, found.scale
    ('cpu.user/cpu3', True, 100.0)
    """
    name = labels.get(NAME, "")
    for exporter in exporters():
        if not exporter.names.fullmatch(name):
            continue
        for entry in exporter.series_left_out:
            value = labels.get(entry.label, "")
            if value and entry.name.fullmatch(name) and entry.values.fullmatch(value):
                return Refusal(entry.why, True)
        for rule in exporter.rules(name):
            if all(values.fullmatch(labels.get(label, "")) for label, values in rule.only):
                return _placed(exporter, rule, labels)
    return judge_name(name) or UNKNOWN


def _placed(exporter: Exporter, rule: Rule, labels: Mapping[str, str]) -> Place | Refusal:
    found = rule.name.fullmatch(labels[NAME])
    assert found is not None
    parts = (labels[NAME], *found.groups())
    try:
        name = rule.metric.format(*parts, **labels)
        instance = rule.instance.format(*parts, **labels)
    except KeyError as error:
        return Refusal(f"series without the label {error.args[0]!r}, which says of what they are", True)
    if exporter.gpus:
        instance = gpu_name(labels.get("UUID") or labels.get("gpu") or "")
        if not instance:
            return Refusal("series without the label 'UUID' or 'gpu', which says of what they are", True)
    metric = load_catalog().get(name)
    if metric is not None:
        column = ImportedColumn(metric, instance, exporter.name)
        return Place(column, metric.kind == "counter", rule.scale, rule.missing, known=True)
    if name in load_left_out():
        return Refusal(load_left_out()[name], True)
    return judge_name(labels[NAME]) or UNKNOWN


def keep_series(labels: Mapping[str, str], kind: str = "", ignored: tuple[str, ...] = ()) -> Place | Refusal:
    """Return a channel of its own for a series that the catalogue does not know.

    Parameters
    ----------
    labels
        Of the series, its name among them.
    kind
        What the server knows of the metric: ``counter``, ``gauge`` …; ``""`` if nothing.
    ignored
        Labels that say whose the series is; the values of all others make the instance.

    Examples
    --------
    >>> found = keep_series({"__name__": "app_wait_seconds_total", "queue": "a", "job": "app"})
    >>> found.column.name, found.column.metric.unit, found.scale
    ('imported.prometheus.app_wait_seconds_total/a', 'us', 1000000.0)
    """
    name = labels.get(NAME, "")
    if kind in _HISTOGRAMS or any(label in labels for label in _HISTOGRAM_LABELS):
        return Refusal("histograms and summaries are not read", True)
    counter = kind == "counter" or (kind not in ("gauge", "info", "stateset") and name.endswith("_total"))
    measure = name.removesuffix("_total").removesuffix("_sum").rpartition("_")[2]
    unit, scale = _COUNTED.get(measure, ("1", 1.0)) if counter else (_LEVELS.get(measure, ""), 1.0)
    own = sorted(label for label in labels if label not in (*SERVER_LABELS, *ignored) and labels[label])
    instance = ",".join(labels[label] for label in own)
    metric = other_metric(OTHER, name, unit=unit, kind="counter" if counter else "gauge")
    return Place(ImportedColumn(metric, instance, OTHER), counter, scale, (), known=False)
