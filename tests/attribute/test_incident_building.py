"""Incidents from scores: when, which subsystem, which metric and instance."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from excursion_samples import START_NS, excursions, feature
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.attribute.build import build_incidents
from reveal_core.attribute.evidence import instance_of
from reveal_core.attribute.explain import blend, furthest, movements, subsystem_shares
from reveal_core.channels import Channel
from reveal_core.incidents import OPEN, RESOLVED, SubsystemShare
from reveal_core.profiles import load_profile
from reveal_core.scores import Scores
from reveal_core.telemetry import Series

PROFILE = load_profile("default")
RETRANS = feature("tcp.RetransSegs", "max")
LOST = feature("tcpext.TCPLostRetransmit", "max")
BUSY = feature("cpu.user", "mean")
START = datetime.fromtimestamp(START_NS / 1e9, UTC)


def series():
    times = [START + timedelta(seconds=0.1 * i) for i in range(420)]
    during = np.array([10 <= 0.1 * i < 20 for i in range(420)])
    values = {"tcp.RetransSegs/host": np.zeros(420), "tcp.RetransSegs/job": np.where(during, 300.0, 1.0)}
    channels = {
        n: Channel(n, "tcp.RetransSegs", n.split("/")[1], "network", "counter", "segments/s", "t", 100)
        for n in values
    }
    ts = pl.Series("ts", times, dtype=pl.Datetime("ns", "UTC"))
    return Series("h", pl.DataFrame([ts, *(pl.Series(k, v) for k, v in values.items())]), channels)


def scores(e, anomalous):
    n = len(e.start_ns)
    start = pl.Series("start", e.start_ns).cast(pl.Datetime("ns")).dt.replace_time_zone("UTC")
    flags = np.zeros(n, dtype=bool)
    flags[list(anomalous)] = True
    frame = pl.DataFrame(
        {
            "start": start,
            "end": start + timedelta(seconds=3),
            "coverage": np.ones(n),
            "score/zscore": np.where(flags, 5.0, 0.5),
            "p/zscore": np.where(flags, 1e-6, 0.5),
            "fused": np.where(flags, 12.0, 0.5),
            "probability": np.where(flags, 1e-5, 0.6),
            "threshold": np.full(n, 6.0),
            "severity": np.where(flags, 3, 0),
            "anomalous": flags,
        }
    )
    return Scores("h", frame, ("zscore",))


def one_incident():
    during = range(8, 20)
    e = excursions({RETRANS: {during: 30.0}, LOST: {range(9, 20): 12.0}, BUSY: {during: -1.5}})
    (incident,) = build_incidents(scores(e, during), e, series(), PROFILE)
    return incident


def test_an_incident_begins_where_the_first_window_saw_something_new_and_ends_with_the_last():
    incident = one_incident()
    assert incident.start == START + timedelta(seconds=10.5)
    assert incident.end == START + timedelta(seconds=19.5)
    assert incident.windows == 12
    assert incident.severity == 3
    assert incident.score == pytest.approx(2.0)
    assert incident.detectors == {"zscore": 5.0}


def test_subsystem_metric_instance_cause_and_evidence():
    incident = one_incident()
    assert incident.subsystem == "network"
    assert sum(s.share for s in incident.subsystems) == pytest.approx(1.0)
    first = incident.metrics[0]
    assert (first.metric, first.instance, first.direction) == ("tcp.RetransSegs", "job", "up")
    assert first.value == 32.0
    assert (first.normal_low, first.normal_high, first.unit) == (0.0, 2.0, "segments/s")
    assert first.first_moved_s == 0.0
    assert first.stands_for == ("other:value:level",)
    assert incident.metrics[1].first_moved_s == 1.0
    assert [m.direction for m in incident.metrics] == ["up", "up", "down"]
    cause = incident.causes[0]
    assert cause.id == "packet-loss"
    assert "32 segments/s, normally 0 to 2 segments/s" in cause.evidence[0]


def test_the_same_fault_has_the_same_fingerprint_and_another_time_another_id():
    a, again = one_incident(), one_incident()
    assert (a.id, a.fingerprint) == (again.id, again.fingerprint)
    later = excursions({RETRANS: {range(25, 35): 30.0}, LOST: {range(25, 35): 12.0}})
    (b,) = build_incidents(scores(later, range(25, 35)), later, series(), PROFILE)
    assert b.fingerprint == a.fingerprint
    assert b.id != a.id


def test_quiet_windows_give_no_incident():
    e = excursions({RETRANS: {range(8, 20): 30.0}})
    assert build_incidents(scores(e, []), e, series(), PROFILE) == ()


def test_a_subsystem_is_not_favoured_for_having_more_metrics():
    many = {feature(f"tcpext.x{i}"): {range(5): 0.5} for i in range(40)}
    one = {feature(m): {range(5): 9.0} for m in ("vmstat.pgfault", "vmstat.pgalloc_normal", "vmstat.pgfree")}
    shares = subsystem_shares(movements(excursions({**many, **one}, 5), range(5)))
    assert shares[0].name == "memory"


def test_a_level_is_preferred_to_a_spread_that_moved_about_as_far():
    level, spread = feature("stat.ctxt"), feature("stat.ctxt", statistic="spread")
    (m,) = movements(excursions({level: {range(5): 5.0}, spread: {range(5): 7.0}}, 5), range(5))
    assert m.column == 0
    (m,) = movements(excursions({level: {range(5): 1.0}, spread: {range(5): 7.0}}, 5), range(5))
    assert m.column == 1


def test_confidence_in_a_cause_raises_its_subsystem():
    shares = (SubsystemShare("cpu", 0.6), SubsystemShare("network", 0.4))
    assert [s.name for s in blend(shares, "network", 0.5)] == ["network", "cpu"]
    assert blend(shares, "memory", 0.0)[0].name == "cpu"


def test_the_instance_is_the_one_that_moved_furthest_in_the_direction():
    start, end = START + timedelta(seconds=10), START + timedelta(seconds=20)
    assert instance_of(series(), "tcp.RetransSegs", start, end, "up") == "job"
    assert instance_of(series(), "tcp.RetransSegs", start, end, "down") == "host"
    assert instance_of(series(), "no.such", start, end, "up") == ""


def test_what_speaks_for_the_likeliest_cause_is_told_from_what_merely_moved():
    roles = {m.metric: m.role for m in one_incident().metrics}
    assert roles == {"tcp.RetransSegs": "cause", "tcpext.TCPLostRetransmit": "cause", "cpu.user": "symptom"}


def test_where_no_cause_fits_no_metric_has_a_role():
    strange = feature("softirq.HRTIMER", "max")
    e = excursions({strange: {range(8, 20): 30.0}})
    (incident,) = build_incidents(scores(e, range(8, 20)), e, series(), PROFILE)
    assert incident.causes == ()
    assert [m.role for m in incident.metrics] == [""]


@pytest.mark.parametrize(
    ("last", "state"), [(39, OPEN), (35, OPEN), (34, RESOLVED), (20, RESOLVED)], ids=lambda value: str(value)
)
def test_an_incident_is_open_until_its_calm_is_long_enough_to_tell(last, state):
    """Forty windows were judged, and calm of up to four seconds does not end an incident."""
    during = range(8, last + 1)
    e = excursions({RETRANS: {during: 30.0}})
    incident = build_incidents(scores(e, during), e, series(), PROFILE)[-1]
    assert PROFILE.gap_s == 4.0
    assert incident.state == state


def test_an_entry_of_states_is_worded_with_its_code_and_place():
    errors = feature("gpu.xid_errors", "max")
    e = excursions({errors: {range(8, 20): 5.0}})
    known = series()
    codes = {"GPU-1": (13.0, 13.0), "GPU-2": (31.0, 79.0)}
    channels = {f"gpu.xid_last/{gpu}": gpu for gpu in codes}
    rows = known.frame.height
    columns = [
        pl.Series(name, np.where(np.arange(rows) < 115, *codes[gpu])) for name, gpu in channels.items()
    ]
    known = Series(
        "h",
        known.frame.with_columns(columns),
        known.channels
        | {
            n: Channel(n, "gpu.xid_last", gpu, "gpu", "state", "code", "t", 100)
            for n, gpu in channels.items()
        },
    )
    (incident,) = build_incidents(scores(e, range(8, 20)), e, known, PROFILE)
    assert [c.id for c in incident.causes] == ["gpu-xid"]
    said = "its number stands for the hardware: gpu.xid_last 79 on GPU-2"
    assert said in incident.causes[0].evidence
    assert incident.causes[0].action == "inspect-hardware"


METRICS = {
    "cpu": ("cpu.user", "stat.ctxt", "sched.run_delay", "irq.RES", "cpu.steal", "cpu.softirq"),
    "memory": ("vmstat.pgfault", "vmstat.pgfree", "vmstat.pgscan_direct", "psi.memory_some"),
    "network": ("tcp.RetransSegs", "net.rx_packets", "softirq.NET_RX", "tcpext.TCPTimeouts"),
    "storage": ("disk.reads", "psi.io_some", "cpu.iowait"),
}


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    subsystem=st.sampled_from(sorted(METRICS)),
    copies=st.integers(1, 6),
    windows=st.integers(1, 8),
)
def test_a_subsystem_whose_metrics_are_all_told_several_times_ranks_as_before(
    seed, subsystem, copies, windows
):
    rng = np.random.default_rng(seed)
    moved = {
        feature(metric): {range(w, w + 1): rng.exponential(8.0) * rng.choice((-1, 1)) for w in range(windows)}
        for metrics in METRICS.values()
        for metric in metrics
    }
    again = {
        replace(f, name=f"{f.name}~{copy}", metric=f"{f.metric}~{copy}"): spans
        for f, spans in moved.items()
        for copy in range(copies)
        if f.subsystem == subsystem
    }
    once = subsystem_shares(movements(excursions(moved, windows), range(windows)))
    often = subsystem_shares(movements(excursions({**moved, **again}, windows), range(windows)))
    assert often == once


def test_the_same_time_told_as_busy_and_as_idle_is_one_signal():
    busy, idle, other = feature("cpu.user"), feature("cpu.idle"), feature("stat.ctxt")
    span = {range(5): 9.0}
    moved = movements(excursions({busy: span, idle: {range(5): -9.0}, other: {range(5): 4.0}}, 5), range(5))
    assert [m.metric for m in furthest(moved, "cpu")] == ["cpu.idle", "stat.ctxt"]
