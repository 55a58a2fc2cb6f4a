"""A simulated fleet: every host is its own, within what is physical, and faults lie where the truth says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_telemetry import SYNTHETIC_START, synthetic_columns, synthetic_segment

from reveal_core.catalog import load_catalog
from reveal_core.channels import Channel
from reveal_core.errors import UsageError
from reveal_core.lab.fleet import LEAST_S, Fleet, FleetPlan
from reveal_core.lab.fleet_classes import HostClass, channel_table, parse_classes
from reveal_core.lab.fleet_copies import Copied
from reveal_core.lab.fleet_day import sparse_hours
from reveal_core.lab.fleet_donor import Donor, donor_of
from reveal_core.lab.fleet_faults import PLANTED, STRUCK_METRICS
from reveal_core.segment import Segment
from reveal_core.telemetry import Telemetry
from reveal_core.timespec import parse_time
from storage.decode import decode_segment
from storage.layout import segment_key

START = datetime(2026, 1, 5, 12, tzinfo=UTC)
ONE = (HostClass("amd", 4),)
NAMES = tuple(load_catalog())


def recorded(seconds: float = 60.0) -> Telemetry:
    """Return a recording with a channel that is sampled seldom, and a share that is close to its bound."""
    columns = synthetic_columns(seconds, (), 0)
    rows = len(next(iter(columns.values())))
    rng = np.random.default_rng(1)
    columns["listen.fullest", ""] = np.minimum(99.0 + rng.normal(0.0, 1.0, rows), 100.0).astype(np.float32)
    decoded = decode_segment(synthetic_segment("donor", SYNTHETIC_START, columns).data)
    seldom = pl.when(pl.int_range(pl.len()) % 10 == 3).then(pl.col("meminfo.MemFree"))
    frame = decoded.frame.with_columns(seldom.alias("meminfo.MemFree"))
    return Telemetry("donor", frame, decoded.channels, decoded.facts)


@pytest.fixture(scope="module")
def donor() -> Donor:
    return donor_of(recorded())


def plan_of(**changes) -> FleetPlan:
    plan = FleetPlan(hosts=1, start=START, seconds=10.0, classes=ONE, faulty=0.0, channels=200, segment_s=5.0)
    return replace(plan, **changes)


def by_host(segments: list[Segment]) -> dict[str, pl.DataFrame]:
    frames: dict[str, list[pl.DataFrame]] = {}
    for segment in segments:
        frames.setdefault(segment.host, []).append(decode_segment(segment.data).frame)
    return {host: pl.concat(parts) for host, parts in frames.items()}


def channels_of(segment: Segment) -> dict[str, Channel]:
    return decode_segment(segment.data).channels


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 10**6), cores=st.sampled_from([1, 2, 5]), seconds=st.sampled_from([3.0, 130.0]))
def test_counters_never_fall_and_levels_stay_in_their_range(
    donor: Donor, seed: int, cores: int, seconds: float
) -> None:
    plan = plan_of(seed=seed, classes=(HostClass("arm", cores),), seconds=seconds)
    segments = list(Fleet(donor, plan).segments())
    (frame,) = by_host(segments).values()
    assert frame.height == round(10 * seconds)
    assert frame["ts"].diff().drop_nulls().unique().to_list() == [timedelta(milliseconds=100)]
    assert frame["ts"][0] - START < timedelta(milliseconds=100)
    assert frame["mono"].diff().drop_nulls().unique().to_list() == [10**8]
    for name, channel in channels_of(segments[0]).items():
        values = frame[name].drop_nulls()
        metric = load_catalog()[channel.metric]
        assert values.len() > 0, name
        if channel.kind == "counter":
            assert values.dtype == pl.Int64, name
            assert (values.diff().drop_nulls() >= 0).all(), name
            assert values[0] >= 0, name
        else:
            assert metric.minimum is None or values.min() >= metric.minimum, name
            assert metric.maximum is None or values.max() <= metric.maximum, name
            assert metric.unit != "%" or values.max() <= 100.0, name


def test_a_host_moves_as_the_recording_does(donor: Donor) -> None:
    plan = plan_of(seconds=118.0, channels=200)  # there and back again
    frame = by_host(list(Fleet(donor, plan).segments()))["amd4-0000"]
    before = recorded().frame
    seldom = frame["meminfo.MemFree"]
    assert seldom.len() - seldom.null_count() == pytest.approx(118, abs=2)
    assert seldom.mean() == pytest.approx(before["meminfo.MemFree"].mean(), rel=0.01)
    for name, within in (("cpu.user/cpu0", 0.03), ("cpu.user/cpu3", 0.03), ("stat.ctxt", 0.3)):
        source = name.replace("cpu3", "cpu1")
        rate = (frame[name][-1] - frame[name][0]) / 118.0
        expected = (before[source][-1] - before[source][0]) / 60.0
        assert rate == pytest.approx(expected, rel=within), name


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(donor: Donor) -> None:
    plan = plan_of(hosts=2, seed=7)
    once, again, other = (
        [(s.host, s.start, s.sequence, s.data) for s in Fleet(donor, p).segments()]
        for p in (plan, plan, replace(plan, seed=8))
    )
    assert once == again
    assert [host for host, *_ in once] == [host for host, *_ in other]
    assert not {data for *_, data in once} & {data for *_, data in other}


def test_hosts_differ_in_levels_rates_and_phase_and_those_that_share_values_only_in_name(
    donor: Donor,
) -> None:
    fleet = Fleet(donor, plan_of(hosts=7, distinct=2))
    segments = list(fleet.segments())
    frames = by_host(segments)
    assert fleet.shared == 5
    assert len({segment_key(s.host, s.start, s.boot, s.sequence) for s in segments}) == 14
    own, other = (frames[f"amd4-000{n}"] for n in (0, 1))
    for name in ("cpu.user/cpu0", "stat.ctxt", "tcp.RetransSegs/host"):
        assert own[name][0] != other[name][0], name
    assert not own["stat.ctxt"].diff().equals(other["stat.ctxt"].diff())
    assert abs(own["meminfo.MemFree"].mean() - other["meminfo.MemFree"].mean()) > 1.0
    known = {"machine_id": set(), "boot_id": set(), "hostname": set()}
    for segment in segments:
        facts = decode_segment(segment.data).facts
        assert facts["hostname"] == segment.host
        assert facts["boot_id"] == segment.boot
        for name, values in known.items():
            values.add(facts[name])
    assert all(len(values) == 7 for values in known.values())
    for member in fleet.members:
        if member.like is not None:
            assert frames[member.name].equals(frames[f"amd4-{member.like:04d}"])


def test_a_copy_that_does_not_fit_is_refused(donor: Donor) -> None:
    segment = next(iter(Fleet(donor, plan_of()).segments()))
    facts = decode_segment(segment.data).facts
    with pytest.raises(ValueError, match="does not fit into the place of amd4-0000"):
        Copied(segment).as_host("a-longer-name", segment.boot, facts)


@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_faults_lie_where_the_truth_says_and_nowhere_else(donor: Donor, seed: int) -> None:
    plan = plan_of(hosts=4, seconds=LEAST_S + 20.0, faulty=0.5, seed=seed, segment_s=30.0)
    fleet = Fleet(donor, plan)
    struck = by_host(list(fleet.segments()))
    healthy = by_host(list(Fleet(donor, replace(plan, faulty=0.0)).segments()))
    faults = {fault["host"]: fault for fault in fleet.faults()}
    assert len(faults) == 2
    kinds = {fault.name: fault for fault in PLANTED}
    for host, frame in struck.items():
        changed = {name for name in frame.columns if not frame[name].equals(healthy[host][name])}
        if host not in faults:
            assert not changed
            continue
        fault = faults[host]
        assert changed == set(fault["channels"])
        assert fault["subsystem"] == kinds[fault["name"]].subsystem
        start, end = parse_time(fault["start"]), parse_time(fault["end"])
        assert START + timedelta(seconds=30) <= start < end <= START + timedelta(seconds=plan.seconds - 30)
        for name in changed:
            added = (frame[name] - healthy[host][name]).diff().fill_null(0)
            moved = frame["ts"].filter(added != 0)
            assert (added >= 0).all()
            assert start <= moved.min() <= start + timedelta(seconds=1)
            assert end - timedelta(seconds=2) <= moved.max() < end


def test_what_a_fault_adds_to_a_counter_stays(donor: Donor) -> None:
    plan = plan_of(hosts=2, seconds=640.0, faulty=0.5, seed=3, segment_s=60.0)
    fleet = Fleet(donor, plan)
    (fault,) = fleet.faults()
    segments = [s for s in fleet.segments() if s.host == fault["host"]]
    frame = by_host(segments)[fault["host"]]
    for name in fault["channels"]:
        assert (frame[name].diff().drop_nulls() >= 0).all(), name


def test_the_hours_before_hold_a_little_of_every_host(donor: Donor) -> None:
    fleet = Fleet(donor, plan_of(hosts=3, history_s=20.0, history_hosts=1))
    segments = list(sparse_hours(fleet, 4))
    assert len({segment_key(s.host, s.start, s.boot, s.sequence) for s in segments}) == 12
    hours = {segment.start.replace(minute=0, second=0, microsecond=0) for segment in segments}
    assert hours == {START - timedelta(hours=back) for back in (2, 3, 4, 5)}
    assert {segment.rows for segment in segments} == {10}
    assert not {s.boot for s in segments} & {s.boot for s in fleet.segments()}
    frames = by_host(segments)
    assert len(frames) == 3
    for frame in frames.values():
        assert (frame["ts"].diff().drop_nulls() > timedelta(0)).all()
        assert (frame["stat.ctxt"].diff().drop_nulls() >= 0).all()
        assert (frame["mono"] > 0).all()


def test_a_history_is_of_a_few_healthy_hosts_of_each_class_and_goes_on_into_the_rest(donor: Donor) -> None:
    classes = (HostClass("amd", 2), HostClass("intel", 3))
    plan = plan_of(
        hosts=8, classes=classes, seconds=LEAST_S, history_s=20.0, history_hosts=2, faulty=1.0, distinct=1
    )
    fleet = Fleet(donor, plan)
    frames = by_host(list(fleet.segments()))
    learned = {name for name, frame in frames.items() if frame["ts"][0] < START}
    assert learned == {f"{one.name}-000{n}" for one in classes for n in (0, 1)}
    assert {fault["host"] for fault in fleet.faults()} == set(frames) - learned
    for name in learned:
        frame = frames[name]
        assert frame.height == round(10 * (LEAST_S + 20))
        assert frame["ts"].diff().drop_nulls().unique().to_list() == [timedelta(milliseconds=100)]
        assert (frame["cpu.user/cpu0"].diff().drop_nulls() >= 0).all()


@settings(max_examples=30, deadline=None)
@given(first=st.integers(-(10**6), 10**6), count=st.integers(1, 3000))
def test_a_recording_is_followed_there_and_back_without_a_jump(donor: Donor, first: int, count: int) -> None:
    rows = donor.rows_at(first, count)
    assert rows.min() >= 0
    assert rows.max() < donor.rows
    assert (np.abs(np.diff(rows)) == 1).all()


def test_channels_are_widened_to_a_class_and_cut_to_what_fits(donor: Donor) -> None:
    wide = channel_table(donor, HostClass("intel", 32), 1000)
    names = [place.column.channel.name for place in wide]
    assert len(names) == len(set(names))
    assert {f"cpu.idle/cpu{n}" for n in range(32)} <= set(names)
    assert sum(name.startswith("disk.writes/nvme") for name in names) > 1
    cut = channel_table(donor, HostClass("intel", 32), 80, STRUCK_METRICS)
    metrics = {place.column.channel.metric for place in cut}
    assert len(cut) <= 80
    assert {"tcp.RetransSegs", "cgroup.nr_throttled", "stat.ctxt"} <= metrics
    per_core = [m for m in metrics if m.startswith("cpu.")]
    assert per_core
    assert all(sum(p.column.channel.metric == m for p in cut) == 32 for m in per_core)


def test_every_fault_is_of_metrics_that_the_catalogue_has() -> None:
    assert set(NAMES) >= STRUCK_METRICS
    assert len({fault.name for fault in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is no class of hosts"),
        ("sparc4", "'sparc4' is no class"),
        ("amd0", "'amd0' is no class"),
        ("amd9999", "'amd9999' is no class"),
        ("amd4,amd4", "named twice"),
    ],
)
def test_classes_that_are_none_are_named(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_classes(text)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hosts": 0}, "0 hosts cannot be of 1 classes"),
        ({"faulty": 1.5}, "lies between 0 and 1"),
        ({"faulty": 0.5}, "10 s are too short for a fault"),
        ({"seconds": 0.0}, "longer than zero"),
        ({"segment_s": 301.0}, "at most 300 s"),
        ({"distinct": 0}, "1 or more"),
    ],
)
def test_plans_that_cannot_be_are_refused(changes: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan_of(**changes)


def test_a_recording_that_says_too_little_is_refused(donor: Donor) -> None:
    with pytest.raises(UsageError, match="90 samples of donor are too few"):
        donor_of(recorded(9.0))
    with pytest.raises(UsageError, match="less than lies between two samples of donor: 60 s"):
        Fleet(replace(donor, period_ms=60_000), plan_of())
    still = replace(donor, patterns=tuple(p for p in donor.patterns if p.metric.name not in STRUCK_METRICS))
    with pytest.raises(UsageError, match="no channel that a planted fault would show in"):
        Fleet(still, plan_of(seconds=LEAST_S, faulty=1.0))
    with pytest.raises(UsageError, match="no host is left"):
        Fleet(donor, plan_of(seconds=LEAST_S, faulty=1.0, history_s=10.0))
