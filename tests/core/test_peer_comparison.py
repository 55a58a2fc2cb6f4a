"""Hosts of a job held against each other over an hour of their work, minute by minute."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from incident_samples import NOON
from job_samples import HOSTS, job, minutes

from reveal_core.channels import Channel
from reveal_core.jobtable import WORK_METRICS, JobTable
from reveal_core.odd_hosts import WorkMetric
from reveal_core.peers import Compared, PeerRules, compare_hosts, needed
from reveal_core.telemetry import SPARSE_GRID, Telemetry
from reveal_core.work import (
    MINUTE,
    Work,
    chosen_by,
    floor_minute,
    joined,
    side_by_side,
    to_look_at,
    work_of,
)

METRICS = (
    WorkMetric("memory.bandwidth", "B/s", "memory", "value"),
    WorkMetric("perf.ipc", "instructions/cycle", "cpu", "mean"),
)
JOB = JobTable([job("17")])
RULES = PeerRules()


def works(
    count: int = 60,
    *,
    slower: dict[str, tuple[int, int, float]] | None = None,
    seed: int = 0,
    hosts: tuple[str, ...] = HOSTS,
    period_s: float = 10.0,
    noise: float = 0.01,
) -> list[Work]:
    """Return what hosts do from noon on; of a slower one from and to which minute, and by which share."""
    draw = np.random.default_rng(seed)
    rhythm = 1.0 + 0.2 * np.sin(np.arange(count) / 5.0)
    found = []
    for host in hosts:
        factor = np.ones(count)
        if slower and host in slower:
            begin, end, share = slower[host]
            factor[begin:end] = 1.0 - share
        values = [level * rhythm * factor * draw.normal(1.0, noise, count) for level in (66e9, 1.5)]
        found.append(
            Work(
                host,
                WORK_METRICS,
                NOON,
                count,
                period_s,
                METRICS,
                tuple(tuple(map(float, v)) for v in values),
            )
        )
    return found


def compare(
    found: list[Work], start: float = 0, end: float = 60, table: JobTable = JOB, **own: str
) -> Compared:
    return compare_hosts(found, table, own, minutes(start), minutes(end), RULES)


def test_a_slow_host_is_named_with_how_it_stands_among_its_peers() -> None:
    found = compare(works(slower={"n3": (0, 60, 0.1)}))
    (one,) = found.stragglers
    assert (one.host, one.job, one.on, one.peers) == ("n3", "17", True, 7)
    assert (one.start, one.end) == (minutes(0), minutes(60))
    assert one.score > 4.0
    assert one.deviation_pct == pytest.approx(10.0, abs=1.0)
    first = {metric.metric: metric for metric in one.metrics}["memory.bandwidth"]
    assert (first.unit, first.subsystem, first.part, first.direction) == ("B/s", "memory", "value", "down")
    assert first.value < 0.92 * first.low <= 0.92 * first.peers <= 0.92 * first.high
    assert [(item.host, item.job, item.until) for item in found.judged] == [
        (host, "17", minutes(60)) for host in HOSTS
    ]


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.floats(0.005, 0.03))
def test_of_healthy_hosts_none_is_named(seed: int, noise: float) -> None:
    assert compare(works(seed=seed, noise=noise)).stragglers == ()


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from(HOSTS), st.floats(0.08, 0.5))
def test_a_host_that_is_clearly_slower_is_always_named_and_alone(seed: int, host: str, share: float) -> None:
    found = compare(works(seed=seed, slower={host: (0, 60, share)}))
    assert [one.host for one in found.stragglers] == [host]


@pytest.mark.parametrize(("begin", "end"), [(0, 25), (35, 60), (20, 35)])
def test_what_did_not_last_is_not_named(begin: int, end: int) -> None:
    assert compare(works(slower={"n3": (begin, end, 0.2)})).stragglers == ()


def test_hosts_of_a_job_that_is_too_small_are_not_compared() -> None:
    found = works(slower={"n0": (0, 60, 0.3)}, hosts=HOSTS[:3])
    assert compare(found) == Compared()
    assert compare([]) == Compared()


def test_peers_run_the_same_jobs_and_no_others() -> None:
    # n7 shares itself with another job, so it does less of this one.
    slow = works(slower={"n7": (0, 60, 0.4)})
    table = JobTable([job("17"), job("18", ["n7"])])
    found = compare(slow, table=table)
    assert found.stragglers == ()
    assert {one.host for one in found.judged} == set(HOSTS[:7])
    both = JobTable([job("17"), job("18")])
    (one,) = compare(works(slower={"n7": (0, 60, 0.4)}), table=both).stragglers
    assert (one.host, one.job) == ("n7", "17, 18")


def test_hosts_of_different_jobs_are_no_peers() -> None:
    found = works()
    twice = [replace(one, values=tuple(tuple(2 * v for v in row) for row in one.values)) for one in found[:4]]
    table = JobTable([job("1", HOSTS[:4]), job("2", HOSTS[4:])])
    compared = compare([*twice, *found[4:]], table=table)
    assert compared.stragglers == ()
    assert {one.job for one in compared.judged} == {"1", "2"}


def test_telemetry_may_name_the_job_itself() -> None:
    slow = works(slower={"n3": (0, 60, 0.1)})
    empty = JobTable([])
    assert compare(slow, table=empty) == Compared()
    (one,) = compare(slow, table=empty, **dict.fromkeys(HOSTS, "a")).stragglers
    assert (one.host, one.job) == ("n3", "a")
    # What the table says of a host goes before what its telemetry says.
    (one,) = compare(slow, **dict.fromkeys(HOSTS, "a")).stragglers
    assert one.job == "17"


def test_what_a_host_did_before_its_job_does_not_count() -> None:
    slow = works(slower={"n3": (0, 20, 0.5)})
    assert compare(slow, table=JobTable([job("17", start=20)])).stragglers == ()
    # And a job of less than half an hour is not compared over an hour.
    fresh = works(slower={"n3": (40, 60, 0.5)})
    assert compare(fresh, table=JobTable([job("17", start=40)])) == Compared()
    (one,) = compare(works(slower={"n3": (0, 60, 0.2)}), table=JobTable([job("17", start=10)])).stragglers
    assert (one.start, one.end) == (minutes(10), minutes(60))


def test_a_long_range_tells_from_when_to_when() -> None:
    found = compare(works(300, slower={"n3": (60, 180, 0.15)}), end=300)
    (one,) = found.stragglers
    assert not one.on
    assert timedelta(0) <= minutes(60) - one.start <= timedelta(minutes=30)
    assert timedelta(0) <= one.end - minutes(180) <= timedelta(minutes=30)
    assert {item.until for item in found.judged} == {minutes(300)}
    (open_still,) = compare(works(300, slower={"n3": (100, 300, 0.15)}), end=300).stragglers
    assert open_still.on
    assert open_still.end == minutes(300)


def test_two_slow_hosts_are_both_named() -> None:
    found = compare(works(slower={"n3": (0, 60, 0.1), "n5": (0, 60, 0.3)}))
    assert sorted(one.host for one in found.stragglers) == ["n3", "n5"]


def test_a_host_with_few_samples_is_not_judged() -> None:
    found = works(slower={"n3": (0, 60, 0.2)})
    gaps = tuple((*row[:20], *(None,) * 40) for row in found[3].values)
    compared = compare([*found[:3], replace(found[3], values=gaps), *found[4:]])
    assert compared.stragglers == ()
    assert "n3" not in {one.host for one in compared.judged}


def test_samples_every_few_minutes_are_compared_in_longer_windows() -> None:
    def sparse(one: Work, every: int) -> Work:
        rows = (tuple(v if n % every == 0 else None for n, v in enumerate(row)) for row in one.values)
        return replace(one, period_s=60.0 * every, values=tuple(rows))

    slow = works(slower={"n3": (0, 60, 0.2)})
    assert [one.host for one in compare([sparse(one, 5) for one in slow]).stragglers] == ["n3"]
    # Four samples an hour have no halves to speak of.
    assert compare([sparse(one, 15) for one in slow]) == Compared()


def test_idle_gpus_are_not_out_of_step() -> None:
    gpu = WorkMetric("gpu.utilization", "%", "gpu", "mean")
    levels = [0.2, 0.2, 0.2, 1.0, 0.3, 0.2, 0.2, 0.2]
    found = [
        Work(host, WORK_METRICS, NOON, 60, 1.0, (gpu,), ((level,) * 60,))
        for host, level in zip(HOSTS, levels, strict=True)
    ]
    assert compare(found).stragglers == ()
    busy = [replace(one, values=((90.0 if one.host != "n3" else 60.0,) * 60,)) for one in found]
    assert [one.host for one in compare(busy).stragglers] == ["n3"]


def test_what_comparing_a_range_needs() -> None:
    assert needed(minutes(55.5), minutes(60.9), 3600.0) == (minutes(0), minutes(60))
    assert needed(minutes(-100), minutes(60), 3600.0) == (minutes(-100), minutes(60))


# What a host does, minute by minute


def telemetry(
    seconds: int = 600, period_s: int = 10, cores: int = 2, gap: tuple[int, int] = (0, 0)
) -> Telemetry:
    at = np.array([s for s in range(0, seconds, period_s) if not gap[0] <= s < gap[1]], dtype=np.int64)
    draw = np.random.default_rng(1)
    columns: dict[str, object] = {}
    channels: dict[str, Channel] = {}

    def add(metric: str, instance: str, unit: str, values: np.ndarray, kind: str = "gauge") -> None:
        name = f"{metric}/{instance}" if instance else metric
        columns[name] = values
        channels[name] = Channel(name, metric, instance, "cpu", kind, unit, "test", period_s * 1000)

    for core in range(cores):
        cycles = draw.uniform(1e9, 2e9, len(at))
        add("perf.cycles", f"cpu{core}", "cycles/s", cycles)
        add("perf.instructions", f"cpu{core}", "instructions/s", cycles * (1.0 + core))
    add("memory.bandwidth", "", "B/s", draw.uniform(5e10, 7e10, len(at)))
    add("cpu.user", "cpu0", "%", draw.uniform(0, 100, len(at)))
    frame = pl.DataFrame(
        {
            "ts": pl.Series(at * 10**9 + int(NOON.timestamp()) * 10**9)
            .cast(pl.Datetime("ns"))
            .dt.replace_time_zone("UTC"),
            "mono": at * 10**9,
            **columns,
        }
    )
    return Telemetry("n1", frame, channels)


def test_columns_are_chosen_by_what_metrics_are_made_of() -> None:
    choose = chosen_by(("perf.ipc", "*.bandwidth"))
    assert [name for name in telemetry().frame.columns if choose(name)] == [
        "perf.cycles/cpu0",
        "perf.instructions/cpu0",
        "perf.cycles/cpu1",
        "perf.instructions/cpu1",
        "memory.bandwidth",
    ]
    assert choose(SPARSE_GRID)
    assert not chosen_by(())("perf.ipc")


def test_the_means_of_each_minute() -> None:
    given_ = telemetry(gap=(120, 240))
    found = work_of(given_, ("perf.ipc", "memory.bandwidth"), minutes(-1), minutes(10))
    assert (found.host, found.first, found.minutes, found.period_s) == ("n1", minutes(-1), 11, 10.0)
    assert [(m.name, m.unit, m.part) for m in found.metrics] == [
        ("memory.bandwidth", "B/s", "value"),
        ("perf.ipc", "instructions/cycle", "mean"),
    ]
    bandwidth, ipc = found.values
    assert [n for n, value in enumerate(ipc) if value is None] == [0, 3, 4]
    assert {value for value in ipc if value is not None} == {1.5}
    first = given_.frame["memory.bandwidth"][:6].mean()
    assert bandwidth[1] == pytest.approx(first, rel=1e-5)


def test_a_host_without_any_such_metric_was_looked_at_all_the_same() -> None:
    found = work_of(telemetry(), ("no.such",), minutes(0), minutes(10))
    assert (found.metrics, found.values, found.minutes) == ((), (), 10)
    cycles = work_of(telemetry(cores=0), ("perf.ipc",), minutes(0), minutes(10))
    assert cycles.metrics == ()
    nothing = Telemetry("n1", telemetry().frame.select("ts", "mono"), {})
    assert work_of(nothing, ("*",), minutes(0), minutes(2)).minutes == 2


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 600), st.integers(1, 400)), min_size=1, max_size=5))
def test_work_that_is_looked_at_piece_by_piece_is_as_if_at_once(parts: list[tuple[int, int]]) -> None:
    """Each run needs the ten minutes before its end, and knows which seconds are new."""
    patterns = ("memory.bandwidth",)
    row = tuple(float(n) for n in range(40))

    def look(first, last) -> Work:
        begin, end = ((time - NOON) // MINUTE + 20 for time in (first, last))
        metric = WorkMetric("memory.bandwidth", "B/s", "memory", "value")
        return Work("n1", patterns, first, end - begin, 1.0, (metric,), (row[begin:end],))

    known: Work | None = None
    for begin, length in parts:
        start, end = NOON + timedelta(seconds=begin), NOON + timedelta(seconds=begin + length)
        need = needed(start, end, 600.0)
        wanted = to_look_at(known, patterns, need, (floor_minute(start), floor_minute(end) + MINUTE))
        if wanted is not None:
            assert need[0] <= wanted[0] < wanted[1] <= need[1]
            found = look(*wanted)
            known = found if known is None or wanted == need else joined(known, found)
        assert known is not None
        _, values = side_by_side([known], *need, 1)
        first = (need[0] - NOON) // MINUTE + 20
        assert values[:, 0, 0].tolist() == list(row[first : first + len(values)])


def test_work_of_other_patterns_or_of_long_ago_is_looked_at_anew() -> None:
    known = Work("n1", ("a",), minutes(0), 60)
    need = minutes(60), minutes(120)
    fresh = minutes(115), minutes(120)
    assert to_look_at(None, ("a",), need, fresh) == need
    assert to_look_at(known, ("b",), need, fresh) == need
    assert to_look_at(replace(known, minutes=50), ("a",), need, fresh) == need
    assert to_look_at(replace(known, minutes=115), ("a",), need, fresh) == fresh
    assert to_look_at(replace(known, minutes=120), ("a",), need, (minutes(0), minutes(9))) is None
    assert to_look_at(replace(known, minutes=120), ("a",), need, (minutes(70), minutes(71))) == (
        minutes(70),
        minutes(71),
    )


def test_newer_minutes_take_the_place_of_older_ones() -> None:
    metric = METRICS[:1]
    old = Work("n1", ("a",), minutes(0), 3, 1.0, metric, ((1.0, 2.0, 3.0),))
    new = Work("n1", ("a",), minutes(2), 3, 1.0, METRICS[1:], ((7.0, 8.0, 9.0),))
    both = joined(old, new)
    assert (both.first, both.minutes, both.last) == (minutes(0), 5, minutes(5))
    assert both.values == ((1.0, 2.0, None, None, None), (None, None, 7.0, 8.0, 9.0))
    assert joined(new, old).values[0] == (1.0, 2.0, 3.0, None, None)
    late = joined(old, replace(new, first=minutes(5)))
    assert late.values[1] == (None,) * 5 + (7.0, 8.0, 9.0)
    assert both.latest(2).values == ((None, None), (8.0, 9.0))
    assert both.latest(9) == both
