"""The pace of sampling: sparse on a calm host, dense within a second when it moves, calm again after."""

from __future__ import annotations

import io
import itertools
import threading
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from collect_parts import HOST_TREE, FakeClock, copy_tree, write
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog
from reveal_core.collect.adaptive import (
    CALM_AFTER_S,
    CALM_STRIDE,
    SIGNAL_SOURCES,
    SIGNALS,
    AdaptivePace,
    Signal,
)
from reveal_core.collect.agent import open_sources, run_collector
from reveal_core.segment import Segment


def test_every_signal_is_a_counter_of_the_catalogue() -> None:
    catalog = load_catalog()
    for metrics, floor in SIGNALS.values():
        assert floor > 0
        for metric in metrics:
            assert catalog[metric].kind == "counter", metric


def test_every_signal_is_read_by_the_sources_that_are_kept_up_to_date() -> None:
    with closing(open_sources(HOST_TREE)) as collector:
        read = {channel.metric for channel in collector.channels if channel.source in SIGNAL_SOURCES}
    for metrics, _ in SIGNALS.values():
        assert read.issuperset(metrics), metrics


class Host(FakeClock):
    """A clock under which the captured host's context switches go on at a rate that the test sets."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.rate = 100.0
        self.count = 38_014_093.0
        self.bursts: list[tuple[float, float]] = []
        self.start = self.now

    def wall_ns(self) -> int:
        self.update()
        return super().wall_ns()

    def update(self) -> None:
        seconds = (self.now - self.start) / 1e9
        burst = sum(max(0.0, min(seconds, end) - begin) for begin, end in self.bursts if seconds > begin)
        count = round(self.count + 100 * seconds + 50_000 * burst)
        text = (self.root / "proc/stat").read_text()
        lines = [f"ctxt {count}" if line.startswith("ctxt ") else line for line in text.splitlines()]
        write(self.root, "proc/stat", "\n".join(lines) + "\n")


def test_it_is_sparse_while_calm_dense_within_a_second_of_a_move_and_sparse_again(tmp_path: Path) -> None:
    root = copy_tree(tmp_path)
    clock = Host(root)
    clock.bursts = [(30.0, 33.0)]
    segments: list[Segment] = []
    run_collector(
        host="node-1",
        interval_s=None,
        duration_s=80.0,
        root=root,
        segment_s=200.0,
        on_segment=segments.append,
        stop=threading.Event(),
        sources=("stat",),
        clock=clock,
    )
    frame = pl.read_parquet(io.BytesIO(segments[0].data))
    seconds = ((frame["mono"] - frame["mono"][0]) / 1e9).to_list()
    interval = dict(zip((round(s, 3) for s in seconds), frame["reveal.interval"].to_list(), strict=True))
    calm = [s for s in seconds if CALM_AFTER_S + 1.5 < s < 30]
    assert {round(b - a, 3) for a, b in itertools.pairwise(calm)} == {0.6}
    after = [s for s in seconds if s > 31.0]
    assert after[0] < 31.2
    dense = [s for s in seconds if 31.3 < s < 33 + CALM_AFTER_S - 1]
    assert {round(b - a, 3) for a, b in itertools.pairwise(dense)} == {0.1}
    late = [s for s in seconds if s > 33 + CALM_AFTER_S + 5]
    assert {round(b - a, 3) for a, b in itertools.pairwise(late)} == {0.6}
    assert set(interval.values()) == {100.0, 600.0}
    # Whatever the pace, the sparse grid is whole: what was sampled densely can be thinned to it.
    ticks = {round(s * 10) for s in seconds}
    assert set(range(0, 800, CALM_STRIDE)) <= ticks


def test_a_calm_host_that_is_asked_to_is_sampled_densely_for_so_long() -> None:
    pace = AdaptivePace()
    strides = {}
    for second in range(1, 80):
        pace.look([], second * 10**9)
        strides[second] = pace.stride
        if second == 40:
            pace.hold(20.0)
    assert {strides[second] for second in range(17, 41)} == {CALM_STRIDE}
    assert {strides[second] for second in range(41, 60)} == {1}
    assert {strides[second] for second in range(60, 80)} == {CALM_STRIDE}


@pytest.mark.parametrize("interval_s", [None, 0.1])
def test_who_adapts_is_asked_after_each_segment(tmp_path: Path, interval_s: float | None) -> None:
    segments: list[Segment] = []
    calls: list[int] = []

    def asked() -> float:
        calls.append(len(segments))
        return 0.0

    run_collector(
        host="node-1",
        interval_s=interval_s,
        duration_s=60.0,
        root=(root := copy_tree(tmp_path)),
        segment_s=20.0,
        on_segment=segments.append,
        stop=threading.Event(),
        sources=("stat",),
        clock=Host(root),
        asked=asked,
    )
    assert len(segments) == 3
    assert calls == ([1, 2, 3] if interval_s is None else [])


@given(st.lists(st.integers(0, 2**40), min_size=2, max_size=30), st.floats(0.05, 2.0))
def test_a_signal_takes_any_totals_and_a_counter_that_went_back_is_no_move(
    totals: list[int], seconds: float
) -> None:
    signal = Signal(["stat.ctxt"], 1000.0)
    for before, total in zip([None, *totals], totals, strict=False):
        moved = signal.moves(total, seconds)
        if before is None or total < before:
            assert not moved
        assert signal.deviation >= 0


def test_a_steady_rate_never_moves_whatever_the_pace() -> None:
    pace = AdaptivePace()
    assert pace.stride == 1
    signal = Signal(["stat.ctxt"], 1.0)
    total = 0
    for seconds in [0.1, 0.6, 0.1, 0.6, 0.6, 0.1] * 20:
        total += round(1000 * seconds)
        assert not signal.moves(total, seconds)
