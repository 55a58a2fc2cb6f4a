"""Requests of OTLP as the collector writes them, for the tests of their import."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from import_parts import Imported, imported

BEGIN = 1_764_446_400
"""2025-11-29 20:00 UTC, s since 1970."""
CUMULATIVE, DELTA = 2, 1
Json = dict[str, Any]


def ns(seconds: float) -> str:
    return str(round((BEGIN + seconds) * 1e9))


def attributes(values: dict[str, Any]) -> list[Json]:
    kinds = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}
    return [
        {"key": key, "value": {kinds[type(value)]: str(value) if type(value) is int else value}}
        for key, value in values.items()
    ]


def named(labels: dict[str, Any]) -> dict[str, Any]:
    """Return labels with dots in their names, which keywords cannot have."""
    return {key.replace("__", "."): value for key, value in labels.items()}


def point(seconds: float, value: float, since: float | None = None, **labels: Any) -> Json:
    number = {"asInt": str(value)} if isinstance(value, int) else {"asDouble": value}
    began = {"startTimeUnixNano": ns(since)} if since is not None else {}
    return {"timeUnixNano": ns(seconds), **began, **number, "attributes": attributes(named(labels))}


def total(
    name: str, *points: Json, unit: str = "1", temporality: Any = CUMULATIVE, grows: bool = True
) -> Json:
    data = {"dataPoints": list(points), "aggregationTemporality": temporality, "isMonotonic": grows}
    return {"name": name, "unit": unit, "sum": data}


def gauge(name: str, *points: Json, unit: str = "1") -> Json:
    return {"name": name, "unit": unit, "gauge": {"dataPoints": list(points)}}


def request(*metrics: Json, host: str | None = "node-1", scope: str = "cpu", **resource: Any) -> Json:
    about = named(resource) | ({"host.name": host} if host is not None else {})
    scopes = [{"scope": {"name": scope, "version": "0.1"}, "metrics": list(metrics)}]
    return {"resourceMetrics": [{"resource": {"attributes": attributes(about)}, "scopeMetrics": scopes}]}


def cpu_time(seconds: float, cpu: str = "cpu0", state: str = "user") -> Json:
    """Return a metric that counts 250 jiffies at first, and 25 a second."""
    return total("system.cpu.time", point(seconds, 2.5 + seconds / 4, cpu=cpu, state=state), unit="s")


def read(folder: Path, *documents: Json, name: str = "metrics.json", **more: Any) -> Imported:
    path = folder / name
    path.write_text("".join(json.dumps(one) + "\n" for one in documents), encoding="utf-8")
    return imported("otlp", path, **more)
