from dataclasses import replace
from datetime import timedelta

import polars as pl
import pytest
from report_samples import (
    CREATED,
    END,
    FAULTS,
    MODEL,
    NOTES,
    NS,
    START,
    evidence,
    faulty_incidents,
    host_input,
    incident,
    scores,
    series,
)

from reveal_core.channels import Channel
from reveal_core.errors import UsageError
from reveal_core.report.model import SourceNote, build_report
from reveal_core.report.plots import MAX_POINTS, metric_plots, timeline
from reveal_core.report.render_html import render_html
from reveal_core.report.render_json import report_dict
from reveal_core.report.render_markdown import render_markdown
from reveal_core.report.words import instance_phrase, metric_sentence, metric_title
from reveal_core.telemetry import Series


def report(*hosts, injected=(), start=START, end=END):
    return build_report("r1", "Demo", CREATED, start, end, hosts or [host_input()], MODEL, injected, NOTES)


def test_headline_counts_and_names_the_first():
    assert (
        report().headline
        == "3 incidents on node-17 between 20:15 and 20:17 UTC: first a network fault at 20:15:32"
    )


def test_headline_of_one_incident_names_its_cause():
    one = report(host_input(incidents=faulty_incidents()[:1]))
    assert one.headline == (
        "1 incident on node-17 at 2026-11-29 20:15:32 UTC: a network fault, "
        "most likely packets are lost on the way"
    )


def test_headline_of_many_hosts_names_where():
    both = report(host_input("a"), host_input("b"), host_input("c", incidents=[]))
    assert both.headline.startswith("6 incidents on 2 of 3 hosts between")
    assert both.headline.endswith("first a network fault on a at 20:15:32")
    assert [i.number for i in both.incidents] == [1, 2, 3, 4, 5, 6]
    assert {i.incident.host for i in both.hosts[1].incidents} == {"b"}


def test_quiet_host():
    assert report(host_input(incidents=[])).headline == (
        "Nothing unusual on node-17 from 2026-11-29 20:12:00 to 20:19:00 UTC"
    )


def test_silence_is_not_called_health():
    no_windows = host_input(incidents=[], scores=scores(windows=0), series=series(seconds=0))
    assert report(no_windows).headline.startswith("Nothing could be judged on node-17")
    assert report(no_windows).coverage is None
    half = scores()
    half = replace(half, frame=half.frame.with_columns(coverage=pl.lit(0.4)))
    assert report(host_input(incidents=[], scores=half)).headline.endswith("with 40 % of the telemetry there")
    beside = report(host_input("a", incidents=[]), replace(no_windows, host="b"))
    assert beside.headline.endswith("with no telemetry of 1 of them")


def test_gaps_are_where_windows_miss_samples():
    (host,) = report().hosts
    assert [((a - START).total_seconds(), (b - START).total_seconds()) for a, b in host.gaps] == [(122, 131)]
    late = report(host_input(end=END + timedelta(seconds=60)), end=END + timedelta(seconds=60)).hosts[0]
    assert late.gaps[-1] == (START + timedelta(seconds=419), END + timedelta(seconds=60))


def test_coverage_of_a_source_counts_missing_rows_and_slow_periods():
    sources = {s.source: s for s in report().hosts[0].sources}
    assert sources["cpu"].coverage == pytest.approx(0.9976, abs=1e-3)
    assert sources["meminfo"].coverage == pytest.approx(0.9976, abs=1e-2)
    assert sources["power"].coverage is None
    assert not sources["power"].available
    late = series()
    late = replace(late, frame=late.frame.filter(pl.col("ts") >= START + timedelta(seconds=210)))
    later = {s.source: s for s in report(host_input(series=late)).hosts[0].sources}
    assert later["cpu"].coverage == pytest.approx(0.5, abs=0.01)


def test_sources_come_from_channels_where_none_are_told():
    assert [s.source for s in report(host_input(sources=())).hosts[0].sources] == [
        "cpu", "disk", "meminfo", "net", "netns", "psi", "vmstat",
    ]  # fmt: skip


def test_timeline_keeps_every_peak():
    long = scores(windows=5000, incidents=faulty_incidents())
    drawn = timeline(long.frame)
    known = [r for r in drawn.ratio if r is not None]
    assert len(drawn.times_ms) <= MAX_POINTS
    assert max(known) == pytest.approx(long.frame["fused"].max() / 3.4, rel=1e-3)
    assert list(drawn.times_ms) == sorted(set(drawn.times_ms))


def test_metric_plot_is_scaled_and_reaches_around_the_incident():
    shown = report().incidents[0]
    assert [p.metric for p in shown.plots[:3]] == [
        "tcp.RetransSegs",
        "tcpext.TCPLostRetransmit",
        "net.rx_bytes",
    ]
    assert len(shown.plots) == 6
    received = shown.plots[2]
    assert received.unit == "MB/s"
    assert (received.low, received.high) == pytest.approx((8.2, 14.2))
    assert 65 <= len(received.values) <= 72
    middle = received.times_ms.index(
        min(received.times_ms, key=lambda t: abs(t / 1e3 - START.timestamp() - 217))
    )
    assert received.values[middle] == pytest.approx(2.0, abs=0.3)


def test_a_slow_channel_is_one_unbroken_line():
    dirty = report().incidents[2].plots[1]
    assert dirty.metric == "meminfo.Dirty"
    assert None not in dirty.values[1:-1]


