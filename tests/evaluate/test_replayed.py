"""Faults replayed over a recording: what they change, what they leave alone, and that they are found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from injected_samples import at, sample_telemetry

from reveal_core.attribute.causes import load_causes
from reveal_core.catalog import load_catalog
from reveal_core.channels import SUBSYSTEMS
from reveal_core.errors import UsageError
from reveal_core.evaluate.matching import match_faults
from reveal_core.evaluate.replayed import SHOWN_S, Placed, judged_replay, place, replay
from reveal_core.evaluate.replayed_devices import DEVICES, GPUS, add_devices
from reveal_core.evaluate.replayed_faults import REPLAYED, ReplayedFault
from reveal_core.method import analyse, build_series, build_windows
from reveal_core.model import RevealModel
from reveal_core.profiles import DEFAULT
from reveal_core.selection import is_coverage

SECONDS = 120.0
BY_NAME = {fault.name: fault for fault in REPLAYED}


@pytest.fixture(scope="module")
def telemetry():
    recorded = sample_telemetry(SECONDS)
    return add_devices(recorded, build_series(recorded), 0)


def placed(name: str, size: float = 1.0) -> Placed:
    return Placed(BY_NAME[name], at(60.0), at(90.0), size)


def means(frame: pl.DataFrame, name: str) -> tuple[float, float, float]:
    """Return a column's mean before, within and after the fault."""
    spans = ((10.0, 60.0), (60.0, 90.0), (91.0, SECONDS))
    parts = [frame.filter(pl.col("ts").is_between(at(a), at(b), closed="left")) for a, b in spans]
    return tuple(float(part[name].mean()) for part in parts)  # type: ignore[return-value]


def rates(telemetry, name: str) -> tuple[float, float, float]:
    return means(build_series(telemetry).frame, name)


def test_devices_are_channels_of_the_catalogue_with_valid_samples(telemetry) -> None:
    catalog = load_catalog()
    for device in DEVICES:
        for instance in device.instances:
            name = f"{device.metric}/{instance}" if instance else device.metric
            channel, column = telemetry.channels[name], telemetry.frame[name]
            metric = catalog[device.metric]
            assert (channel.kind, channel.unit, channel.subsystem) == (
                metric.kind,
                metric.unit,
                metric.subsystem,
            )
            expected = 0 if np.isnan(device.busy) else SECONDS * 1000 / device.period_ms
            assert column.count() == pytest.approx(expected, abs=1)
            if metric.kind == "counter":
                assert (column.drop_nulls().diff().drop_nulls() >= 0).all()
            elif expected:
                assert column.min() >= (metric.minimum if metric.minimum is not None else -np.inf)
                assert column.max() <= (metric.maximum if metric.maximum is not None else np.inf)


def test_a_recorded_channel_is_not_made_up_anew(telemetry) -> None:
    series = build_series(telemetry)
    again = add_devices(telemetry, series, 1)
    assert again.frame.columns == telemetry.frame.columns
    recorded = sample_telemetry(SECONDS)
    for name in recorded.frame.columns:
        assert telemetry.frame[name].equals(recorded.frame[name])


@pytest.mark.parametrize(
    ("fault", "metric", "factor"),
    [
        ("gpu-power-capped", f"gpu.clock_sm/{GPUS[0]}", 0.8),
        ("gpu-hanging", f"gpu.nvlink_tx_data/{GPUS[1]}", 0.01),
        ("remote-numa-memory", "perf.instructions", 0.7),
        ("gpu-hanging", f"gpu.memory_utilization/{GPUS[0]}", 0.02),
    ],
)
def test_an_effect_lasts_as_long_as_its_fault(telemetry, fault: str, metric: str, factor: float) -> None:
    usual = rates(telemetry, metric)
    before, within, after = rates(replay(telemetry, [placed(fault)]), metric)
    assert (before, after) == pytest.approx((usual[0], usual[2]), rel=0.02)
    assert within == pytest.approx(factor * usual[1], rel=0.1, abs=0.02 * usual[1])


def test_errors_are_counted_and_stay_counted(telemetry) -> None:
    name = f"gpu.nvlink_crc_flit_errors/{GPUS[0]}"
    written = replay(telemetry, [placed("nvlink-errors", size=0.5)])
    counts = written.frame[name].drop_nulls()
    assert counts[0] == 0
    assert counts[-1] == pytest.approx(0.5 * 400 * 30, rel=0.05)
    assert written.frame[f"gpu.nvlink_crc_flit_errors/{GPUS[1]}"].max() == 0


def test_a_first_error_has_a_number(telemetry) -> None:
    name = f"gpu.xid_last/{GPUS[0]}"
    assert telemetry.frame[name].count() == 0
    two = [placed("gpu-xid"), replace(placed("gpu-ecc-errors"), onset=at(95.0), end=at(110.0))]
    column = replay(telemetry, two).frame.select("ts", name).drop_nulls()
    assert column[name].unique().sort().to_list() == [94.0, 119.0]
    assert column.height == pytest.approx(30 + 15, abs=2)


def test_a_lost_gpu_gives_no_samples(telemetry) -> None:
    written = replay(telemetry, [placed("gpu-lost")]).frame
    inside = written.filter(pl.col("ts").is_between(at(60.0), at(90.0), closed="left"))
    assert inside[f"gpu.power/{GPUS[0]}"].count() == 0
    assert inside[f"gpu.power/{GPUS[1]}"].count() == 300
    assert (inside[f"gpu.lost/{GPUS[0]}"] == 1).all()
    assert (written[f"gpu.lost/{GPUS[0]}"].sum(), written[f"gpu.lost/{GPUS[1]}"].sum()) == (300, 0)


