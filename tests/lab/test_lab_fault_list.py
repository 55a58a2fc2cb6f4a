"""The list of faults: whole, true to the catalogue, and every one of them tried by a test."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from fault_effects import ANYWHERE, EFFECTS

from reveal_core.attribute.causes import load_causes
from reveal_core.channels import SUBSYSTEMS
from reveal_core.errors import UsageError
from reveal_core.lab.faults import FAULTS, demo_faults, inject, list_faults


def test_the_list_is_whole() -> None:
    faults = list_faults()
    assert len({fault.name for fault in faults}) == len(faults) >= 25
    for fault in faults:
        assert fault.subsystem in SUBSYSTEMS
        assert fault.causes
        assert fault.intensity
        assert "\n" not in fault.reason
        assert bool(fault.reason) != fault.available
        assert set(fault.same_signals) <= {other.name for other in FAULTS}
        for other in fault.same_signals:
            assert fault.name in {o.name: o for o in faults}[other].same_signals


def test_every_subsystem_of_this_machine_is_struck_in_three_ways_at_least() -> None:
    struck = Counter(fault.subsystem for fault in FAULTS if not fault.by_name)
    assert set(struck) == set(SUBSYSTEMS) - {"gpu"}
    assert min(struck.values()) >= 3


def test_causes_are_in_the_catalogue() -> None:
    known = {cause.id for cause in load_causes()}
    assert {cause for fault in FAULTS for cause in fault.causes} <= known


def test_the_demo_has_three_faults_of_different_subsystems() -> None:
    usual = [fault for fault in list_faults() if fault.available and not fault.by_name]
    subsystem = {fault.name: fault.subsystem for fault in usual}
    names = demo_faults(3)
    assert len(names) == 3
    assert len({subsystem[name] for name in names}) == 3
    assert demo_faults(100)[:3] == names
    assert sorted(demo_faults(100)) == sorted(subsystem)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": "no-such", "duration_s": 1.0}, "there are cpu-quota, packet-loss"),
        ({"name": "cpu-contention", "duration_s": 0.0}, "cannot last"),
        ({"name": "cpu-contention", "duration_s": float("inf")}, "cannot last"),
        ({"name": "cpu-contention", "duration_s": 1.0, "intensity": -1.0}, "intensity"),
    ],
)
def test_wrong_usage_is_one_line(arguments: dict, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        inject(**arguments, state_dir=tmp_path / "state")
    assert "\n" not in str(caught.value)


def test_every_fault_is_tried() -> None:
    apart = {"cpu-quota", "packet-loss", "cgroup-memory-pressure", "huge-pages-reserved"}
    apart |= {"interrupts-on-one-core"}
    tried = {*EFFECTS, *ANYWHERE, *apart}
    assert tried == {fault.name for fault in FAULTS if not fault.by_name}
