"""Idle states per core, and put together on a wide host."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from collect_parts import copy_tree, open_source, read, values, write
from cpu_tree import CPU, add_cpu, cpu_tree, take_off_line
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.catalog import load_catalog, load_left_out
from reveal_core.collect.columns import MISSING, Columns
from reveal_core.collect.found import BriefFiles, LowestPart, SumPart, ValuesPart, signed
from reveal_core.collect.sources.cpuidle import CpuidleSource, state_name
from reveal_core.collect.valuefiles import count


@pytest.mark.parametrize(("cpus", "kept"), [(2, True), (24, False)])
def test_each_core_and_state_has_its_time_and_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: int, kept: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (1024, 4096))
    before = len(os.listdir("/proc/self/fd"))
    source = open_source(CpuidleSource, cpu_tree(tmp_path, cpus), 1000)
    found = values(source)
    assert len(found) == cpus * 8
    assert len(os.listdir("/proc/self/fd")) - before == (len(found) if kept else 0)
    assert found["cstate.POLL/cpu0"] == 1000
    assert found["cstate.C6/cpu1"] == 4000
    assert found["cstate.C6_usage/cpu1"] == 40
    write(tmp_path, f"{CPU}/cpu1/cpuidle/state3/time", "4500\n")
    assert read(source)["cstate.C6/cpu1"] == 4500
    assert not source.columns.errors
    assert not source.columns.unknown
    source.close()


def test_a_wide_host_has_the_mean_time_and_a_cpu_that_goes_or_comes_is_no_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reveal_core.collect.sources.cpuidle.WIDE", 4)
    root = cpu_tree(tmp_path, 8)
    source = open_source(CpuidleSource, root, 1000)
    assert len(values(source)) == 4
    first = values(source)["cstate.C6"]
    assert first is not None
    for cpu in range(8):
        write(root, f"{CPU}/cpu{cpu}/cpuidle/state3/time", f"{4000 + 800}\n")
    assert read(source)["cstate.C6"] == first + 800
    (root / f"{CPU}/cpu7/cpuidle/state3/time").unlink()
    source.parts[0].file.close()  # an open file outlives its name in this tree, but not in sysfs
    assert read(source)["cstate.C6"] == first + 800
    write(root, f"{CPU}/cpu7/cpuidle/state3/time", "900000000\n")
    assert read(source)["cstate.C6"] == first + 800
    write(root, f"{CPU}/cpu7/cpuidle/state3/time", "900008000\n")
    assert read(source)["cstate.C6"] == first + 1800
    source.close()


def test_a_core_that_cannot_be_read_costs_only_its_own_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 256))
    root = cpu_tree(tmp_path, 20)  # so files are opened at each read
    source = open_source(CpuidleSource, root, 1000)
    write(root, f"{CPU}/cpu3/cpuidle/state1/time", "N/A\n")
    take_off_line(root, 5, "0-4,6-19")
    found = read(source)
    assert found["cstate.C1/cpu3"] is None
    assert found["cstate.C6/cpu3"] == 4000
    assert {name for name, value in found.items() if value is None} == {
        "cstate.C1/cpu3",
        *(name for name in found if name.endswith("/cpu5")),
    }
    for _ in range(5):  # once a second; what is there is looked up every five
        found = read(source)
    assert not any(name.endswith("/cpu5") for name in found)
    add_cpu(root, 5)
    write(root, f"{CPU}/online", "0-19\n")
    for _ in range(5):
        found = read(source)
    assert found["cstate.C6/cpu5"] == 4000
    source.close()


@settings(max_examples=50, deadline=None)
@given(
    rounds=st.lists(
        st.lists(st.one_of(st.none(), st.binary(max_size=24)), min_size=3, max_size=3), max_size=6
    )
)
def test_whatever_files_hold_sums_never_fall_and_values_are_numbers_or_missing(
    rounds: list[list[bytes | None]],
) -> None:
    columns = Columns("cpuidle", 1000, load_catalog(), load_left_out())
    file = BriefFiles(Path("cpus"), [])
    total = SumPart(file, columns, ["cstate.C6"] * 3)
    each = ValuesPart(file, columns, [("cstate.C1", f"cpu{cpu}", 1.0) for cpu in range(3)])
    lowest = LowestPart(file, columns, [("cpu.scaling_max_freq", 1.0)] * 3)
    highest = 0
    for data in rounds:
        for part in (total, each, lowest):
            assert part.accept(tuple(data), None)
        numbers = [count(value) for value in data]
        told = [number for number in numbers if number != MISSING]
        assert columns.row[1:4] == [signed(value) for value in data]
        assert columns.row[4] == (min(told) if told else MISSING)
        if told:
            assert columns.row[0] >= highest
            highest = columns.row[0]
        else:
            assert columns.row[0] == MISSING


def test_a_state_without_an_entry_in_the_catalogue_is_told(tmp_path: Path) -> None:
    root = cpu_tree(tmp_path, 1)
    write(root, f"{CPU}/cpu0/cpuidle/state4/name", "C99\n")
    write(root, f"{CPU}/cpu0/cpuidle/state4/time", "1\n")
    source = open_source(CpuidleSource, root, 1000)
    assert source.columns.unknown == {"cstate.C99"}
    source.close()


def test_without_cpuidle_it_says_why(tmp_path: Path) -> None:
    source = CpuidleSource(copy_tree(tmp_path), Columns("cpuidle", 1000, load_catalog(), load_left_out()))
    assert "usual in virtual machines" in (source.probe() or "")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("C6-HSW", "C6"), ("C7s-HSW", "C7s"), ("C2_ACPI", "C2"), ("WFI", "WFI"), ("LPI-1", "LPI-1"), ("", "")],
)
def test_names_of_states_are_told_without_the_processors(name: str, expected: str) -> None:
    assert state_name(name) == expected
