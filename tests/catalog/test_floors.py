"""Floors: what is worth noticing of a metric."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest

from reveal_core.catalog import load_catalog
from reveal_core.catalog.floors import floor_of, load_floors

CATALOG = load_catalog()
PATTERNS = sorted(load_floors().by_pattern)
WINDOW_S = 3.0


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_of_events_that_have_no_other_floor(pattern: str) -> None:
    metrics = [metric for name, metric in CATALOG.items() if fnmatchcase(name, pattern)]
    assert metrics
    for metric in metrics:
        assert metric.event, metric.name
        assert metric.floor is None, metric.name
        assert [other for other in PATTERNS if fnmatchcase(metric.name, other)] == [pattern]


@pytest.mark.parametrize(
    "metric", ["vmstat.oom_kill", "gpu.ecc_volatile_uncorrected", "ib.link_downed", "reveal.clock_steps"]
)
def test_one_event_in_a_window_stands_out(metric: str) -> None:
    assert 10.0 * floor_of(metric, CATALOG[metric].physical_unit) <= 1.0 / WINDOW_S


def test_which_floor_goes_before_which() -> None:
    assert floor_of("gpu.ecc_volatile_corrected", "errors/s") == 0.3
    assert floor_of("reveal.read_time", "us") == 1000.0  # its own
    assert floor_of("vmstat.compact_stall", "events/s") == load_floors().default["event"]
    assert floor_of("cpu.user", "%") == load_floors().by_unit["%"]
    assert floor_of("somebody.else", "furlongs/s") == load_floors().default["counter"]
    assert floor_of("somebody.else", "furlongs") == load_floors().default["gauge"]
