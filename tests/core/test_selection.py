"""Which features detectors may see, and which may wake."""

from __future__ import annotations

import pytest

from reveal_core.catalog import load_catalog
from reveal_core.profiles import DEFAULT
from reveal_core.selection import may_wake, select
from reveal_core.windows import Feature


def feature(metric: str, statistic: str = "level", part: str = "value") -> Feature:
    known = load_catalog().get(metric)
    return Feature(
        f"{metric}:{part}:{statistic}", metric, part, statistic, known.subsystem if known else "cpu", ""
    )


@pytest.mark.parametrize(
    ("metric", "statistic", "wakes"),
    [
        ("tcp.RetransSegs", "level", True),
        ("tcp.RetransSegs", "spread", True),
        ("stat.procs_running", "level", True),
        ("stat.procs_running", "spread", False),
        ("stat.ctxt", "level", False),
        ("cpu.busy", "level", False),
    ],
)
def test_events_and_levels_of_what_is_no_counter_may_wake(metric: str, statistic: str, wakes: bool) -> None:
    assert may_wake(feature(metric, statistic)) is wakes


def test_stocks_are_judged_by_change_and_coverage_is_no_signal() -> None:
    given = [feature("meminfo.Cached"), feature("meminfo.Cached.change"), feature("telemetry.coverage.stat")]
    given += [feature("stat.ctxt"), feature("reveal.late")]
    assert [f.metric for f in select(given, ["reveal.*"])] == ["meminfo.Cached.change", "stat.ctxt"]


def test_of_what_the_collector_says_of_itself_only_the_clock_is_a_signal() -> None:
    own = [feature(name) for name in load_catalog() if name.startswith("reveal.")]
    assert len(own) > 5
    assert [f.metric for f in select(own, DEFAULT.exclude)] == ["reveal.clock_steps"]