def test_what_was_recorded_is_changed_only_where_a_fault_says_so(telemetry) -> None:
    written = replay(telemetry, [placed(name) for name in ("gpu-hanging", "gpu-too-hot")])
    for name in sample_telemetry(1.0).frame.columns:
        assert written.frame[name].equals(telemetry.frame[name])


def test_a_clock_that_is_set_leaves_a_gap_and_an_overlap(telemetry) -> None:
    frame = telemetry.frame.with_columns(
        pl.lit(3, pl.Int64).alias("reveal.clock_steps"), pl.lit(0.0, pl.Float32).alias("reveal.clock_step")
    )
    catalog = load_catalog()
    known = {
        name: catalog[name].channel("", "reveal", 100) for name in ("reveal.clock_steps", "reveal.clock_step")
    }
    recorded = replace(telemetry, frame=frame, channels={**telemetry.channels, **known})
    one = placed("clock-step")
    written = replay(recorded, [one]).frame
    assert written["ts"].is_sorted()
    assert written["ts"].n_unique() == written.height
    assert written["ts"].diff().max() == timedelta(seconds=1.63)
    was = recorded.frame.select("mono", pl.col("ts").alias("was"))
    shifts = written.join(was, on="mono").with_columns(by=pl.col("ts") - pl.col("was"))
    shifted = shifts.filter(pl.col("by") > 0)
    assert shifted["by"].unique().to_list() == [timedelta(seconds=1.53)]
    assert (shifted["was"].min(), shifted.height) == (at(60.0), 300)
    by_mono = written.sort("mono")
    assert by_mono["reveal.clock_steps"].to_list() == sorted(by_mono["reveal.clock_steps"])
    assert by_mono["reveal.clock_steps"][-1] == 5
    assert sorted(set(written["reveal.clock_step"])) == [-1530.0, 0.0, 1530.0]
    truth = one.truth("a").truth
    assert truth.start == at(61.53)
    # Setting it back is a step by itself: what begins there is the fault's.
    assert truth.span[1] >= at(90.0) + timedelta(seconds=SHOWN_S)
    assert placed("gpu-hanging").truth("a").truth.end == at(90.0)


def test_places_are_a_pure_function_of_the_seed_and_lie_apart() -> None:
    start, end = at(0.0), at(3600.0)
    faults = place(start, end, 30, 5)
    assert place(start, end, 30, 5) == faults
    assert place(start, end, 30, 6) != faults
    assert len(faults) == 30
    assert {one.fault.name for one in faults[: len(REPLAYED)]} == set(BY_NAME)
    for one, following in pairwise(faults):
        assert (following.onset - one.end).total_seconds() >= 30
    assert faults[-1].end < end
    assert len(place(start, at(400.0), 30, 5)) < 10
    with pytest.raises(UsageError, match="too short"):
        place(start, at(30.0), 1, 0)


def test_the_list_is_true_to_the_catalogues() -> None:
    catalog, causes = load_catalog(), {cause.id for cause in load_causes()}
    for fault in REPLAYED:
        assert fault.subsystem in SUBSYSTEMS
        assert set(fault.causes) <= causes
        assert {effect.metric for effect in fault.effects} <= set(catalog)
        assert fault.effects or fault.step_s


def test_replayed_faults_are_named_so() -> None:
    faults = [placed("gpu-starving")]
    piece = judged_replay(sample_telemetry(1.0), faults, [], start=at(0.0), end=at(100.0), seed=1)
    (fault,) = piece.faults
    assert (piece.variant, fault.variant) == ("replayed", "replayed")
    assert fault.how.startswith("replayed, not real")
    assert (fault.truth.subsystem, fault.lenient, fault.slowdown) == ("storage", ("gpu",), None)
    assert isinstance(faults[0].fault, ReplayedFault)


@pytest.mark.parametrize("name", ["pcie-narrow", "gpu-power-capped", "gpu-too-hot"])
def test_a_device_that_says_itself_what_is_wrong_is_found_after_a_restless_history(telemetry, name) -> None:
    early = telemetry.frame.filter(pl.col("ts") < at(58.0))
    windows = build_windows(build_series(replace(telemetry, frame=early)), DEFAULT)
    # Every fifth window holds other work, each time of another kind, which moves much but the GPUs.
    draw, height = np.random.default_rng(0), windows.frame.height
    moved = [f.name for f in windows.features if f.subsystem != "gpu" and not is_coverage(f.metric)]
    far = np.where(np.arange(height)[:, None] % 5 == 3, draw.exponential(size=(height, len(moved))) ** 3, 0.0)
    restless = windows.frame.with_columns(
        pl.col(name) + pl.Series(far[:, i] * (1.0 + windows.frame[name].abs().max()))
        for i, name in enumerate(moved)
    )
    model = RevealModel(DEFAULT.to_dict()).fit([replace(windows, frame=restless)])
    one = placed(name)
    found = analyse(model, replay(telemetry, [one]), start=at(58.0), end=at(SECONDS))
    (match,) = match_faults([one.truth(found.host).truth], found.incidents)
    assert match.found
    assert match.subsystem_right
    assert match.cause_right
