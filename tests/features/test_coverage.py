"""What a source should have delivered, and did not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reveal_core.channels import Channel
from reveal_core.features.coverage import delivered
from reveal_core.features.windowing import channel_windows, roll_up_space
from reveal_core.telemetry import Series
from reveal_core.windows import COVERAGE

START = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def gauge(name: str, source: str, subsystem: str = "cpu", period_ms: int = 100) -> Channel:
    metric, _, instance = name.partition("/")
    return Channel(name, metric, instance, subsystem, "gauge", "", source, period_ms)


def sampled(channels: list[Channel], missing: dict[str, tuple[float, float]], seconds: int = 30) -> Series:
    """Return a series in which each channel has its samples, but for the span that is named."""
    times = np.arange(seconds * 10) * 0.1
    ts = pl.Series("ts", [START + timedelta(seconds=float(t)) for t in times], pl.Datetime("ns", "UTC"))
    columns = [ts]
    for channel in channels:
        every = max(1, channel.period_ms // 100)
        values = np.where(np.arange(len(times)) % every == 0, 1.0, np.nan)
        begin, end = missing.get(channel.name, (0.0, 0.0))
        values[(times >= begin) & (times < end)] = np.nan
        columns.append(pl.Series(channel.name, values).fill_nan(None))
    return Series("h", pl.DataFrame(columns), {c.name: c for c in channels})


def test_a_source_that_falls_silent_is_told_from_those_that_do_not() -> None:
    channels = [gauge("a", "stat"), gauge("b", "gpu", "gpu"), gauge("c", "gpu", "gpu")]
    found = channel_windows(sampled(channels, {"b": (10, 20), "c": (10, 20)})).sources
    assert (found["stat"] == 1.0).all()
    assert found["gpu"][12] < 0.1
    assert found["gpu"][:7].min() == found["gpu"][20:].min() == 1.0


def test_one_gpu_of_two_counts_one_network_interface_of_two_does_not() -> None:
    gpus = [gauge("g/0", "gpu"), gauge("g/1", "gpu")]
    interfaces = [gauge("n/eth0", "netdev"), gauge("n/veth7", "netdev")]
    gone = {"g/1": (10.0, 30.0), "n/veth7": (10.0, 30.0)}
    found = channel_windows(sampled([*gpus, *interfaces], gone)).sources
    assert found["gpu"][15] == pytest.approx(0.5, abs=0.05)
    assert found["netdev"][15] == 1.0


@pytest.mark.parametrize("period_ms", [200, 500, 1000, 2000, 5000])
def test_a_slow_source_that_delivers_is_whole_and_one_that_stops_is_not(period_ms: int) -> None:
    slow = gauge("a", "hwmon", period_ms=period_ms)
    assert (channel_windows(sampled([slow], {}, 60)).sources["hwmon"] == 1.0).all()
    stopped = channel_windows(sampled([slow], {"a": (30, 60)}, 60)).sources["hwmon"]
    assert stopped[-1] <= 0.4


def test_what_others_make_and_what_the_collector_says_of_itself_is_no_source() -> None:
    channels = [gauge("a", "stat"), gauge("b", "derived"), gauge("reveal.late", "reveal")]
    channels.append(replace(gauge("c", "replayed"), period_ms=0))
    assert list(channel_windows(sampled(channels, {})).sources) == ["stat"]


def test_coverage_is_a_feature_in_the_subsystem_of_its_source() -> None:
    channels = [gauge("a", "gpu", "gpu"), gauge("b", "gpu", "gpu"), gauge("c", "gpu", "cpu")]
    windows = roll_up_space(channel_windows(sampled(channels, {})))
    feature = next(f for f in windows.features if f.metric.startswith(COVERAGE))
    assert (feature.name, feature.subsystem) == ("telemetry.coverage.gpu:value:level", "gpu")
    assert windows.frame[feature.name].to_list() == [1.0] * windows.frame.height


@given(
    st.lists(st.integers(0, 10), min_size=5, max_size=40), st.integers(1, 5), st.sampled_from([0.1, 0.7, 2.0])
)
def test_a_share_is_a_share_and_more_samples_never_lower_it(counts, width, period_s) -> None:
    some = np.array(counts, dtype=float)
    shares = delivered(some, width, 1.0, period_s)
    assert shares.shape == (len(counts) - width + 1,)
    assert ((shares >= 0.0) & (shares <= 1.0)).all()
    assert (delivered(some + 1, width, 1.0, period_s) >= shares).all()
