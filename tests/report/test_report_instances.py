"""Which instance it was, what peers showed, and levels before, during and after."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from fleet_samples import EMPTY, FACTS, Fault, incident, series
from fleet_samples import START as HOUR
from fleet_samples import host_input as fleet_host
from report_samples import CREATED, END, MODEL, START, evidence, host_input
from report_samples import incident as sample_incident
from report_samples import series as sample_series

from reveal_core.channels import Channel
from reveal_core.incidents import OPEN
from reveal_core.report.instances import MAX_INSTANCES, instance_picture
from reveal_core.report.model import build_report
from reveal_core.report.page import host_phrase
from reveal_core.report.peers import MAX_PEERS, with_peers
from reveal_core.report.plots import metric_plots
from reveal_core.report.render_html import render_html
from reveal_core.report.render_json import report_dict
from reveal_core.report.strips import picture_sentence, strip
from reveal_core.report.types import HostInput
from reveal_core.telemetry import Series

HOT = Fault(60, 40, "cpu", {"cpu.busy/cpu17": 98.0})


def picture(faults=(HOT,), cores: int = 64, **fields: object):
    found = replace(incident("n", faults[0]), **fields)
    return instance_picture(found, series("n", faults, 160, cores=cores))


def test_the_instance_that_moved_is_marked() -> None:
    shown = picture()
    assert (shown.noun, len(shown.instances), shown.left_out) == ("core", 64, 0)
    assert [level.instance for level in shown.instances[:3]] == ["cpu0", "cpu1", "cpu2"]
    (moved,) = shown.moved
    assert moved.instance == "cpu17"
    assert moved.before == pytest.approx(41, abs=4)
    assert moved.during == pytest.approx(98, abs=4)
    assert picture_sentence(shown).startswith("CPU busy time: cpu17 went from 4")
    assert "The other 63 cores went from" in picture_sentence(shown)


def test_others_that_moved_as_far_are_marked_too() -> None:
    half = Fault(60, 40, "cpu", {"cpu.busy/cpu17": 98.0, "cpu.busy/cpu3": 80.0, "cpu.busy/cpu9": 55.0})
    assert [level.instance for level in picture([half]).moved] == ["cpu3", "cpu17"]
    every = Fault(60, 40, "cpu", {f"cpu.busy/cpu{n}": 90.0 for n in range(64)})
    sentence = picture_sentence(picture([every]))
    assert "all 64 cores moved, from 40" in sentence
    assert "other" not in sentence


def test_of_very_many_instances_those_that_changed_most_are_shown() -> None:
    shown = picture([Fault(60, 40, "cpu", {"cpu.busy/cpu599": 98.0})], cores=600)
    assert (len(shown.instances), shown.left_out) == (MAX_INSTANCES, 88)
    assert shown.instances[-1].instance == "cpu599"
    assert "88 more that changed least are not shown." in picture_sentence(shown)


def test_a_strip_is_drawn_to_one_scale() -> None:
    drawn = strip(picture())
    assert drawn.size == "some"
    assert max(bar.during for bar in drawn.bars) == 100.0
    assert all(0 <= bar.before <= 100 for bar in drawn.bars)
    assert drawn.full.startswith("0 to 9")
    assert (strip(picture(cores=18)).size, strip(picture(cores=512)).size) == ("some", "all")
    assert strip(picture([Fault(60, 40, "gpu", {"gpu.power/GPU-5": 400.0})])).size == "few"


def test_no_picture_where_a_metric_has_one_instance_or_no_sample() -> None:
    lone = sample_incident(1, 200, 9, "network", [evidence("tcp.RetransSegs/reveal-lab", 310, 1.0, 0.0)])
    assert instance_picture(lone, sample_series()) is None
    assert picture([Fault(900, 40, "cpu", {"cpu.busy/cpu17": 98.0})]) is None


def test_an_instance_that_appears_or_falls_silent() -> None:
    base = series("n", (), 160, cores=4)
    here = (pl.col("ts") > HOUR + timedelta(seconds=60)) & (pl.col("ts") < HOUR + timedelta(seconds=100))
    frame = base.frame.with_columns(
        pl.when(here).then(pl.col("cpu.busy/cpu0")).alias("cpu.busy/cpu0"),
        pl.when(~here).then(pl.col("cpu.busy/cpu1")).alias("cpu.busy/cpu1"),
    )
    found = incident("n", Fault(60, 40, "cpu", {"cpu.busy/cpu0": 98.0}))
    shown = instance_picture(found, replace(base, frame=frame))
    assert (shown.instances[0].before, shown.instances[1].during) == (None, None)
    assert strip(shown).bars[0].before is None
    assert "cpu0 was at" in picture_sentence(shown)


def test_a_spread_is_compared_as_a_spread() -> None:
    ts = pl.Series(
        [HOUR + timedelta(milliseconds=100 * n) for n in range(1200)], dtype=pl.Datetime("ns", "UTC")
    )
    calm = [50.0] * 1200
    wild = [50.0] * 600 + [20.0, 80.0] * 150 + [50.0] * 300
    names = ("cpu.busy/cpu0", "cpu.busy/cpu1")
    channels = {n: Channel(n, "cpu.busy", n[-4:], "cpu", "gauge", "%", "stat", 100) for n in names}
    both = Series("n", pl.DataFrame({"ts": ts, names[0]: calm, names[1]: wild}), channels)
    moved = replace(evidence("cpu.busy/cpu1", 30, 1.0, 0.0), part="max", statistic="spread", normal_low=0.0)
    found = replace(incident("n", Fault(60, 30, "cpu", {"cpu.busy/cpu1": 30.0})), metrics=(moved,))
    shown = instance_picture(found, both)
    assert [round(level.during) for level in shown.instances] == [0, 30]
    assert picture_sentence(shown).startswith("CPU busy time, spread: cpu1 went from 0")


def test_peers_are_the_means_of_the_same_quantity() -> None:
    found = incident("n", HOT)
    others = [series(f"p{n}", (), 160, cores=8 * n) for n in (1, 2, 3)]
    busy = with_peers(found, others).metrics[0]
    assert busy.peers == 3
    # The highest core of a healthy host: the level, and what its samples swing.
    assert 41 < busy.peers_low <= busy.peers_high < 52
    exact = replace(found, metrics=(replace(found.metrics[0], part="value"),))
    assert with_peers(exact, others).metrics[0].peers == 1
    trend = replace(found, metrics=(replace(found.metrics[0], statistic="trend"),))
    assert with_peers(trend, others).metrics[0].peers == 0


def test_hosts_without_samples_are_no_peers() -> None:
    found = incident("n", HOT)
    late = series("late", (), 30)
    for others in ([], [Series("a", EMPTY, {})], [Series("b", pl.DataFrame(), {})], [late]):
        metric = with_peers(found, others).metrics[0]
        assert (metric.peers, metric.peers_low, metric.peers_high) == (0, None, None)


def test_of_very_many_peers_some_are_looked_at() -> None:
    other = series("p", (), 160, cores=2)
    assert with_peers(incident("n", HOT), [other] * 500).metrics[0].peers == MAX_PEERS


def test_peers_are_looked_for_among_those_that_have_the_metric() -> None:
    """Of a host whose own incident is another one, a report may hold other metrics only."""
    channels = {"x": Channel("x", "nic.rx", "", "network", "gauge", "/s", "netdev", 100)}
    other = Series("o", pl.DataFrame({"ts": series("o", (), 160).frame["ts"], "x": 1.0}), channels)
    among = [*[other] * 400, series("p", (), 160, cores=2), *[other] * 300]
    assert with_peers(incident("n", HOT), among).metrics[0].peers == 1


def test_a_report_says_what_peers_showed() -> None:
    hosts = [fleet_host("a", [HOT], 160, cores=20), fleet_host("b", (), 160, cores=20)]
    report = build_report("r", "t", CREATED, HOUR, HOUR + timedelta(seconds=160), hosts, MODEL)
    (shown,) = report_dict(report)["incidents"]
    assert shown["metrics"][0]["peers"] == 1
    assert shown["instances"]["noun"] == "core"
    html = render_html(report)
    assert "Peers are the other hosts of this report" in html
    assert "1 host</span>" in html


def test_levels_before_during_and_after() -> None:
    found = incident("n", HOT)
    (plot, *_), _ = metric_plots(found, series("n", [HOT], 160))
    assert plot.levels.before == pytest.approx(45, abs=5)
    assert plot.levels.during == pytest.approx(98, abs=4)
    assert plot.levels.after == pytest.approx(45, abs=5)
    (open_still, *_), _ = metric_plots(replace(found, state=OPEN), series("n", [HOT], 160))
    assert open_still.levels.after is None


@pytest.mark.parametrize("frame", [EMPTY, pl.DataFrame()])
def test_a_quiet_host_may_come_without_samples(frame: pl.DataFrame) -> None:
    quiet = host_input("b", incidents=[], series=Series("b", frame, {}))
    report = build_report("r", "t", CREATED, START, END, [host_input("a"), quiet], MODEL)
    (_, host) = report.hosts
    assert host.channels == sum(source.channels for source in host.sources)
    assert {source.coverage for source in host.sources} == {None}
    assert report.incidents[0].incident.metrics[0].peers == 0
    assert render_html(report)


def test_a_struck_host_may_come_without_samples_too() -> None:
    bare = replace(fleet_host("a", [HOT], 160), series=Series("a", EMPTY, {}))
    assert isinstance(bare, HostInput)
    report = build_report("r", "t", CREATED, HOUR, HOUR + timedelta(seconds=160), [bare], MODEL)
    assert report.incidents[0].picture is None
    assert "there are no samples of these metrics" in render_html(report)


def test_a_host_in_words() -> None:
    assert host_phrase(FACTS) == "AMD EPYC 9554, 64 CPUs, 8 GPUs, kernel 6.18.0"
    assert host_phrase({"cpu": "odd", "gpus": None}) == ""
