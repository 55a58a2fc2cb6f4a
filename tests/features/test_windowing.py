"""Window statistics against their plain definitions."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.channels import Channel
from reveal_core.errors import UsageError
from reveal_core.features.windowing import STATISTICS, channel_windows, instance_space, roll_up_space
from reveal_core.telemetry import Series
from reveal_core.windows import COVERAGE

START = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def series(columns, times=None):
    n = len(next(iter(columns.values())))
    times = [0.1 * i + 0.013 for i in range(n)] if times is None else times
    ts = pl.Series("ts", [START + timedelta(seconds=t) for t in times], dtype=pl.Datetime("ns", "UTC"))
    channels = {}
    for name in columns:
        metric, _, instance = name.partition("/")
        channels[name] = Channel(name, metric, instance, "cpu", "gauge", "%", "test", 100)
    body = [pl.Series(k, v, dtype=pl.Float64) for k, v in columns.items()]
    return Series("h", pl.DataFrame([ts, *body]), channels)


def plain(values, times, statistic):
    present = ~np.isnan(values)
    v, t = values[present], times[present]
    if not len(v):
        return np.nan
    if statistic == "trend":
        return np.polyfit(t, v, 1)[0] if len(v) > 1 else 0.0
    if statistic == "roughness":
        return np.abs(np.diff(v)).mean() if len(v) > 1 else 0.0
    return {"level": np.mean, "spread": np.std, "minimum": np.min, "maximum": np.max}[statistic](v)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=60, max_size=90),
    st.sampled_from(STATISTICS),
    st.sampled_from([(3.0, 1.0), (2.0, 1.0), (1.5, 0.5), (5.0, 1.0), (3.5, 0.5), (1.0, 1.0)]),
)
def test_statistics_are_those_of_the_samples_in_the_window(values, statistic, grid):
    window, stride = grid
    result = channel_windows(series({"x": values}), window_s=window, stride_s=stride, statistics=[statistic])
    data = np.array([np.nan if v is None else v for v in values])
    times = np.array([0.1 * i + 0.013 for i in range(len(values))])
    begin = START.timestamp()
    for row, start_ns in enumerate(result.start_ns):
        start = start_ns / 1e9 - begin
        inside = (times >= start - 1e-6) & (times < start + window - 1e-6)
        expected = plain(data[inside], times[inside], statistic)
        got = result.values[statistic][0, row]
        if np.isnan(expected):
            assert np.isnan(got)
        else:
            assert got == pytest.approx(expected, rel=1e-5, abs=1e-3 if statistic != "trend" else 1.0)


@given(st.floats(1.0, 1e12), st.floats(-1e3, 1e3))
def test_a_burst_at_another_time_leaves_no_trace_in_windows_that_stand_still(burst, value):
    values = [value] * 200 + [burst] * 50 + [value] * 50
    result = channel_windows(series({"x": values}), statistics=["spread", "level"])
    still = result.start_ns / 1e9 < START.timestamp() + 16.0
    assert not result.values["spread"][0, still].any()
    assert result.values["level"][0, still] == pytest.approx(value, rel=1e-9, abs=1e-13 * burst)
    if value == 0.0:
        assert not result.values["level"][0, still].any()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=70, max_size=70), min_size=2, max_size=5
    )
)
def test_channels_together_have_the_statistics_that_each_has_alone(columns):
    # The last two have the same gaps.
    columns = [*columns, [None if v is None else 2.0 * v for v in columns[-1]]]
    named = {f"c/{number}": values for number, values in enumerate(columns)}
    together = channel_windows(series(named), statistics=STATISTICS)
    for row, (name, values) in enumerate(named.items()):
        alone = channel_windows(series({name: values}), statistics=STATISTICS)
        for statistic in STATISTICS:
            np.testing.assert_array_equal(together.values[statistic][row], alone.values[statistic][0])
        np.testing.assert_array_equal(alone.start_ns, together.start_ns)


def test_windows_lie_on_the_same_grid_whenever_sampling_begins():
    late = series({"x": [1.0] * 60}, times=[0.37 + 0.1 * i for i in range(60)])
    result = channel_windows(late)
    assert all(ns % 10**9 == 0 for ns in result.start_ns)
    assert result.coverage.max() == 1.0


def test_a_window_without_samples_exists_with_coverage_0():
    times = [0.1 * i for i in range(30)] + [10 + 0.1 * i for i in range(30)]
    result = channel_windows(series({"x": [1.0] * 60}, times=times))
    empty = result.coverage == 0.0
    assert empty.sum() == 5
    assert np.isnan(result.values["level"][0, empty]).all()
    assert len(result.start_ns) == 11


def test_only_windows_that_lie_wholly_in_the_range_are_made():
    result = channel_windows(
        series({"x": [1.0] * 100}), start=START + timedelta(seconds=2.5), end=START + timedelta(seconds=8)
    )
    assert [ns / 1e9 - START.timestamp() for ns in result.start_ns] == [3.0, 4.0, 5.0]


def test_large_levels_keep_their_small_spread():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=60)
    result = channel_windows(series({"x": 1e12 + noise}), statistics=["spread"])
    assert result.values["spread"][0, 0] == pytest.approx(noise[10:40].std(), rel=1e-2)


@pytest.mark.parametrize("grid", [(3.0, 0.7), (1.0, 3.0), (3.0, 0.0)])
def test_a_grid_that_does_not_fit_is_refused(grid):
    with pytest.raises(UsageError, match="whole number of strides"):
        channel_windows(series({"x": [1.0] * 60}), window_s=grid[0], stride_s=grid[1])


def test_an_unknown_statistic_is_named():
    with pytest.raises(UsageError, match="median"):
        channel_windows(series({"x": [1.0] * 60}), statistics=["median"])


def test_roll_up_does_not_depend_on_how_many_instances_there_are():
    one = roll_up_space(channel_windows(series({"c/0": [10.0] * 60})))
    many = roll_up_space(channel_windows(series({f"c/{i}": [10.0] * 60 for i in range(8)})))
    assert one.frame.drop("start", "end").equals(many.frame.drop("start", "end"))


def test_one_hot_core_shows_in_maximum_and_imbalance():
    cores = {f"c/{i}": [10.0] * 60 for i in range(7)} | {"c/7": [90.0] * 60}
    windows = roll_up_space(channel_windows(series(cores)))
    row = windows.frame.row(0, named=True)
    assert row["c:mean:level"] == pytest.approx(20.0)
    assert row["c:max:level"] == pytest.approx(90.0)
    assert row["c:imbalance:level"] == pytest.approx(70.0)


def test_an_instance_without_samples_does_not_count():
    windows = roll_up_space(channel_windows(series({"c/0": [10.0] * 60, "c/1": [None] * 60})))
    row = windows.frame.row(0, named=True)
    assert (row["c:mean:level"], row["c:imbalance:level"]) == (pytest.approx(10.0), pytest.approx(0.0))


def test_instance_space_names_each_channel():
    windows = instance_space(channel_windows(series({"c/0": [1.0] * 60, "d": [2.0] * 60})))
    names = [f.name for f in windows.features if not f.metric.startswith(COVERAGE)]
    assert names == ["c/0:level", "d:level", "c/0:spread", "d:spread"]


def test_no_samples_at_all_give_no_windows():
    result = channel_windows(series({"x": []}))
    assert len(result.start_ns) == 0