def ladder() -> Series:
    """Two instances: one at 10, one that swings between 20 and 40 every 100 ms."""
    count = 1200
    ts = pl.Series([START + timedelta(milliseconds=100 * n) for n in range(count)], dtype=NS)
    channels = {
        n: Channel(n, "cpu.busy", n[-4:], "cpu", "gauge", "%", "cpu", 100)
        for n in ("cpu.busy/cpu0", "cpu.busy/cpu1")
    }
    frame = pl.DataFrame(
        {"ts": ts, "cpu.busy/cpu0": [10.0] * count, "cpu.busy/cpu1": [20.0, 40.0] * (count // 2)}
    )
    return Series("node-17", frame, channels)


@pytest.mark.parametrize(
    ("part", "statistic", "expected"),
    [("value", "level", 30), ("max", "level", 30), ("mean", "level", 20), ("imbalance", "level", 10),
     ("value", "spread", 10), ("mean", "spread", 5)],
)  # fmt: skip
def test_a_plot_shows_the_quantity_that_moved(part, statistic, expected):
    moved = evidence("cpu.busy/cpu1", 90, 1.0, 0.0, part=part, statistic=statistic)
    (plot,), missing = metric_plots(incident(1, 40, 10, "cpu", [moved]), ladder())
    assert plot.values[len(plot.values) // 2] == pytest.approx(expected)
    assert missing == ()
    assert plot.low is not None


def test_other_statistics_are_plotted_as_level_without_a_band():
    moved = evidence("cpu.busy/cpu1", 90, 1.0, 0.0, statistic="trend")
    (plot,), _ = metric_plots(incident(1, 40, 10, "cpu", [moved]), ladder())
    assert (plot.low, plot.high, plot.quantity) == (None, None, "")


@pytest.mark.parametrize("second", [-25.0, 0.0, 417.0, 5000.0])
def test_an_incident_at_the_edge_of_the_data(second):
    moved = [evidence("psi.cpu_some", 61, 0.5, None), evidence("no.such/metric", 1, 0.1, None)]
    edge = report(host_input(incidents=[incident(1, second, 8, "cpu", moved)]))
    assert "no.such/metric" in edge.incidents[0].unplotted
    assert bool(edge.incidents[0].plots) is (second < 5000)
    assert "CPU pressure rose to 61 %" in render_html(edge)


def test_a_series_of_nulls_and_a_host_with_one_window():
    silent = report(host_input(series=series(only_nulls=True)))
    assert not silent.incidents[0].plots
    assert "there are no samples of these metrics" in render_html(silent)
    one = report(host_input(incidents=[], scores=scores(windows=1), series=series(seconds=3)))
    assert len(one.hosts[0].timeline.times_ms) == one.windows == 1
    for made in (silent, one):
        assert render_html(made)
        assert render_markdown(made)
        assert report_dict(made)


def test_what_moved_first_is_told_by_subsystem_in_order():
    onsets = report().incidents[0].onsets
    assert [(o.subsystem, o.seconds) for o in onsets] == [("network", 0.0), ("cpu", 1.3), ("memory", 1.9)]


def test_injected_faults_are_matched_and_misses_told():
    made = report(injected=FAULTS)
    assert [m.found for m in made.faults] == [True, True, False, True]
    assert made.false_incidents == ()
    assert report(injected=FAULTS[:1]).false_incidents == ("node-17-0002", "node-17-0003")
    assert report().false_incidents == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hosts": []}, "no host"),
        ({"hosts": [host_input(), host_input()]}, "node-17 is given twice"),
        ({"hosts": [host_input(incidents=faulty_incidents() * 2)]}, "incident is given twice"),
        ({"end": START}, "ends"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    given = {"hosts": [host_input()], "start": START, "end": END, **arguments}
    with pytest.raises(UsageError, match=message) as error:
        build_report("r1", "t", CREATED, given["start"], given["end"], given["hosts"], MODEL)
    assert "\n" not in str(error.value)


def test_command_makes_the_report_again():
    assert report().command == (
        "reveal score --start 2026-11-29T20:12:00.000Z --end 2026-11-29T20:19:00.000Z --host node-17 "
        "--model reveal-2cpu-0gpu/3"
    )
    assert "--host" not in report(host_input("a"), host_input("b")).command


@pytest.mark.parametrize(
    ("metric", "instance", "phrase"),
    [
        ("tcp.RetransSegs", "host", "of the host's own namespace"),
        ("net.rx_bytes", "eth0", "on interface eth0"),
        ("net.rx_bytes", "lab:veth1", "on interface veth1 in namespace lab"),
        ("irq.device", "virtio1-req.0:cpu0", "of virtio1-req.0 on cpu0"),
        ("cgroup.pgfault", "slurm/job7", "of cgroup slurm/job7"),
        ("disk.reads", "vda", "on disk vda"),
        ("numa.MemFree", "node0", "on node0"),
        ("meminfo.Dirty", "", ""),
    ],
)
def test_instances_in_words(metric, instance, phrase):
    assert instance_phrase(metric, instance) == phrase


def test_sentences_say_which_quantity_moved():
    base = evidence("cpu.busy/cpu1", 90, 1.0, 0.0)
    assert metric_sentence(base) == "CPU busy time on cpu1 rose to 90 % (normal 21 to 57 %)"
    assert metric_sentence(replace(base, part="mean")).startswith(
        "CPU busy time over all instances, most on cpu1, rose"
    )
    assert metric_sentence(replace(base, part="imbalance")).startswith(
        "CPU busy time on cpu1 above the mean rose"
    )
    assert metric_sentence(replace(base, statistic="spread")).startswith(
        "Spread of CPU busy time on cpu1 rose"
    )
    assert metric_title("no.such_metric") == "no.such_metric"
    assert metric_title("disk.utilisation.change") == "Change of disk utilisation"
    assert metric_title("no.such_metric.change") == "Change of no.such_metric"


def test_a_source_that_is_off_keeps_its_reason():
    notes = (SourceNote("gpu", False, "no NVIDIA driver", 0),)
    assert "no NVIDIA driver" in render_html(report(host_input(sources=notes)))
