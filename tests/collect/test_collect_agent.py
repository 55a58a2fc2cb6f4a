"""The collector whole: on the captured host with a clock of the test's own, and on this machine."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest
from collect_parts import HOST_TREE, FakeClock, copy_tree, write

from reveal_core.catalog import load_catalog
from reveal_core.collect import collector as collector_module
from reveal_core.collect import delivery
from reveal_core.collect.agent import CollectStats, open_sources, run_collector
from reveal_core.collect.loop import SAMPLING_NICE, Tick
from reveal_core.collect.sources import SOURCES
from reveal_core.collect.sources.pressure import PressureSource
from reveal_core.collect.sources.softirqs import SoftirqsSource
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.segment import Segment, decode_metadata


def collect(
    on_segment: Callable[[Segment], None],
    root: Path = HOST_TREE,
    duration_s: float | None = 3.0,
    segment_s: float = 1.0,
    **more: Any,
) -> CollectStats:
    options: dict[str, Any] = {"stop": threading.Event(), "clock": FakeClock(), "interval_s": 0.1, **more}
    return run_collector(
        host="node-1", duration_s=duration_s, root=root, segment_s=segment_s, on_segment=on_segment, **options
    )


def frames(segments: list[Segment]) -> list[pl.DataFrame]:
    return [pl.read_parquet(io.BytesIO(segment.data)) for segment in segments]


def test_every_tick_is_a_row_and_segments_follow_each_other() -> None:
    segments: list[Segment] = []
    stats = collect(segments.append)
    assert (stats.ticks, stats.late_ticks, stats.lost_ticks, stats.rows, stats.segments) == (30, 0, 0, 30, 3)
    assert [(segment.sequence, segment.rows) for segment in segments] == [(0, 10), (1, 10), (2, 10)]
    mono = [value for table in frames(segments) for value in table["mono"].to_list()]
    assert {b - a for a, b in itertools.pairwise(mono)} == {100_000_000}
    assert stats.channels == segments[0].columns
    assert stats.samples > 0
    assert stats.rss_bytes > 0


def test_lost_ticks_are_rows_that_are_missing() -> None:
    segments: list[Segment] = []
    stats = collect(segments.append, clock=FakeClock([0, 0, 1_350_000_000, 110_000_000, 0]))
    assert stats.ticks + stats.lost_ticks == 30
    assert (stats.lost_ticks, stats.late_ticks) == (12, 1)
    assert sum(segment.rows for segment in segments) == stats.ticks == stats.rows
    last = frames(segments)[-1]
    assert last["reveal.lost_ticks"].to_list()[-1] == 12
    assert last["reveal.late_ticks"].to_list()[-1] == 1


def test_slow_sources_are_read_at_their_own_period() -> None:
    segments: list[Segment] = []
    # Workers need real time, of which this clock gives them none.
    names = tuple(kind.name for kind in SOURCES if not kind.detached)
    collect(segments.append, duration_s=5.0, segment_s=5.0, sources=names)
    table = frames(segments)[0]
    _, channels = decode_metadata(pq.read_metadata(io.BytesIO(segments[0].data)).metadata)
    for channel in channels:
        if channel.metric not in ("reveal.late_ticks", "reveal.lost_ticks"):
            expected = 5000 // channel.period_ms
            # A slow source is read at the first tick, then at its own place among the ticks of its period.
            most = expected if channel.period_ms == 100 else expected + 2
            assert expected <= table[channel.name].count() <= most, channel
    periods = {channel.source: channel.period_ms for channel in channels}
    assert (periods["stat"], periods["sockstat"], periods["numa"], periods["thermal"]) == (
        100,
        200,
        1000,
        2000,
    )


def test_periods_are_multiples_of_a_longer_tick() -> None:
    collector = open_sources(HOST_TREE, 600)
    assert {channel.period_ms for channel in collector.channels} == {600, 1200, 2400}
    collector.close()


def test_the_segment_carries_facts_and_what_was_not_measured() -> None:
    segments: list[Segment] = []
    collect(segments.append)
    head, channels = decode_metadata(pq.read_metadata(io.BytesIO(segments[0].data)).metadata)
    assert head["facts"]["cpu"]["model"] == "Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz"
    assert head["facts"]["cpu"]["logical"] == 8
    assert "cgroup" in head["facts"]["collector"]["unavailable"]
    catalog = load_catalog()
    assert all(channel.metric in catalog for channel in channels)
    table = frames(segments)[0]
    assert table.columns[2:] == [channel.name for channel in channels]


def test_the_event_ends_it_and_the_segment_begun_is_handed_on() -> None:
    segments: list[Segment] = []
    stop = threading.Event()

    class Stopping(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.now > 1_000_000_000 + 650_000_000:
                stop.set()

    stats = collect(segments.append, duration_s=None, segment_s=60.0, stop=stop, clock=Stopping())
    assert stats.ticks == sum(segment.rows for segment in segments) == 7


def test_a_segment_that_could_not_be_stored_is_offered_again() -> None:
    offered: list[int] = []
    stored: list[int] = []

    def store(segment: Segment) -> None:
        offered.append(segment.sequence)
        if len(offered) <= 2:
            raise OSError("disk full")
        stored.append(segment.sequence)

    stats = collect(store)
    assert stored == [0, 1, 2]
    assert offered[:3] == [0, 0, 0]
    assert stats.segments == 3


def test_what_cannot_be_stored_in_the_end_is_raised_after_sampling() -> None:
    offered: list[int] = []

    def store(segment: Segment) -> None:
        offered.append(segment.sequence)
        raise OSError("disk full")

    with pytest.raises(UnavailableError, match=r"3 segments could not be stored: OSError: disk full"):
        collect(store)
    assert offered == [0, 0, 0, 0]  # with each new one, and once more at the end


def test_wrong_usage_ends_it_at_once() -> None:
    def store(segment: Segment) -> None:
        raise UsageError("the store's address makes no sense")

    with pytest.raises(UsageError, match="makes no sense"):
        collect(store, duration_s=None, clock=None, interval_s=0.02, segment_s=0.02)


def test_the_oldest_segment_is_given_up_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MAX_WAITING", 2)
    available = threading.Event()
    stored: list[int] = []

    def store(segment: Segment) -> None:
        if not available.is_set():
            if segment.sequence == 2:
                available.set()
            raise OSError("away")
        stored.append(segment.sequence)

    stats = collect(store, duration_s=5.0)
    assert stored == [3, 4]
    assert (stats.segments, stats.given_up_segments) == (2, 3)


def test_a_source_that_breaks_costs_the_others_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    original = SoftirqsSource.read
    calls = itertools.count()

    def broken(self: SoftirqsSource) -> list[int]:
        if next(calls) in range(4, 20):
            raise RuntimeError("a bug")
        return original(self)

    monkeypatch.setattr(SoftirqsSource, "read", broken)
    segments: list[Segment] = []
    collect(segments.append, segment_s=3.0)
    table = frames(segments)[0]
    # The first call was the one that opened the source. It recovers although its file never changed.
    assert table["softirq.TIMER/cpu0"].to_list() == [424191] * 3 + [None] * 16 + [424191] * 11
    assert table["cpu.user/cpu0"].count() == 30
    assert table["reveal.coverage/softirqs"].to_list() == [100.0] * 3 + [0.0] * 16 + [100.0] * 11
    assert table["reveal.coverage/stat"].to_list()[-1] == 100.0


def test_a_source_that_breaks_at_once_is_said_not_to_be_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: SoftirqsSource) -> list[int]:
        raise PermissionError("not for you")

    monkeypatch.setattr(SoftirqsSource, "read", broken)
    collector = open_sources(HOST_TREE)
    found = {status.source: status for status in collector.sources}
    assert found["softirqs"].reason == "PermissionError: not for you"
    assert found["stat"].available
    collector.close()


def test_channels_that_appear_and_vanish_while_it_runs(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    text = (root / "proc/net/dev").read_text()
    segments: list[Segment] = []

    class Plugging(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            tick = (self.now - 1_000_000_000) // 100_000_000
            if tick == 5:
                write(root, "proc/net/dev", text + "  eth9:60 1" + " 0" * 14 + "\n")
            if tick == 15:
                write(root, "proc/net/dev", text)

    collect(segments.append, root=root, clock=Plugging())
    tables = frames(segments)
    assert tables[0]["net.rx_bytes/eth9"].to_list() == [None] * 5 + [60] * 5
    assert tables[1]["net.rx_bytes/eth9"].to_list() == [60] * 5 + [None] * 5
    assert "net.rx_bytes/eth9" not in tables[2].columns


def may_go_before_others() -> bool:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, SAMPLING_NICE)
    except PermissionError:
        return False
    os.setpriority(os.PRIO_PROCESS, 0, before)
    return True


def test_it_samples_before_others_where_it_may_and_steps_back_afterwards() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    during: list[int] = []

    class Watching(FakeClock):
        def wall_ns(self) -> int:
            during.append(os.getpriority(os.PRIO_PROCESS, 0))
            return super().wall_ns()

    segments: list[Segment] = []
    collect(segments.append, clock=Watching())
    head, _ = decode_metadata(pq.read_metadata(io.BytesIO(segments[0].data)).metadata)
    assert set(during) == {head["facts"]["collector_nice"]}
    assert during[0] == (min(before, SAMPLING_NICE) if may_go_before_others() else before)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


def test_wrong_arguments_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no source 'gpus': known are stat, "):
        collect(lambda _: None, sources=("gpus",))
    with pytest.raises(UsageError, match="is not a folder"):
        collect(lambda _: None, root=tmp_path / "nothing")
    with pytest.raises(
        UnavailableError, match=r"no source is here, the first because .*proc/stat is not there"
    ):
        collect(lambda _: None, root=tmp_path)


def test_only_the_sources_asked_for_are_read() -> None:
    collector = open_sources(HOST_TREE, names=("stat", "meminfo"))
    assert [status.source for status in collector.sources] == ["stat", "meminfo"]
    assert {channel.source for channel in collector.channels} == {"stat", "meminfo", "reveal"}
    collector.close()


def test_this_machine_gives_enough_channels_all_in_the_catalogue() -> None:
    collector = open_sources()
    catalog = load_catalog()
    channels = collector.channels
    assert len(channels) >= 300
    for channel in channels:
        metric = catalog[channel.metric]
        assert (channel.subsystem, channel.kind, channel.unit) == (metric.subsystem, metric.kind, metric.unit)
        assert channel.source
        assert channel.period_ms >= 100
    assert len({channel.name for channel in channels}) == len(channels)
    for status in collector.sources:
        assert status.available == (status.reason is None)
        assert not [note for note in status.notes if "times)" in note], status
    collector.close()


LIGHT = """
import json, sys, threading
from pathlib import Path
from reveal_core.collect.agent import run_collector
rows = []
stats = run_collector(host="h", interval_s=0.05, duration_s=0.5, root=Path("/"), segment_s=60,
                      on_segment=lambda s: rows.append(s.rows), stop=threading.Event())
