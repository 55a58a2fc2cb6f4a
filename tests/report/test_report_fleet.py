"""The page of a fleet: heat map, one row for what many hosts share, trend, coverage, and their bounds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pytest
from fleet_samples import HOUR_S, START, Fault, host_input, trend
from page_parser import Page
from report_samples import CREATED, LOSS, MODEL
from sample_reports import fifty_hosts, one_incident, quiet_hour

from reveal_core.incidents import OPEN, FleetIncident
from reveal_core.report.attention import MAX_AT_LENGTH
from reveal_core.report.charts import subsystem_counts, trend_chart, trend_rows, trend_sentence
from reveal_core.report.coverage import coverage_of, source_summaries
from reveal_core.report.heatmap import MAX_COLUMNS, ROW, heat_map, highest
from reveal_core.report.model import Trend, build_report
from reveal_core.report.page import MAX_TIMELINES, page_of
from reveal_core.report.render_html import render_html
from reveal_core.report.render_json import report_dict
from reveal_core.report.render_markdown import render_markdown

SHORT_S = 420


@pytest.fixture(scope="module")
def fifty():
    return fifty_hosts()


@pytest.fixture(scope="module")
def html(fifty):
    return render_html(fifty)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


def short(*hosts, **more):
    """Return a report of some minutes of hosts."""
    return build_report("r", "t", CREATED, START, START + timedelta(seconds=SHORT_S), hosts, MODEL, **more)


def test_headline_names_what_many_hosts_share(fifty):
    assert fifty.headline == (
        "19 incidents on 18 of 50 hosts between 20:11 and 21:00 UTC: packets are lost on the way on "
        "14 hosts of rack-7-*; 15 still open"
    )


def test_the_page_of_fifty_hosts_is_whole(page):
    assert page.open == []
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for a in page.named("a")}
    assert targets <= set(ids)
    assert sum("mark" in (a.get("class") or "") for a in page.named("a")) == 19


def test_one_row_opens_to_the_members_and_few_are_told_at_length(page):
    rows = [a for a in page.named("tr") if a.get("class") == "fleet"]
    assert [a["id"] for a in rows] == ["fleet-1"]
    assert len(page.named("article")) == 3 + 5
    members = [a["id"] for a in page.named("li") if a.get("id")]
    assert len(members) == 14 - 3
    text = re.sub(r"\s+", " ", " ".join(page.text))
    for sentence in (
        "the same on 14 hosts of rack-7-*, of 49 hosts judged",
        "12th time, first on 2026-11-23 at 17:00 UTC comes and goes known: disk swap is booked",
        "silenced: maintenance of rack 8 until 21:00 UTC",
        "rack-6-19: not scored: its store folder holds no telemetry of this time.",
        "32 hosts without an incident",
        "What to do: take the host out of service",
        "Source: arXiv 2510.26008, case 3",
        "Each of the 32 hosts",
        "nothing could be judged: no telemetry",
        "a gap of 6 min 48 s",
        "111 incidents in 14 days",
        "exceeded on 1 day",
    ):
        assert sentence in text, sentence


def test_what_is_set_aside_comes_last(fifty):
    shown = [matter.members[0].incident.host for matter in page_of(fifty).first]
    assert shown[:2] == ["rack-7-01", "rack-8-11"]
    assert shown[-2:] == ["rack-6-05", "rack-8-02"]


def test_heat_map_rows_follow_attention_and_cells_are_the_highest_score(fifty):
    heat = heat_map(fifty, ())
    assert heat.struck.names[0].startswith("rack-7-")
    assert set(heat.struck.names) == {i.incident.host for i in fifty.incidents}
    assert heat.quiet.names[:2] == ("rack-6-01", "rack-6-02")
    assert len(heat.quiet.names) == 32
    assert heat.together.names == ("all of them",)
    assert heat.struck.columns == MAX_COLUMNS
    assert heat.struck.height == 18 * ROW
    host = next(host for host in fifty.hosts if host.host == "rack-8-11")
    cells = highest(host, fifty.start, fifty.end, 60)
    assert np.nanmax(cells) == pytest.approx(8.7, rel=0.02)
    assert (cells[39:] > 1).all()
    assert (cells[:38] < 1.1).all()
    silent = next(host for host in fifty.hosts if host.host == "rack-8-18")
    assert np.isnan(highest(silent, fifty.start, fifty.end, 60)).all()


def test_cells_cover_every_row_once(fifty):
    heat = heat_map(fifty, ())
    for block in (heat.struck, heat.quiet, heat.together):
        runs = re.findall(r"M(\d+) (\d+)h(\d+)", "".join(block.cells) + block.gaps)
        covered = np.zeros((len(block.names), block.columns), dtype=int)
        for x, y, width in runs:
            covered[int(y) // ROW, int(x) : int(x) + int(width)] += 1
        assert (covered == 1).all()


def test_marks_that_would_lie_over_each_other_become_one():
    faults = [Fault(100 + 8 * n, 5, name, {"cpu.busy/cpu0": 90.0}) for n, name in enumerate(("cpu", "gpu"))]
    faults.append(Fault(300, 20, "storage", {"disk.await/nvme0n1": 9.0}))
    report = short(host_input("a", faults, SHORT_S), host_input("b", (), SHORT_S))
    marks = heat_map(report, {"incident-1-a-0001"}).struck.marks
    assert [mark.text for mark in marks] == ["2", "S"]
    assert marks[0].label == "Incidents 1, 2 on a: CPU, GPU"
    assert [mark.anchor for mark in marks] == ["incident-1-a-0001", ""]
    assert heat_map(report, ()).together is None


def test_a_heat_map_of_hosts_without_any_window():
    silent = [(0, SHORT_S)]
    hosts = [host_input(name, (), SHORT_S, silent=silent) for name in "ab"]
    gone = [replace(h, scores=replace(h.scores, frame=h.scores.frame.clear())) for h in hosts]
    for report in (short(*hosts), short(*gone)):
        assert "".join(heat_map(report, ()).quiet.cells) == ""
        assert Page(render_html(report)).open == []


def test_few_hosts_are_shown_one_by_one():
    hosts = [host_input(f"n{n}", (), SHORT_S) for n in range(5)]
    few, many = page_of(short(*hosts[:4])), page_of(short(*hosts))
    assert (len(few.timelines), few.coverage) == (4, None)
    assert many.timelines == ()
    assert many.coverage.whole == 5
    assert page_of(short(hosts[0])).heat is None


def test_large_fleets_stay_within_bounds(monkeypatch):
    monkeypatch.setattr("reveal_core.report.page.ROWS_SHOWN", 10)
    monkeypatch.setattr("reveal_core.report.page.MAX_ROWS", 52)
    monkeypatch.setattr("reveal_core.report.heatmap.MAX_STRUCK", 20)
    monkeypatch.setattr("reveal_core.report.coverage.MAX_ROWS", 5)
    fault = Fault(100, 30, "memory", {"meminfo.Dirty": 500e6})
    base = host_input("n", [fault], SHORT_S, sampled=False, silent=[(300, 400)])
    (incident,) = base.incidents
    hosts = [
        replace(base, host=f"n{n}", incidents=[replace(incident, id=f"n{n}-0001", host=f"n{n}")])
        for n in range(62)
    ]
    report = short(*hosts)
    shown = page_of(report)
    assert (len(shown.first), len(shown.rest), shown.left_out) == (10, 42, 10)
    assert len(shown.at_length) == MAX_AT_LENGTH
    assert len(shown.timelines) == MAX_TIMELINES
    assert len(shown.heat.struck.names) == 20
    assert len(shown.heat.quiet.names) == 42
    assert (len(shown.coverage.rows), shown.coverage.more) == (5, 57)
    text = render_html(report)
    parsed = Page(text)
    assert parsed.open == []
    assert {a["href"][1:] for a in parsed.named("a")} <= {a["id"] for _, a in parsed.elements if a.get("id")}
    assert "10 more incidents in the report" in text
    assert len(report_dict(report)["incidents"]) == 62


def test_subsystems_are_counted(fifty):
    counts = {c.name: (c.incidents, c.open, c.hosts) for c in subsystem_counts(fifty)}
    assert counts == {
        "network": (14, 14, 14),
        "memory": (2, 0, 2),
        "cpu": (1, 0, 1),
        "gpu": (1, 1, 1),
        "storage": (1, 0, 1),
    }  # fmt: skip
    assert subsystem_counts(fifty)[0].share == pytest.approx(14 / 19)


def test_trend_beside_the_budget():
    rows = trend_rows(trend())
    assert [row.over for row in rows].count(True) == 1
    assert rows[-1].allowed == pytest.approx(45)
    assert trend_sentence(trend()) == (
        "111 incidents in 14 days over 695 host-days: 0.16 per host and day, where the budget allows 1 per "
        "host and day; exceeded on 1 day."
    )
    chart = trend_chart(trend())
    assert len(chart.bars) == 14
    assert all(bar.allowed is not None for bar in chart.bars)
    assert max(bar.height for bar in chart.bars) == chart.bars[8].height
    quiet = replace(trend(), counts=(0,) * 14, host_days=(900.0,) * 14)
    assert all(bar.allowed is None and bar.height == 0 for bar in trend_chart(quiet).bars)


@pytest.mark.parametrize("days", [1, 2, 40])
def test_a_trend_of_any_length_is_drawn(days):
    first = date(2026, 11, 29)
    made = Trend(tuple(first + timedelta(days=n) for n in range(days)), (1,) * days, (0.0,) * days, 0.0)
    chart = trend_chart(made)
    assert len(chart.bars) == min(days, 31)
    assert chart.ticks[-1].text == f"{made.days[-1]:%m-%d}"
    assert all(bar.over for bar in chart.bars)
    assert "No telemetry was judged" in trend_sentence(made)
    assert Page(render_html(short(host_input("a", (), SHORT_S), trend=made))).open == []


def test_a_trend_without_days_is_none():
    assert short(host_input("a", (), SHORT_S), trend=Trend((), (), (), 1.0)).trend is None


def test_hosts_with_less_telemetry_are_listed_the_least_first(fifty):
    coverage = coverage_of(fifty)
    assert [row.host for row in coverage.rows] == ["rack-8-18", "rack-6-09", "rack-8-04"]
    assert (coverage.whole, coverage.more) == (47, 0)
    assert coverage.rows[0].coverage is None
    (gap,) = coverage.rows[1].gaps
    assert gap.x == pytest.approx(25, abs=0.2)
    assert gap.width == pytest.approx(11.4, abs=0.2)


def test_sources_are_summed_over_hosts(fifty):
    sources = {source.source: source for source in source_summaries(fifty.hosts)}
    assert (sources["power"].measured, sources["power"].absent) == (0, 50)
    assert sources["power"].reasons == ("no domain under /sys/class/powercap (50 hosts)",)
    assert sources["gpu"].measured == 50
    assert source_summaries(fifty.hosts)[-1].source == "power"


def test_json_of_a_fleet(fifty):
    data = json.loads(json.dumps(report_dict(fifty), allow_nan=False))
    (shared,) = data["fleet"]
    assert (shared["where"], len(shared["incidents"])) == ("rack-7-*", 14)
    assert shared["start"] == "2026-11-29T20:31:30.400Z"
    assert data["trend"]["days"][-1] == {
        "day": "2026-11-29", "incidents": 19, "host_days": 45.0, "allowed": 45.0,
    }  # fmt: skip
    by_id = {incident["id"]: incident for incident in data["incidents"]}
    known = by_id["rack-6-05-0001"]
    assert known["history"]["label"] == "known"
    assert known["history"]["first"] == "2026-11-23T17:00:00.000Z"
    assert known["attention"] == 18
    assert known["fleet"] is None
    lost = by_id["rack-7-03-0001"]
    assert (lost["state"], lost["fleet"]) == (OPEN, "fleet-rack-7-01-0001")
    assert lost["metrics"][0]["peers"] == 21
    assert lost["metrics"][0]["role"] == "cause"
    assert lost["causes"][0]["action"] == "inspect-hardware"
    assert lost["levels"][0]["unit"] == "/s"
    assert sorted(incident["attention"] for incident in data["incidents"]) == list(range(1, 20))


def test_markdown_of_a_fleet(fifty):
    text = render_markdown(fifty)
    assert "**14 hosts of rack-7-\\***" in text
    assert "14 open |" in text
    assert "What to do (take the host out of service): Take the host out of the job" in text
    assert (
        "resolved, 12th time, first on 2026-11-23 at 17:00 UTC, comes and goes, known: disk swap is booked"
        in text
    )
    assert "Clock of the compute units: GPU-5 went from" in text
    assert "where the budget allows 1 per host and day" in text


def test_a_fleet_incident_on_the_page_of_one_host():
    shared = FleetIncident(
        "f", "network", LOSS.id, LOSS.title, ("a", "b"), 9, "", START, START, ("a-0001", "b-1")
    )
    fault = Fault(100, 30, "network", {"tcp.RetransSegs/host": 300.0}, LOSS)
    alone = short(host_input("a", [fault], SHORT_S), fleet=[shared])
    parsed = Page(render_html(alone))
    assert parsed.open == []
    cells = [a for a in parsed.named("th") if a.get("role") == "columnheader"]
    assert "the same on 2 hosts, of 9 hosts judged" in " ".join(parsed.text)
    assert len(cells) >= 7


@pytest.mark.parametrize("sample", [quiet_hour, one_incident])
def test_pages_of_one_host(sample):
    report = sample()
    parsed = Page(render_html(report))
    assert parsed.open == []
    assert page_of(report).heat is None
    assert len(parsed.named("article")) == len(report.incidents)
    assert "Incidents per day" in " ".join(parsed.text)
    assert report.end - report.start == timedelta(seconds=HOUR_S)
