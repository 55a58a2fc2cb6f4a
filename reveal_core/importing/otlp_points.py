"""OTLP metrics in JSON, taken apart: what is no number at a time is told and left out.

https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding; 64-bit integers may be strings or numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from reveal_core.importing.findings import Findings
from reveal_core.importing.otlp_names import COUNT, COUNTER, GAUGE, LEVEL

NO_VALUE = 1
"""Flag of a point that says that there is no value."""
_DELTA = (1, "AGGREGATION_TEMPORALITY_DELTA")
_CUMULATIVE = (2, "AGGREGATION_TEMPORALITY_CUMULATIVE")
_UNREAD = ("histogram", "exponentialHistogram", "summary")
_LARGEST = 2**63
_REMEMBERED = 100_000


@dataclass(frozen=True, slots=True)
class Point:
    """A number at a time.

    Attributes
    ----------
    ts
        UTC, ns since 1970.
    since
        When its interval began; 0 where that was not said.
    value
        May be NaN or infinite.
    attributes
        What it is of.
    """

    ts: int
    since: int
    value: float
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Metric:
    """Points of a metric.

    Attributes
    ----------
    resource
        Attributes of what the metric is of: the host.
    scope
        What measured it.
    name, unit
        Of the metric.
    form
        One of `otlp_names.GAUGE`, `COUNTER`, `COUNT` and `LEVEL`.
    points
        In the order of the source.
    """

    resource: Mapping[str, str]
    scope: str
    name: str
    unit: str
    form: str
    points: list[Point]


class Attributes:
    """Reads lists of attributes, each only once: every request of a file has the same ones."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[str, str]] = {}

    def read(self, found: Any) -> Mapping[str, str]:
        """Return attributes as texts; lists and tables among them are left out: they tell nothing apart."""
        try:
            key = orjson.dumps(found)
        except TypeError:  # a number that is larger than JSON's readers take
            return _attributes(found)
        known = self._known.get(key)
        if known is None:
            known = _attributes(found)
            if len(self._known) < _REMEMBERED:
                self._known[key] = known
        return known


def metrics_of(
    document: Any, findings: Findings, line: int, attributes: Attributes | None = None
) -> Iterator[Metric] | None:
    """Return the metrics of a request; None if it is none of metrics.

    Parameters
    ----------
    document
        An ``ExportMetricsServiceRequest``, or anything else that JSON can hold.
    findings
        Is told of what is left out.
    line
        Where it stands.
    attributes
        Of the requests before.
    """
    if not isinstance(document, dict) or not isinstance(document.get("resourceMetrics"), list):
        return None
    return _metrics(document["resourceMetrics"], findings, line, attributes or Attributes())


def _metrics(resources: list[Any], findings: Findings, line: int, attributes: Attributes) -> Iterator[Metric]:
    for of_resource in _tables(resources, "resources", findings, line):
        resource = attributes.read(_table(of_resource, "resource").get("attributes"))
        for of_scope in _tables(of_resource.get("scopeMetrics"), "scopes", findings, line):
            scope = str(_table(of_scope, "scope").get("name") or "")
            for metric in _tables(of_scope.get("metrics"), "metrics", findings, line):
                name = metric.get("name")
                if not isinstance(name, str) or not name:
                    findings.skip("metrics without a name", line=line)
                    continue
                form, points = _data(name, metric, findings, line)
                if form:
                    unit = metric.get("unit")
                    read = list(_points(name, points, findings, line, attributes))
                    yield Metric(resource, scope, name, unit if isinstance(unit, str) else "", form, read)


def _tables(found: Any, what: str, findings: Findings, line: int) -> Iterator[dict[str, Any]]:
    if found is None:
        return
    for one in found if isinstance(found, list) else [found]:
        if isinstance(one, dict):
            yield one
        else:
            findings.skip(f"{what} that are none", line=line, detail=str(one))


