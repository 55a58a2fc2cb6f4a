"""A fleet as Prometheus metrics: names, types, labels, and how many there are."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

import pytest
from exporting_samples import NOW, UNTIL, judged
from hypothesis import given, settings
from hypothesis import strategies as st
from incident_samples import at, incident_at
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from reveal_core.exporting import prometheus
from reveal_core.exporting.fleet import FleetState, HostState, Levels, host_state
from reveal_core.exporting.prometheus import fleet_families, render, samples_of, store_families

PROMTOOL = shutil.which("promtool")
ODD = 'rack "7"\\n\nnode 1 {ü}, :smile: # [b]'
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def fleet(*hosts: HostState, **more: object) -> FleetState:
    comings = {(host.host, "network", "packet-loss"): 2 for host in hosts}
    return replace(FleetState(NOW, hosts, 1, comings, 1.5, "20261129T120500Z-score-0a1b2c", 0.25), **more)  # type: ignore[arg-type]


def struck(host: str) -> HostState:
    on = incident_at(590, UNTIL, host=host, score=4.5, state="open")
    closed = incident_at(60, 70, "memory-pressure", host=host)
    return host_state(judged(host, closed, on), NOW, levels=Levels(1.25, 2.5, 0.75))


def parsed(text: str) -> Samples:
    """Return samples as Prometheus' own client reads them back."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found
            found[key] = sample.value
    return found


def of(samples: Samples, name: str, **labels: str) -> float:
    return samples[name, frozenset(labels.items())]


def test_what_is_told_of_a_fleet() -> None:
    found = parsed(render(fleet_families(fleet(struck("node-1"), HostState("node-2", at(100), silent=True)))))
    incident = "20261129T120950-node-1-packet-loss"
    assert of(found, "reveal_store_up") == 1
    assert of(found, "reveal_hosts") == 2
    assert of(found, "reveal_hosts_forgotten") == 1
    assert of(found, "reveal_alarm_budget_per_host_day") == 1.5
    assert of(found, "reveal_report_info", report="20261129T120500Z-score-0a1b2c") == 1
    assert of(found, "reveal_export_timestamp_seconds") == NOW.timestamp()
    assert of(found, "reveal_host_last_judged_timestamp_seconds", host="node-1") == at(UNTIL).timestamp()
    assert of(found, "reveal_host_score_ratio", host="node-1") == 1.25
    assert of(found, "reveal_host_score_max_ratio", host="node-1") == 2.5
    assert of(found, "reveal_host_coverage_ratio", host="node-1") == 0.75
    assert of(found, "reveal_host_silent", host="node-1") == 0
    assert of(found, "reveal_host_silent", host="node-2") == 1
    assert of(found, "reveal_host_open_incidents", host="node-1") == 1
    assert of(found, "reveal_host_incidents_last_day", host="node-1") == 2
    assert of(found, "reveal_host_judged_last_day_seconds", host="node-1") == UNTIL
    labels = {"host": "node-1", "subsystem": "network", "cause": "packet-loss"}
    assert of(found, "reveal_incident_open", id=incident, **labels) == 1
    assert of(found, "reveal_incident_score_ratio", host="node-1", id=incident) == 4.5
    assert of(found, "reveal_incident_start_timestamp_seconds", host="node-1", id=incident) == (
        at(590).timestamp()
    )
    assert of(found, "reveal_incidents_total", **labels) == 2
    # Of a host whose windows are too long ago nothing is told that would pass for the present.
    assert ("reveal_host_score_ratio", frozenset({("host", "node-2")})) not in found


def test_closed_incidents_are_in_the_counts_alone() -> None:
    text = render(fleet_families(fleet(struck("node-1"))))
    assert text.count("reveal_incident_open{") == 1
    assert "memory-pressure" not in text


def test_a_fleet_without_hosts_has_names_and_types_alone() -> None:
    empty = fleet(comings={("gone", "cpu", "unknown"): 3}, report="")
    found = parsed(render(fleet_families(empty)))
    assert {name for name, _ in found} == {
        "reveal_store_up",
        "reveal_export_timestamp_seconds",
        "reveal_export_duration_seconds",
        "reveal_hosts",
        "reveal_hosts_forgotten",
        "reveal_alarm_budget_per_host_day",
        "reveal_incidents_unlisted",
    }
    assert parsed(render(store_families(False))) == {("reveal_store_up", frozenset()): 0.0}


def test_names_follow_the_conventions() -> None:
    families = fleet_families(fleet(struck("node-1")))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.name.startswith("reveal_")
        assert family.documentation
        assert family.type in ("gauge", "counter", "info")
        assert all(sample.name.endswith("_total") for sample in family.samples if family.type == "counter")


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (package prometheus)")
def test_the_text_passes_prometheus_own_linter() -> None:
    text = render(fleet_families(fleet(struck(ODD), struck("node-2"))))
    done = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@settings(max_examples=30, deadline=None)
@given(st.one_of(st.just(ODD), st.text(min_size=1, max_size=30)))
def test_labels_may_hold_anything(host: str) -> None:
    found = parsed(render(fleet_families(fleet(replace(struck("node-1"), host=host)))))
    assert of(found, "reveal_host_score_ratio", host=host) == 1.25


def test_of_very_many_incidents_the_strongest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "MOST_INCIDENTS", 3)
    hosts = [
        host_state(judged(name, incident_at(590, UNTIL, host=name, score=number, state="open")), NOW)
        for number, name in enumerate("abcde", 1)
    ]
    found = parsed(render(fleet_families(fleet(*hosts))))
    told = {dict(labels)["host"] for name, labels in found if name == "reveal_incident_open"}
    assert told == {"c", "d", "e"}
    assert of(found, "reveal_incidents_unlisted") == 2
    assert of(found, "reveal_host_open_incidents", host="a") == 1


def test_a_score_that_is_no_number_is_left_out() -> None:
    on = incident_at(590, UNTIL, state="open")
    ledger = judged("node-1", on)
    odd = replace(ledger, entries=tuple(replace(entry, score=float("nan")) for entry in ledger.entries))
    text = render(fleet_families(fleet(host_state(odd, NOW))))
    assert "reveal_incident_open{" in text
    assert "reveal_incident_score_ratio{" not in text
    assert "NaN" not in text


def test_samples_as_plain_values() -> None:
    families: list[Metric] = store_families(True)
    assert samples_of(families) == [{"name": "reveal_store_up", "labels": {}, "value": 1.0}]
