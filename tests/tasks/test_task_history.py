"""Learning from a history of any length in bounded memory."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_telemetry import SYNTHETIC_START

from reveal_core.errors import NoTelemetryError, UsageError
from reveal_core.incidents import Incident, iso
from reveal_core.profiles import load_profile
from storage.store import Store
from tasks import history
from tasks.history import MOST_HOSTS, PIECE, healthy_windows, pieces, sample_hosts

START = datetime(2026, 11, 1, tzinfo=UTC)
PROFILE = load_profile("default")


def plan(start_s: float, end_s: float, host: str = "node-1") -> dict[str, str]:
    times = [iso(SYNTHETIC_START + timedelta(seconds=s)) for s in (start_s, end_s)]
    return {"host": host, "start": times[0], "end": times[1]}


def starts(found) -> list[datetime]:
    return [start for windows in found for start in windows.frame["start"]]


@given(st.integers(1, 40 * 86400), st.integers(600, 21600), st.integers(0, 3))
def test_pieces_follow_each_other_within_the_range_and_are_bounded(
    seconds: int, most_s: int, seed: int
) -> None:
    end, most = START + timedelta(seconds=seconds), timedelta(seconds=most_s)
    found = pieces(START, end, most, np.random.default_rng(seed))
    assert found[0][0] >= START
    assert found[-1][1] <= end
    assert all(a < b for a, b in found)
    assert all(one[1] <= other[0] for one, other in pairwise(found))
    total = sum((b - a for a, b in found), timedelta())
    assert total == end - START if end - START <= most else total <= max(most, PIECE)


def test_weeks_of_history_give_every_hour_of_the_day_its_share() -> None:
    most = timedelta(hours=6)
    found = pieces(START, START + timedelta(days=21), most, np.random.default_rng(0))
    assert len(found) == 36
    assert len({begin.hour for begin, _ in found}) > 12
    assert found == pieces(START, START + timedelta(days=21), most, np.random.default_rng(0))


def test_a_short_history_is_taken_whole_although_it_is_read_in_pieces(
    tmp_path: Path, make_store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(make_store(tmp_path, bursts=())))
    whole, _ = healthy_windows(store, [plan(0, 180)], PROFILE, seed=0, without_incidents=False)
    monkeypatch.setattr(history, "PIECE", timedelta(seconds=60))
    cut, _ = healthy_windows(store, [plan(0, 180)], PROFILE, seed=0, without_incidents=False)
    assert (len(whole), len(cut)) == (1, 3)
    # A window that lies across two pieces is in none.
    assert set(starts(whole)) - set(starts(cut)) == {
        SYNTHETIC_START + timedelta(seconds=s) for s in (58, 59, 118, 119)
    }
    same, of_whole = (windows.frame.drop("start", "end") for windows in (cut[1], whole[0]))
    assert same.row(0) == pytest.approx(of_whole.row(60), nan_ok=True)


def test_several_hosts_share_the_bound(tmp_path: Path, make_store, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(str(make_store(tmp_path, hosts=("node-1", "node-2"), bursts=())))
    monkeypatch.setattr(history, "PIECE", timedelta(seconds=20))
    plans = [plan(0, 180), plan(0, 180, "node-2")]
    found, left_out = healthy_windows(store, plans, PROFILE, seed=0, without_incidents=False, most=80)
    assert not left_out
    assert [windows.host for windows in found] == ["node-1"] * 2 + ["node-2"] * 2
    assert len(starts(found)) <= 80


def incident(begin_s: float, end_s: float) -> Incident:
    start, end = (SYNTHETIC_START + timedelta(seconds=s) for s in (begin_s, end_s))
    return Incident(f"i{begin_s}", "f", "node-1", start, end, 1, 0.01, 2.0, "cpu", (), ())


def test_incidents_are_left_out_and_a_history_of_little_else_is_refused(tmp_path: Path, make_store) -> None:
    store = Store(str(make_store(tmp_path)))
    store.put_incident(incident(119, 129))
    found, _ = healthy_windows(store, [plan(0, 180)], PROFILE, seed=0, without_incidents=True)
    kept = starts(found)
    assert not [s for s in kept if 117 <= (s - SYNTHETIC_START).total_seconds() < 129]
    assert len(kept) == 178 - 12
    store.put_incident(incident(10, 110))
    with pytest.raises(UsageError, match=r"of node-1 from .* lie in incidents: say which time was healthy"):
        healthy_windows(store, [plan(0, 180)], PROFILE, seed=0, without_incidents=True)


def test_a_host_that_was_off_for_a_while_gives_what_there_is(
    tmp_path: Path, make_store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(make_store(tmp_path, bursts=())))
    monkeypatch.setattr(history, "PIECE", timedelta(seconds=90))
    found, _ = healthy_windows(store, [plan(0, 900)], PROFILE, seed=0, without_incidents=False)
    assert len(found) == 2
    with pytest.raises(NoTelemetryError, match="has no telemetry of host 'node-1'"):
        healthy_windows(store, [plan(1000, 1900)], PROFILE, seed=0, without_incidents=False)


def test_a_host_without_healthy_time_costs_the_others_nothing(tmp_path: Path, make_store) -> None:
    store = Store(str(make_store(tmp_path, hosts=("node-1", "node-2", "node-3"), bursts=())))
    store.put_incident(incident(10, 170))
    plans = [plan(0, 180), plan(0, 180, "node-2"), plan(1000, 1900, "node-3")]
    found, left_out = healthy_windows(store, plans[:2], PROFILE, seed=0, without_incidents=True)
    assert {windows.host for windows in found} == {"node-2"}
    assert list(left_out) == ["node-1"]
    assert "lie in incidents" in left_out["node-1"]
    with pytest.raises(UsageError, match=r"node-1 .* lie in incidents"):  # two of three
        healthy_windows(store, plans, PROFILE, seed=0, without_incidents=True)


@given(st.integers(1, 3000), st.integers(0, 5))
def test_of_many_hosts_some_are_drawn_in_order(count: int, seed: int) -> None:
    plans = [{"host": f"node-{number:04}"} for number in range(count)]
    some = sample_hosts(plans, seed)
    assert len(some) == min(count, MOST_HOSTS)
    names = [one["host"] for one in some]
    assert names == sorted(set(names))
    assert some == sample_hosts(plans, seed)


def test_every_host_has_its_turn() -> None:
    plans = [{"host": f"node-{number}"} for number in range(100)]
    assert len({one["host"] for seed in range(24) for one in sample_hosts(plans, seed)}) == 100