heavy = [m for m in "pandas polars scipy sklearn prefect mlflow fsspec".split() if m in sys.modules]
print(json.dumps([heavy, rows, stats.ticks + stats.lost_ticks, stats.cpu_seconds > 0]))
"""


def test_the_agent_of_this_machine_runs_without_heavy_libraries() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    heavy, rows, grid, used = json.loads(done.stdout)
    assert heavy == []
    assert len(rows) == 1
    assert 1 <= rows[0] <= grid == 10
    assert used


def test_a_source_that_comes_later_is_looked_for_apart_and_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copy_tree(tmp_path)
    shutil.rmtree(root / "proc/pressure")
    collector = open_sources(root, 100, ("stat", "pressure", "softirqs"))
    assert [opened.source.name for opened in collector.opened] == ["stat", "softirqs"]
    shutil.copytree(HOST_TREE / "proc/pressure", root / "proc/pressure")
    threads: list[str] = []
    probe = PressureSource.probe

    def probed(source: PressureSource) -> str | None:
        threads.append(threading.current_thread().name)
        return probe(source)

    monkeypatch.setattr(PressureSource, "probe", probed)

    def cut() -> None:
        collector.sample(Tick(len(threads), 0, 0, False, 0))
        collector.cut("node-1", "boot", 0, {})

    cut()
    assert not threads, "nobody looks again within the minute"
    monkeypatch.setattr(collector_module, "LOOK_S", 0.0)
    cut()
    looking = collector.starting["pressure"]
    assert looking.done.wait(10)
    assert threads == ["reveal-start-pressure"]
    cut()
    assert [opened.source.name for opened in collector.opened] == ["stat", "softirqs", "pressure"]
    assert not collector.absent
    collector.close()
