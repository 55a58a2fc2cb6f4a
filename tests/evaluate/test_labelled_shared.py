"""Readers on the shared copies: what their descriptions say of rows, labels and faults."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reveal_core.evaluate.datasets import asd, emmy, nab, nezha, smd
from reveal_core.evaluate.labelled import LabelledSeries

SHARED = Path(__file__).parents[3] / "shared/data"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there"),
]


@pytest.fixture(scope="module")
def smd_series() -> list[LabelledSeries]:
    return smd.read(SHARED / "smd")


def test_smd_machines(smd_series: list[LabelledSeries]) -> None:
    assert len(smd_series) == 17
    assert [series.entity for series in smd_series][-4:] == [f"machine-3-{n}" for n in (3, 4, 5, 10)]
    for series in smd_series:
        assert series.train.shape[1] == 38
        assert 23_000 < len(series.train) < 28_000
        assert 23_000 < len(series.test) < 28_000
        assert series.test.min() >= 0
    assert {s for series in smd_series for s in series.subsystems} == {"cpu", "memory", "storage", "network"}


def test_smd_segments(smd_series: list[LabelledSeries]) -> None:
    pairs = [(series, segment) for series in smd_series for segment in series.segments]
    assert len(pairs) == 248
    storage_only = 0
    for series, segment in pairs:
        known = dict(zip(series.metrics, series.subsystems, strict=True))
        storage_only += {known[name] for name in segment.metrics} == {"storage"}
    assert storage_only == 102
    differing = {s.entity for s in smd_series if [(g.start, g.end) for g in s.segments] != s.events}
    assert differing == {"machine-2-3", "machine-3-3"}


def test_asd() -> None:
    found = {series.entity: series for series in asd.read(SHARED / "asd")}
    assert len(found) == 10
    assert {name: len(series.train) for name, series in found.items()} == dict.fromkeys(found, 8640)
    assert {series.test.shape for series in found.values()} == {(4320, 19)}
    assert sum(len(series.segments) for series in found.values()) == 62
    assert all(segment.metrics for series in found.values() for segment in series.segments)
    joined = {name for name, series in found.items() if len(series.events) != len(series.segments)}
    assert joined == {"omi-11"}


def test_nab() -> None:
    found = nab.read(SHARED / "nab")
    assert len(found) == 21 - len(nab.NOT_SERVERS)
    # 119 784 rows and 40 windows in all; the two temperature series have 29 962 and 6 of them.
    assert sum(len(series.train) + len(series.test) for series in found) == 119_784 - 29_962
    assert sum(len(series.segments) for series in found) == 40 - 6
    assert {series.period_s for series in found} == {300}
    assert max(len(series.train) for series in found) == 750
    assert Counter(series.subsystems[0] for series in found) == {
        "cpu": 11,
        "storage": 2,
        "network": 4,
        None: 2,
    }


def test_emmy() -> None:
    (job,) = emmy.read(SHARED / "emmy_jobs")
    assert job.values.shape == (1441, 32, 9)
    assert (job.slow, job.work) == ({"7", "8"}, ("ipc", "mem_bw", "flops_any"))
    missing = np.isnan(job.values)
    assert (missing.any(axis=2) == missing.all(axis=2)).all()
    assert missing.mean() == pytest.approx(0.09, abs=0.005)
    bandwidth = np.nanmedian(job.values[:, :, job.metrics.index("mem_bw")], axis=0)
    assert bandwidth[7:9] == pytest.approx([59.2, 60.7], abs=0.1)
    others = np.delete(bandwidth, [7, 8])
    assert np.abs(others / np.median(bandwidth) - 1).max() < 0.04


def test_nezha() -> None:
    boutique, tickets = nezha.read(SHARED / "nezha")
    assert (boutique.day, tickets.day) == ("2022-08-22", "2023-01-30")
    assert (len(boutique.pods), len(tickets.pods)) == (10, 46)
    assert (len(boutique.edges), len(tickets.edges)) == (28, 0)
    assert {len(pod.times_s) for pod in tickets.pods} == {741}
    # Of 1209 minutes; some times stand twice.
    assert all(1200 < len(pod.times_s) <= 1209 for pod in boutique.pods)
    assert Counter(fault.subsystem for fault in boutique.faults) == {"cpu": 11, "network": 7, None: 6}
    assert Counter(fault.subsystem for fault in tickets.faults) == {"cpu": 3, "network": 14}
    for day in (boutique, tickets):
        for pod in day.pods:
            assert (np.diff(pod.times_s) > 0).all()
            assert 0.7 < day.fault_free(pod.times_s).mean() < 0.95
