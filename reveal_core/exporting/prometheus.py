"""A fleet's state as Prometheus metrics, by the conventions for names: base units, ``_total`` for counts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from reveal_core.exporting.fleet import UNKNOWN, FleetState, HostState

MOST_INCIDENTS = 2000
"""Open incidents that are told one by one, the strongest; of more only how many: each has its own series."""


class Families(Collector):
    """Metrics that are there already, as the client library takes them."""

    def __init__(self, found: Sequence[Metric]) -> None:
        self.found = found

    def collect(self) -> Iterable[Metric]:
        """Return them."""
        return self.found


def store_families(up: bool) -> list[Metric]:
    """Return the metric that says whether the store could be read."""
    return [GaugeMetricFamily("reveal_store_up", "Whether the store could be read", value=float(up))]


def fleet_families(fleet: FleetState) -> list[Metric]:
    """Return the metrics of a fleet.

    Closed incidents are in no series but the counts, and forgotten hosts in none at all, so the number of
    series follows the hosts that there are and what is on.
    """
    found = store_families(True)
    found.append(_gauge("reveal_export_timestamp_seconds", "When the store was read", _stamp(fleet.at)))
    found.append(_gauge("reveal_export_duration_seconds", "How long reading the store took", fleet.took_s))
    found.append(_gauge("reveal_hosts", "Hosts that these metrics are of", len(fleet.hosts)))
    found.append(
        _gauge(
            "reveal_hosts_forgotten",
            "Hosts that were judged last too long ago to be told of",
            fleet.forgotten,
        )
    )
    found.append(
        _gauge(
            "reveal_alarm_budget_per_host_day",
            "Incidents per host and day that the alarm budget of the settings allows",
            fleet.budget,
        )
    )
    report = InfoMetricFamily("reveal_report", "The newest report")
    if fleet.report:
        report.add_metric([], {"report": fleet.report})
    return [*found, report, *_of_hosts(fleet.hosts), *_of_incidents(fleet)]


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value=value)


def _stamp(time: datetime) -> float:
    return time.timestamp()


def _of_hosts(hosts: Sequence[HostState]) -> list[Metric]:
    judged = _by_host("reveal_host_last_judged_timestamp_seconds", "Until when the host was judged")
    score = _by_host(
        "reveal_host_score_ratio", "Score over threshold of the newest window judged; an alarm from 1 on"
    )
    highest = _by_host(
        "reveal_host_score_max_ratio", "Highest score over threshold in the last five minutes judged"
    )
    coverage = _by_host(
        "reveal_host_coverage_ratio", "Samples that came, of those due, in the last five minutes judged"
    )
    silent = _by_host("reveal_host_silent", "Whether no telemetry comes from the host")
    held = _by_host("reveal_host_held", "Whether the host is held in another regime")
    count = _by_host("reveal_host_open_incidents", "Incidents of the host that are on")
    begun = _by_host("reveal_host_incidents_last_day", "Incidents that began within the last 24 hours")
    judged_s = _by_host("reveal_host_judged_last_day_seconds", "Time judged of the last 24 hours")
    for host in hosts:
        label = [host.host]
        if host.judged is not None:
            judged.add_metric(label, _stamp(host.judged))
        if host.levels is not None:
            coverage.add_metric(label, host.levels.coverage)
            if host.levels.score is not None and host.levels.highest is not None:
                score.add_metric(label, host.levels.score)
                highest.add_metric(label, host.levels.highest)
        silent.add_metric(label, float(host.silent))
        held.add_metric(label, float(host.held))
        count.add_metric(label, len(host.incidents))
        begun.add_metric(label, host.begun)
        judged_s.add_metric(label, host.judged_s)
    return [judged, score, highest, coverage, silent, held, count, begun, judged_s]


def _by_host(name: str, help_text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help_text, labels=["host"])


def _of_incidents(fleet: FleetState) -> list[Metric]:
    every = fleet.open_incidents
    on = GaugeMetricFamily(
        "reveal_incident_open", "1 for an incident that is on", labels=["host", "subsystem", "cause", "id"]
    )
    score = GaugeMetricFamily(
        "reveal_incident_score_ratio",
        "Score over threshold of the strongest window of an incident that is on",
        labels=["host", "id"],
    )
    start = GaugeMetricFamily(
        "reveal_incident_start_timestamp_seconds",
        "When an incident that is on came the first time",
        labels=["host", "id"],
    )
    for entry in every[:MOST_INCIDENTS]:
        on.add_metric([entry.host, entry.subsystem, entry.cause or UNKNOWN, entry.id], 1.0)
        start.add_metric([entry.host, entry.id], _stamp(entry.first))
        if math.isfinite(entry.score):
            score.add_metric([entry.host, entry.id], entry.score)
    total = CounterMetricFamily(
        "reveal_incidents", "How often incidents came", labels=["host", "subsystem", "cause"]
    )
    shown = {host.host for host in fleet.hosts}
    for (host, subsystem, cause), count in sorted(fleet.comings.items()):
        if host in shown:
            total.add_metric([host, subsystem, cause], count)
    unlisted = _gauge(
        "reveal_incidents_unlisted",
        f"Incidents that are on beyond the {MOST_INCIDENTS} strongest, which have series of their own",
        max(0, len(every) - MOST_INCIDENTS),
    )
    return [on, score, start, unlisted, total]


def render(found: Sequence[Metric]) -> str:
    """Return metrics in Prometheus' text format."""
    return generate_latest(Families(found)).decode("utf-8")


def samples_of(found: Sequence[Metric]) -> list[dict[str, Any]]:
    """Return samples as plain values: ``name``, ``labels``, ``value``."""
    return [
        {"name": sample.name, "labels": dict(sample.labels), "value": sample.value}
        for metric in found
        for sample in metric.samples
    ]
