"""The dashboard and the rules over the exporter's metrics: they hold together, and Prometheus reads them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from exporting_samples import NOW, UNTIL, judged
from incident_samples import incident_at

from reveal_core.exporting.fleet import FleetState, Levels, host_state
from reveal_core.exporting.prometheus import fleet_families, samples_of

FOLDER = Path(__file__).parents[2] / "deployments"
RULES = FOLDER / "prometheus" / "reveal.rules.yml"
DASHBOARD: dict[str, Any] = json.loads((FOLDER / "grafana" / "reveal-fleet.json").read_text(encoding="utf-8"))
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (package prometheus)")
VARIABLES = {"$host": ".*", "$__range": "6h", "$__rate_interval": "5m", "$__interval": "1m"}
"""What Grafana puts in place of its variables."""
_METRIC = re.compile(r"\breveal_\w+")


def exported() -> set[str]:
    """Return the names of all that the exporter tells."""
    on = incident_at(590, UNTIL, state="open")
    state = host_state(judged("node-1", on), NOW, levels=Levels(1.0, 2.0, 1.0))
    comings = {("node-1", "network", "packet-loss"): 1}
    return {s["name"] for s in samples_of(fleet_families(FleetState(NOW, (state,), 0, comings, 1.0, "r")))}


def targets() -> Iterator[tuple[int, dict[str, Any]]]:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["id"], target


def expressions() -> list[str]:
    found = []
    for _, target in targets():
        text = target["expr"]
        for name, value in VARIABLES.items():
            text = text.replace(name, value)
        found.append(text)
    return found


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def promtool(*arguments: str) -> None:
    done = subprocess.run([str(PROMTOOL), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_holds_together() -> None:
    assert {"title", "uid", "panels", "templating", "schemaVersion", "time"} <= set(DASHBOARD)
    assert "id" not in DASHBOARD  # it is the instance's to give
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert {"type", "title", "gridPos", "datasource", "targets", "fieldConfig", "options"} <= set(panel)
        assert panel["targets"]
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names)
        assert set(panel["fieldConfig"]) == {"defaults", "overrides"}


def test_no_panel_lies_on_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] >= 0
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_question_goes_to_the_datasource_that_is_chosen() -> None:
    variables = {one["name"]: one for one in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert all(target["datasource"] == chosen for _, target in targets())
    assert all(panel["datasource"] == chosen for panel in DASHBOARD["panels"])
    assert variables["host"]["datasource"] == chosen
    text = json.dumps(DASHBOARD)
    used = set(re.findall(r"\$\{?(\w+)", text)) - {"__range", "__all", "__data"}
    assert used == set(variables)


def test_columns_that_are_named_in_tables_are_there() -> None:
    for panel in DASHBOARD["panels"]:
        if panel["type"] != "table":
            continue
        (organize,) = [one for one in panel["transformations"] if one["id"] == "organize"]
        (sort,) = [one for one in panel["transformations"] if one["id"] == "sortBy"]
        renamed = set(organize["options"]["renameByName"].values())
        assert {one["field"] for one in sort["options"]["sort"]} <= renamed
        overridden = {one["matcher"]["options"] for one in panel["fieldConfig"]["overrides"]}
        assert overridden <= renamed | set(organize["options"]["indexByName"])
        letters = {f"Value #{target['refId']}" for target in panel["targets"]}
        named = set(organize["options"]["indexByName"]) | set(organize["options"]["excludeByName"])
        assert letters <= named or len(letters) == 1


def test_all_that_is_asked_for_is_exported_and_all_that_is_exported_is_shown() -> None:
    asked = {name for text in expressions() for name in _METRIC.findall(text)}
    assert asked <= exported()
    assert exported() - asked == set()
    variables = json.dumps(DASHBOARD["templating"])
    assert set(_METRIC.findall(variables)) <= exported()


def test_rules_ask_for_what_is_exported() -> None:
    asked = {name for rule in rules() for name in _METRIC.findall(rule["expr"])}
    assert asked <= exported()
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    assert all(rule["labels"]["severity"] and rule["annotations"]["summary"] for rule in rules())


@needs_promtool
def test_prometheus_reads_the_rules() -> None:
    promtool("check", "rules", str(RULES))


@needs_promtool
def test_prometheus_reads_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    recorded = [
        {"record": f"dashboard:expression_{number}", "expr": text}
        for number, text in enumerate(expressions())
    ]
    path = tmp_path / "dashboard.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}))
    promtool("check", "rules", str(path))


HERE = 'job="reveal",instance="i"'
SERIES = {
    f'reveal_host_silent{{host="a",{HERE}}}': "0x4 1x20",
    f'reveal_host_silent{{host="b",{HERE}}}': "0x24",
    f'reveal_host_last_judged_timestamp_seconds{{host="a",{HERE}}}': "0x24",
    f'reveal_host_last_judged_timestamp_seconds{{host="b",{HERE}}}': "0+60x24",
    f'reveal_host_coverage_ratio{{host="a",{HERE}}}': "1x24",
    f'reveal_host_coverage_ratio{{host="b",{HERE}}}': "0.25x24",
    f'reveal_incident_open{{host="b",subsystem="cpu",cause="steal",id="n",{HERE}}}': "_x9 1x4 stale",
    f"reveal_store_up{{{HERE}}}": "1x4 0x20",
    f"reveal_export_timestamp_seconds{{{HERE}}}": "0x24",
    f'reveal_report_info{{report="r-1",{HERE}}}': "1x24",
    f'reveal_incidents_total{{host="b",subsystem="cpu",cause="steal",{HERE}}}': "_x30 2x60",
    f'reveal_incidents_total{{host="a",subsystem="gpu",cause="unknown",{HERE}}}': "5x90",
    f"reveal_hosts{{{HERE}}}": "2x90",
}
"""Two hosts, a sample a minute: one falls silent, the other delivers little and has an incident."""


@needs_promtool
def test_alerts_fire_when_they_should_and_tables_hold_what_they_should(tmp_path: Path) -> None:
    by_title = {panel["title"]: panel for panel in DASHBOARD["panels"]}

    def first(title: str) -> str:
        return str(by_title[title]["targets"][0]["expr"]).replace("$host", ".*")

    def firing(minute: int, *alerts: str) -> dict[str, Any]:
        samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in alerts]
        expr = 'count by (alertname) (ALERTS{alertstate="firing"})'
        return {"expr": expr, "eval_time": f"{minute}m", "exp_samples": samples}

    table = f'{{host="b",subsystem="cpu",cause="steal",id="n",report="r-1",{HERE}}}'
    expected = [
        firing(3),
        firing(5, "RevealHostSilent"),
        firing(11, "RevealHostSilent", "RevealIncidentOpen", "RevealStoreDown"),
        # An incident that is over drops out. Host a is silent, so that nobody judges it is no news.
        firing(24, "RevealHostSilent", "RevealStoreDown", "RevealCoverageLow", "RevealExportStale"),
        {
            "expr": first("Incidents that are on"),
            "eval_time": "11m",
            "exp_samples": [{"labels": table, "value": 1}],
        },
        {"expr": first("Incidents that are on"), "eval_time": "20m", "exp_samples": []},
        {
            "expr": first("Incidents an hour, by subsystem"),
            "eval_time": "70m",
            "exp_samples": [
                {"labels": '{subsystem="cpu"}', "value": 2},
                {"labels": '{subsystem="gpu"}', "value": 0},
            ],
        },
        {
            "expr": first("Silent hosts"),
            "eval_time": "10m",
            "exp_samples": [{"labels": '{host="a"}', "value": 600}],
        },
    ]
    series = [{"series": name, "values": values} for name, values in SERIES.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": expected}
    path = tmp_path / "test.yml"
    path.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]})
    )
    promtool("test", "rules", str(path))
