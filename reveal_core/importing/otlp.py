"""OTLP JSON: metrics of hosts, as the OpenTelemetry collector writes them into files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.otlp_names import COUNT, GAUGE, Known, Other, Refused, place
from reveal_core.importing.otlp_points import Attributes, Metric, Point, metrics_of
from reveal_core.importing.records import Records
from reveal_core.importing.streams import LONGEST_LINE, identity_of, lines, opened
from reveal_core.importing.tabular import read_files
from reveal_core.importing.types import Chunk, ImportOptions, Layout

PATTERNS = tuple(f"*.{kind}{packed}" for kind in ("json", "jsonl", "ndjson") for packed in ("", ".gz", ".xz"))
LONGEST_DOCUMENT = 64 << 20
"""Bytes of a file that is one document over several lines."""
MOST_CHANNELS = 20_000
"""Of a host: attributes that never repeat would make channels without end."""
MOST_PLACES = 4 * MOST_CHANNELS
"""Of a host, that are remembered."""
MOST_SAMPLES = 1_000_000
"""Of all hosts together, that wait to be handed on."""
_HOST = "host.name"
_WHOSE = ("service.name", "k8s.namespace.name", "k8s.pod.name", "k8s.container.name", "container.name")
"""Attributes of a resource that tell parts of a host apart."""
_OF_HOSTS = ("system.", "hw.")


def read(source: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    """Read a file of OTLP metrics, or those of a folder; see `types.Reader`."""
    return read_files(source, PATTERNS, findings, lambda path: _read(path, options, findings))


def _read(path: Path, options: ImportOptions, findings: Findings) -> Iterator[Chunk | Layout]:
    hosts = _Hosts(identity_of(path), path.name, options, findings)
    attributes = Attributes()
    known = False
    for line, document in documents(path, findings):
        for request in document if isinstance(document, list) else [document]:
            metrics = metrics_of(request, findings, line, attributes)
            if metrics is None:
                findings.skip(_what(request), line=line)
                continue
            known = True
            hosts.add(metrics, line)
            yield from hosts.take()
    if not known:
        raise UsageError(f"{findings.where} is no OTLP JSON of metrics: nothing in it has resourceMetrics")
    yield from hosts.end()


def _what(request: Any) -> str:
    others = isinstance(request, dict) and any(key.startswith("resource") for key in request)
    return "requests of logs, traces or profiles" if others else "documents that are no request of OTLP"


def documents(path: Path, findings: Findings) -> Iterator[tuple[int, Any]]:
    """Yield the JSON documents of a file, each with its line: the file is one, or has one a line."""
    whole = _whole(path)
    if whole is not None:
        yield 1, whole
        return
    with opened(path) as file:
        for number, (text, ended) in enumerate(lines(file), 1):
            if not text.strip():
                continue
            try:
                document = orjson.loads(text)
            except orjson.JSONDecodeError:
                why = "lines that are no JSON" if ended else "the last line: the file ends within it"
                findings.skip(why, line=number, detail=text[:80])
                continue
            yield number, document


def _whole(path: Path) -> Any:
    """Return the document that a file is as a whole; None if it has one a line, or is none."""
    with opened(path) as file:
        first = file.readline(LONGEST_LINE)
        while first and not first.strip():
            first = file.readline(LONGEST_LINE)
        if _is_json(first):
            return None
        rest = file.read(LONGEST_DOCUMENT + 1)
    if len(rest) > LONGEST_DOCUMENT:
        return None
    try:
        return orjson.loads(first + rest)
    except orjson.JSONDecodeError:
        return None


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


@dataclass
class _Host:
    """What is known of a host while its file is read.

    Attributes
    ----------
    facts
        For its segments; shared by them, so that what is learned later is in all that are written later.
    records
        By scope: a scraper takes its metrics together, so they are rows of their own.
    channels
        Which metric and form gives each.
    places
        Where points of a metric with the same attributes go; None for nowhere.
    cores
        Met so far.
    """

    name: str
    facts: dict[str, Any]
    records: dict[str, Records] = field(default_factory=dict)
    channels: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    places: dict[tuple[Any, ...], Known | Other | None] = field(default_factory=dict)
    cores: set[str] = field(default_factory=set)

    def met(self, found: Known) -> None:
        """Learn of the hardware that a channel is of."""
        metric, instance = found.target.metric, found.instance
        gpus = self.facts["gpus"]
        if metric.startswith("cpu."):
            self.cores.add(instance)
            self.facts["cpu"]["logical"] = len(self.cores)
        if metric.startswith("gpu.") and all(gpu["name"] != instance for gpu in gpus):
            gpus.append({"index": len(gpus), "name": instance})


class _Hosts:
    """Gathers samples of all hosts of a file."""

    def __init__(self, identity: str, file: str, options: ImportOptions, findings: Findings) -> None:
        self.identity = identity
        self.file = file
        self.options = options
        self.findings = findings
        self.hosts: dict[str, _Host] = {}
        self.waiting = 0
        self._touched: list[Records] = []
        self._noted: set[str] = set()

    def add(self, metrics: Iterable[Metric], line: int) -> None:
        """Take the metrics of a request."""
        found: dict[tuple[str, str], list[tuple[int, str, Known | Other, float]]] = {}
        for metric in metrics:
            host = self._host(metric.resource, line)
            if host is None:
                continue
            samples = found.setdefault((host.name, metric.scope), [])
            for point in metric.points:
                where = self._place(host, metric, point)
                value = self._value(metric, point) if where is not None else None
                if where is not None and value is not None:
                    samples.append((point.ts, metric.name, where, value))
        for (name, scope), samples in found.items():
            self._put(self.hosts[name], scope, samples, line)

    def _put(
        self, host: _Host, scope: str, samples: list[tuple[int, str, Known | Other, float]], line: int
    ) -> None:
        if not samples:
            return
        records = host.records.get(scope)
        if records is None:
            identity = f"{self.identity}\0{scope}"
            records = Records(host.name, identity, "otlp", self.findings, host.facts)
            host.records[scope] = records
        last = None
        for ts, name, where, value in sorted(samples, key=itemgetter(0)):
            if ts != last:
                records.at(ts, line)
                last = ts
            if isinstance(where, Known):
                records.put(where.target, where.instance, value)
            else:
                records.put_other(
                    name,
                    where.instance,
                    value * where.scale,
                    unit=where.unit,
                    subsystem=where.subsystem,
                    counter=where.counter,
                )
        self.waiting += len(samples)
        self._touched.append(records)

    def take(self) -> Iterator[Chunk | Layout]:
        """Yield what is enough for a chunk, or everything where much is waiting."""
        for records in self._touched:
            if records.full:
                yield from records.take()
        self._touched.clear()
        if self.waiting > MOST_SAMPLES:
            for host in self.hosts.values():
                for records in host.records.values():
                    yield from records.take()
            self.waiting = 0

    def end(self) -> Iterator[Chunk | Layout]:
        """Yield what is left."""
        for host in self.hosts.values():
            for records in host.records.values():
                yield from records.end()

    def _host(self, resource: Mapping[str, str], line: int) -> _Host | None:
        name = self.options.host or resource.get(_HOST, "").strip()
        if not name:
            self.findings.skip(f"metrics of a resource without {_HOST}: --host names the host", line=line)
            return None
        if name not in self.hosts:
            facts: dict[str, Any] = {
                "cpu": {"model": resource.get("host.cpu.model.name"), "logical": None},
                "gpus": [],
                "kernel": resource.get("os.version"),
                "imported": {"kind": "otlp", "file": self.file},
            }
            self.hosts[name] = _Host(name, facts)
        return self.hosts[name]

    def _place(self, host: _Host, metric: Metric, point: Point) -> Known | Other | None:
        whose = ""
        if not metric.name.startswith(_OF_HOSTS):
            whose = "/".join(metric.resource[key] for key in _WHOSE if metric.resource.get(key))
        key = metric.name, metric.form, metric.unit, whose, frozenset(point.attributes.items())
        if key in host.places:
            return host.places[key]
        found = place(metric.name, metric.form, metric.unit, point.attributes, whose)
        where = self._taken(host, metric, found)
        if len(host.places) < MOST_PLACES:
            host.places[key] = where
        return where

    def _taken(self, host: _Host, metric: Metric, found: Known | Other | Refused) -> Known | Other | None:
        """Return a place unless it is refused, or belongs to another metric."""
        why = ""
        if isinstance(found, Refused):
            why = found.why
        else:
            channel = (found.target.metric if isinstance(found, Known) else metric.name), found.instance
            owner = host.channels.get(channel)
            if owner is None and len(host.channels) >= MOST_CHANNELS:
                why = f"channels beyond the first {MOST_CHANNELS} of a host"
            elif owner is not None and owner != (metric.name, metric.form):
                why = f"left out: {owner[0]} says the same"
            else:
                host.channels[channel] = metric.name, metric.form
                if isinstance(found, Known):
                    host.met(found)
                    self._note(metric, found)
                return found
        self.findings.skip(why, item=metric.name)
        return None

    def _note(self, metric: Metric, found: Known) -> None:
        if metric.form == GAUGE and found.target.form == "interval" and metric.name not in self._noted:
            self._noted.add(metric.name)
            self.findings.note(
                f"{metric.name} comes as a gauge and is a count by convention: it is taken for the rate of it"
            )

    def _value(self, metric: Metric, point: Point) -> float | None:
        """Return what is stored of a point: of counts over an interval the rate per second."""
        value = point.value
        if metric.form == COUNT:
            if not 0 < point.since < point.ts:
                self.findings.skip(
                    "counts over an interval that does not say when it began", item=metric.name
                )
                return None
            value = value / ((point.ts - point.since) / 1e9)
        if not math.isfinite(value):
            self.findings.skip("samples that are no finite number", item=metric.name)
            return None
        return value