def _table(holder: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = holder.get(key)
    return found if isinstance(found, dict) else {}


def _data(name: str, metric: Mapping[str, Any], findings: Findings, line: int) -> tuple[str, Any]:
    """Return the form of a metric and its points; ``""`` if it is not read."""
    if any(isinstance(metric.get(kind), dict) for kind in _UNREAD):
        findings.skip("left out: histograms and summaries are not read", item=name)
        return "", None
    if isinstance(metric.get("gauge"), dict):
        return GAUGE, metric["gauge"].get("dataPoints")
    if not isinstance(metric.get("sum"), dict):
        findings.skip("metrics without data", item=name, line=line)
        return "", None
    found = metric["sum"]
    temporality, grows = found.get("aggregationTemporality"), found.get("isMonotonic") is True
    if temporality in _CUMULATIVE:
        return COUNTER if grows else LEVEL, found.get("dataPoints")
    if temporality in _DELTA and grows:
        return COUNT, found.get("dataPoints")
    why = (
        "left out: changes of what goes up and down, without where it began"
        if temporality in _DELTA
        else "sums that do not say whether they are cumulative"
    )
    findings.skip(why, item=name)
    return "", None


def _points(name: str, points: Any, findings: Findings, line: int, attributes: Attributes) -> Iterator[Point]:
    for point in _tables(points, f"{name}: points", findings, line):
        flags = whole(point.get("flags"))
        if flags is not None and flags & NO_VALUE:
            continue
        value = _value(point)
        if value is None:
            findings.skip("points without a number", item=name, line=line, detail=str(point))
            continue
        ts = whole(point.get("timeUnixNano"))
        if not ts:
            findings.skip("points without a time", item=name, line=line, detail=str(point))
            continue
        since = whole(point.get("startTimeUnixNano"))
        yield Point(ts, since or 0, value, attributes.read(point.get("attributes")))


def _value(point: Mapping[str, Any]) -> float | None:
    if "asInt" in point:
        number = whole(point["asInt"])
        return None if number is None else float(number)
    found = point.get("asDouble")
    if isinstance(found, bool) or not isinstance(found, int | float | str):
        return None
    try:
        return float(found)  # "NaN" and "Infinity" are strings in JSON
    except ValueError:
        return None
    except OverflowError:
        return math.inf


def whole(found: Any) -> int | None:
    """Return a whole number of 64 bits, from a number or a string; None if it is none.

    >>> whole("1764446400000000000"), whole(2.0), whole(True), whole("x")
    (1764446400000000000, 2, None, None)
    """
    if type(found) is str and found.isdecimal() and found.isascii() and len(found) < 20:
        return int(found)
    if isinstance(found, str):
        text = found.strip()
        if len(text) > 20 or not text.removeprefix("-").isdecimal() or not text.isascii():
            return None
        found = int(text)
    if isinstance(found, float):
        found = int(found) if math.isfinite(found) and found.is_integer() else None
    if isinstance(found, bool) or not isinstance(found, int) or not -_LARGEST <= found < 2 * _LARGEST:
        return None
    return found


def _attributes(found: Any) -> dict[str, str]:
    """Return attributes as texts; those that are lists or tables are left out: they tell nothing apart."""
    attributes = {}
    for one in found if isinstance(found, list) else ():
        key = one.get("key") if isinstance(one, dict) else None
        value = one.get("value") if isinstance(one, dict) else None
        text = _text(value) if isinstance(value, dict) else None
        if isinstance(key, str) and text is not None:
            attributes[key] = text
    return attributes


def _text(value: Mapping[str, Any]) -> str | None:
    for kind, found in value.items():
        if kind == "stringValue" and isinstance(found, str):
            return found
        if kind == "boolValue" and isinstance(found, bool):
            return "true" if found else "false"
        if kind == "intValue":
            number = whole(found)
            return None if number is None else str(number)
        if kind == "doubleValue" and isinstance(found, int | float) and not isinstance(found, bool):
            return f"{found:g}" if -_LARGEST < found < _LARGEST else None
    return None
