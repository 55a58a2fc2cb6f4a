"""The wall clock is set, summer time begins and ends: no sample is lost or doubled, and a step is told."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest
from collect_parts import HOST_TREE, FakeClock

from reveal_core.collect.agent import CollectStats, run_collector
from reveal_core.features.rates import physical_series
from reveal_core.segment import Segment
from storage.store import Store

HOUR_NS = 3_600_000_000_000


class SettableClock(FakeClock):
    """A clock that somebody sets after some ticks, by so many ns each."""

    def __init__(self, steps: dict[int, int], start: datetime | None = None) -> None:
        super().__init__()
        self.steps = steps
        self.asked = 0
        if start is not None:
            self.wall_offset = round(start.timestamp() * 1e9) - self.now

    def wall_ns(self) -> int:
        self.wall_offset += self.steps.get(self.asked, 0)
        self.asked += 1
        return super().wall_ns()


def collect(clock: FakeClock, seconds: float = 6.0) -> tuple[list[Segment], CollectStats]:
    segments: list[Segment] = []
    stats = run_collector(
        host="node-1",
        interval_s=0.1,
        duration_s=seconds,
        root=HOST_TREE,
        segment_s=2.0,
        on_segment=segments.append,
        stop=threading.Event(),
        sources=("stat",),
        clock=clock,
    )
    return segments, stats


@pytest.mark.parametrize("step", [HOUR_NS, -HOUR_NS], ids=["an hour forward", "an hour back"])
def test_a_step_ends_the_segment_and_is_told_with_its_size(tmp_path: Path, step: int) -> None:
    clock = SettableClock({33: step})
    segments, stats = collect(clock)
    assert stats.ticks == sum(segment.rows for segment in segments) == 60
    assert stats.late_ticks == stats.lost_ticks == 0
    frames = [pl.read_parquet(io.BytesIO(segment.data)) for segment in segments]
    for frame in frames:
        assert frame["ts"].is_sorted()
    whole = pl.concat(frames)
    assert set(whole["mono"].diff().drop_nulls().to_list()) == {100_000_000}
    assert whole["reveal.clock_step"].to_list() == [step / 1e6 if n == 33 else 0.0 for n in range(60)]
    assert whole["reveal.clock_steps"].to_list() == [int(n >= 33) for n in range(60)]
    store = Store(str(tmp_path))
    assert len({store.put_segment(segment) for segment in segments}) == len(segments)
    first, last = whole["ts"].min(), whole["ts"].max()
    assert isinstance(first, datetime)
    assert isinstance(last, datetime)
    read = store.read_telemetry("node-1", first, last.replace(year=2100)).telemetry
    assert read.frame.height == 60, "a sample was lost or doubled in the store"
    rates = physical_series(read).frame
    assert rates["reveal.clock_steps"].drop_nulls().sum() == pytest.approx(10.0)  # once, over 100 ms


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    "change", [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC)], ids=str
)
def test_summer_time_does_not_exist_in_telemetry(change: datetime) -> None:
    start = datetime.fromtimestamp(change.timestamp() - 3, UTC)
    segments, stats = collect(SettableClock({}, start))
    frame = pl.concat([pl.read_parquet(io.BytesIO(segment.data)) for segment in segments])
    assert set(frame["ts"].diff().drop_nulls().dt.total_milliseconds().to_list()) == {100}
    assert frame["ts"].min() == start
    assert stats.ticks == 60
    assert frame["reveal.clock_steps"].max() == 0
    assert [segment.start for segment in segments] == sorted(segment.start for segment in segments)
