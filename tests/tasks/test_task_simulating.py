"""A simulated fleet in a store: fitted and scored as any other, and what was planted is what is found."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.lab.fleet import FleetPlan
from reveal_core.lab.fleet_classes import parse_classes
from reveal_core.method import analyse, fit_model
from reveal_core.profiles import load_profile
from reveal_core.timespec import parse_time
from storage.store import Store
from tasks import simulating
from tasks.faultfiles import read_faults
from tasks.planning import plan_hosts, read_host
from tasks.simulating import Recording, simulate_fleet

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def plan_of(hosts: int, seconds: float, faulty: float, classes: str = "amd2,intel4", **more) -> FleetPlan:
    return FleetPlan(
        hosts=hosts,
        start=START,
        seconds=seconds,
        classes=parse_classes(classes),
        faulty=faulty,
        seed=2,
        channels=40,
        segment_s=50.0,
        **more,
    )


def test_planted_faults_are_the_hosts_with_incidents(tmp_path: Path, make_store) -> None:
    donor = make_store(tmp_path / "donor", bursts=())
    place, truth = str(tmp_path / "fleet"), tmp_path / "faults.json"
    plan = plan_of(6, 100.0, 0.34, "intel4", history_s=150.0, history_hosts=1, distinct=2)
    found = simulate_fleet(place, plan, recording=Recording(str(donor)), truth=truth)
    assert (found["hosts"], found["segments"]) == (6, 6 * 2 + 3)
    assert found["bytes"] == sum(path.stat().st_size for path in Path(place).rglob("*.parquet"))
    assert found["donor"] == {"host": "node-1", "store": str(donor)}
    assert [one["class"] for one in found["classes"]] == ["4cpu-0gpu-intel"]
    assert {fault["host"] for fault in read_faults(truth)} == {fault["host"] for fault in found["faults"]}

    store = Store(place)
    start, end = parse_time(found["start"]), parse_time(found["end"])
    (learned,) = plan_hosts(place, host="*", start=found["history_start"], end=found["start"])
    model = fit_model([read_host(store, learned, warm_up=False).telemetry], load_profile("default"))
    alarmed = {}
    for host in plan_hosts(place, host="*", start=found["start"], end=found["end"]):
        telemetry = read_host(store, host, warm_up=True).telemetry
        incidents = analyse(model, telemetry, start=start, end=end).incidents
        alarmed |= {host["host"]: incidents} if incidents else {}
    assert len(found["faults"]) == 2
    for fault in found["faults"]:
        (incident,) = alarmed.pop(fault["host"])
        assert abs((incident.start - parse_time(fault["start"])).total_seconds()) < 3.0
        assert incident.subsystem == fault["subsystem"]
    assert not alarmed


def test_without_a_recording_hosts_are_made_up_and_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulating, "DONOR_S", 12.0)
    found = simulate_fleet(str(tmp_path), plan_of(3, 2.0, 0.0))
    assert found["donor"] == {"host": "made-up", "store": None}
    assert any("No recording was named" in note for note in found["notes"])
    assert found["faults"] == []
    assert Store(str(tmp_path)).hosts() == ["amd2-0000", "amd2-0001", "intel4-0000"]


def test_hosts_that_share_values_are_told(tmp_path: Path, make_store) -> None:
    donor = make_store(tmp_path / "donor", seconds=20.0, bursts=())
    recording = Recording(str(donor))
    place = tmp_path / "fleet"
    plan = plan_of(7, 2.0, 0.0, distinct=2)
    found = simulate_fleet(str(place), plan, recording=recording, hours_before=2)
    assert found["shared"] == 3
    assert found["segments"] == 7 * 3
    assert len(list(place.glob("telemetry/*/*/*"))) == 7 * 3
    assert found["notes"] == [
        "3 of 7 hosts have the values of another host of their class, under a name, a boot and a machine id "
        "of their own."
    ]


def test_what_cannot_be_simulated_is_one_line(tmp_path: Path, make_store) -> None:
    donor = make_store(tmp_path / "donor", seconds=20.0, bursts=())
    plan = plan_of(2, 2.0, 0.0)
    with pytest.raises(UsageError, match="no host 'nobody'"):
        simulate_fleet(str(tmp_path / "a"), plan, recording=Recording(str(donor), host="nobody"))
    with pytest.raises(UnavailableError, match=r"faults\.json cannot be written"):
        simulate_fleet(
            str(tmp_path / "b"), plan, recording=Recording(str(donor)), truth=tmp_path / "no" / "faults.json"
        )
    with pytest.raises(UnavailableError, match="store /proc/nope"):
        simulate_fleet("/proc/nope", plan)
