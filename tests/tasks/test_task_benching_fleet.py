"""Measuring a fleet's run: another process is watched, stages are timed, shares and slope are figured."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from synthetic_telemetry import SYNTHETIC_START

from reveal_core.errors import UnavailableError
from reveal_core.incidents import iso
from storage.store import Store
from tasks.benching_apart import environment, forget_results, remove_store, watched
from tasks.benching_fleet import StageClock, judged, question, slope, stage_percent
from tasks.pool import map_apart
from tasks.runner import DirectRunner


def test_what_another_process_returns_or_raises_comes_through_and_its_memory_is_told() -> None:
    ballast = bytes(range(256)) * (4 * 2**20)  # 1 GiB, touched: what this process holds is not the other's
    result, peak_mib = watched(len, "four")
    assert (result, len(ballast)) == (4, 2**30)
    assert 1.0 < peak_mib < 400.0
    with pytest.raises(ValueError, match="invalid literal"):
        watched(int, "x")
    with pytest.raises(UnavailableError, match="was killed before it was done"):
        watched(os._exit, 3)


def side_by_side() -> list[int]:
    return map_apart(2, other, [{"number": number} for number in range(4)])


@pytest.mark.timeout(60)
def test_another_process_ends_although_it_has_a_pool_of_its_own() -> None:
    assert watched(side_by_side)[0] == [0, 2, 4, 6]


def plan_hosts(number: int) -> int:
    """Doubling."""
    if number < 0:
        raise ValueError("negative")
    return 2 * number


def other(number: int) -> int:
    """Doubling too."""
    return 2 * number


def test_stages_are_timed_by_name_failing_ones_too() -> None:
    clock = StageClock(DirectRunner())
    assert clock.run_id is None
    assert clock.call(plan_hosts, number=2) == 4
    with pytest.raises(ValueError, match="negative"):
        clock.call(plan_hosts, number=-1)
    assert clock.map(other, [{"number": 1}, {"number": 2}]) == [2, 4]
    assert set(clock.seconds) == {"plan", "other"}
    assert all(seconds > 0 for seconds in clock.seconds.values())


def test_the_stage_of_scoring_is_told_by_its_parts() -> None:
    shares = stage_percent({"plan": 1.0, "score": 8.0, "report": 1.0}, {"read": 1.0, "features": 3.0})
    assert shares == {"plan": 10.0, "read": 20.0, "features": 60.0, "report": 10.0}


def test_the_slope_is_the_power_that_time_grows_with() -> None:
    assert slope([100, 300, 1000], [2.0, 6.0, 20.0]) == 1.0
    assert slope([10, 1000], [1.0, 10.0]) == 0.5
    assert slope([10], [1.0]) is None


def test_variables_are_set_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REVEAL_A", "before")
    monkeypatch.delenv("REVEAL_B", raising=False)
    with environment({"REVEAL_A": None, "REVEAL_B": "now"}):
        assert "REVEAL_A" not in os.environ
        assert os.environ["REVEAL_B"] == "now"
    assert os.environ["REVEAL_A"] == "before"
    assert "REVEAL_B" not in os.environ


def test_a_question_tells_what_was_read_of_files(tmp_path: Path, make_store) -> None:
    place = str(make_store(tmp_path / "store", hosts=("a", "b"), seconds=120.0, bursts=()))
    ends = [iso(SYNTHETIC_START + timedelta(seconds=s)) for s in (10, 100)]
    found = question(place, "a", "b", *ends)
    files = [path.stat().st_size for path in Path(place).rglob("*.parquet") if "host=a" in str(path)]
    assert found["question_rows"] == 900
    assert found["question_mib_read"] * 2**20 > 0.9 * sum(files)
    assert found["question_listings"] > 1
    assert found["question_seconds"] > 0
    assert "cat_file" not in vars(Store(place).backend.fs)


def test_results_of_a_run_are_taken_away_and_telemetry_stays(tmp_path: Path, make_store) -> None:
    place = str(make_store(tmp_path / "store", seconds=10.0, bursts=()))
    store = Store(place)
    store.put_report("r-1", "<p>", {"incidents": []})
    (tmp_path / "store" / "alerts").mkdir()
    forget_results(place)
    assert sorted(path.name for path in (tmp_path / "store").iterdir()) == ["telemetry"]
    remove_store(place)
    assert not (tmp_path / "store").exists()


def test_a_run_without_incidents_found_nothing(tmp_path: Path) -> None:
    Store(str(tmp_path)).check(write=True)
    fault = {
        "name": "packet-loss",
        "subsystem": "network",
        "start": "2026-01-05T12:00:00Z",
        "end": "2026-01-05T12:00:10Z",
        "causes": [],
        "host": "a",
    }
    found = judged(str(tmp_path), [fault], "2026-01-05T11:00:00Z", "2026-01-05T13:00:00Z")
    assert found == {
        "incidents": 0,
        "planted": 1,
        "found_percent": 0.0,
        "struck_hosts": 0,
        "false_hosts": 0,
    }
