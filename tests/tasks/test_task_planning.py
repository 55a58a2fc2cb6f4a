"""Planning: which hosts, which time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.cli import main
from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from storage.store import Store
from tasks.planning import classify_hosts, groups_of, hardware_class, parse_range, plan_hosts, read_host


def test_without_times_the_last_hour_of_each_host_is_planned(fitted_store) -> None:
    plans = plan_hosts(str(fitted_store.path), host="*", start=None, end=None)
    assert [plan["host"] for plan in plans] == ["node-1"]
    assert plans[0]["start"] == "2026-11-29T20:00:00.000Z"
    assert plans[0]["end"] == "2026-11-29T20:02:59.901Z"


def test_the_planned_range_holds_the_newest_sample(fitted_store) -> None:
    plan = plan_hosts(str(fitted_store.path), host="node-1", start=None, end=None)[0]
    _, end = parse_range(plan["start"], plan["end"])
    extent = Store(str(fitted_store.path)).extent("node-1")
    assert end is not None
    assert extent is not None
    assert end >= extent[1]


@pytest.mark.parametrize(
    ("host", "start", "end", "said"),
    [
        ("node-9", None, None, "no host 'node-9'.*it holds node-1"),
        ("*", "2020-01-01", "2020-01-02", "no telemetry of .* it has node-1 2026-11-29T20:00:00.000Z to"),
        ("*", "2026-11-29T21:00", None, "no telemetry"),
        ("*", "2026-11-29T20:01", "2026-11-29T20:00", "before it starts"),
        ("*", "yesterday", None, "'yesterday' is not a time"),
    ],
)
def test_bad_ranges_say_what_there_is(
    fitted_store, host: str, start: str | None, end: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        plan_hosts(str(fitted_store.path), host=host, start=start, end=end)


def test_an_empty_store_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no telemetry yet: reveal collect"):
        plan_hosts(str(tmp_path), host="*", start=None, end=None)


def test_hosts_of_different_machines_are_of_different_classes(tmp_path: Path, make_store) -> None:
    make_store(tmp_path, hosts=["small"], seconds=20)
    make_store(
        tmp_path,
        hosts=["big"],
        seconds=20,
        facts={"cpu": {"model": "AMD EPYC 9654", "logical": 192}, "gpus": [{}]},
    )
    plans = plan_hosts(str(tmp_path), host="*", start=None, end=None)
    found = {plan["host"]: plan["hardware_class"] for plan in classify_hosts(str(tmp_path), plans=plans)}
    assert found == {"big": "192cpu-1gpu-amd", "small": "2cpu-0gpu-synthetic"}


@given(st.dictionaries(st.sampled_from(["cpu", "gpus", "x"]), st.none() | st.just({}) | st.just([])))
def test_a_class_has_a_name_whatever_is_known_of_a_host(facts: dict) -> None:
    if not isinstance(facts.get("cpu"), list):
        assert hardware_class(facts) == "0cpu-0gpu-unknown"


@given(st.integers(0, 40), st.integers(1, 9))
def test_groups_hold_every_host_once_and_in_order(count: int, size: int) -> None:
    plans = [{"host": str(number)} for number in range(count)]
    groups = groups_of(plans, size)
    assert [plan for group in groups for plan in group] == plans
    assert all(1 <= len(group) <= size for group in groups)


@pytest.mark.parametrize("period_s", [1, 5, 15, 60])
def test_a_warm_up_holds_two_samples_however_coarse_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, period_s: int
) -> None:
    monkeypatch.chdir(tmp_path)
    begin = datetime(2026, 11, 29, 20, tzinfo=UTC)
    times = [begin + timedelta(seconds=period_s * number) for number in range(40)]
    rows = "".join(f"{iso(time)},{number}\n" for number, time in enumerate(times))
    Path("node.csv").write_text(f"time,meminfo.MemFree\n{rows}", encoding="utf-8")
    assert main(["import", "csv", "node.csv", "--host", "node", "--store", "s"]) == 0
    start = times[20]
    plan = {"host": "node", "start": iso(start), "end": iso(times[30])}
    found = read_host(Store("s"), plan, warm_up=True).telemetry.frame["ts"].to_list()
    assert sum(time < start for time in found) >= 2
    assert [time for time in found if time >= start] == times[20:30]
    without = read_host(Store("s"), plan, warm_up=False).telemetry.frame["ts"].to_list()
    assert without == times[20:30]
