"""``reveal lab fleet`` and the bench of a fleet: small ones, whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows import fleet_bench
from flows.cli import main
from flows.commands.fleet import parse_sizes
from flows.fleet_bench import BenchPlan, bench_fleet
from reveal_core.errors import UsageError
from reveal_core.lab.fleet_classes import parse_classes
from tasks.simulating import Recording


def test_a_fleet_is_written_and_told_as_json(
    tmp_path: Path, make_store, capsys: pytest.CaptureFixture
) -> None:
    donor = make_store(tmp_path / "donor", seconds=60.0, bursts=())
    line = f"lab fleet --store {tmp_path / 'fleet'} --hosts 3 --duration 80s --classes amd2 --faulty 0.4"
    line += f" --history 10s --history-hosts 1 --donor {donor} --truth {tmp_path / 'faults.json'}"
    line += " --end 2026-01-05T12:05:00Z --channels 40 --json"
    assert main(line.split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["start"], found["end"]) == ("2026-01-05T12:03:40.000Z", "2026-01-05T12:05:00.000Z")
    assert found["history_start"] == "2026-01-05T12:03:30.000Z"
    assert found["classes"][0]["hosts"] == 3
    assert [fault["host"] for fault in found["faults"]] == [
        fault["host"] for fault in json.loads((tmp_path / "faults.json").read_text())
    ]
    assert {"hosts", "segments", "bytes", "classes", "faults", "seconds"} <= set(found)
    shown = line.removesuffix(" --json")
    assert main(shown.split()) == 0
    printed = capsys.readouterr().out
    assert "3 hosts from 2026-01-05T12:03:40.000Z to 2026-01-05T12:05:00.000Z" in printed
    assert found["faults"][0]["name"] in printed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("lab fleet --donor-host x", "no recording without --donor: leave out --donor-host"),
        ("lab fleet --history-hosts 2", "no history without --history: leave out --history-hosts"),
        ("lab fleet --classes vax1", "'vax1' is no class of hosts"),
        ("lab fleet --duration 20s", "20 s are too short for a fault"),
        ("bench fleet --hosts 5", "'5' is no number of hosts: 6 to 9999"),
        ("bench fleet --donor-start -1h", "no recording without --donor: leave out --donor-start"),
    ],
)
def test_bad_input_is_one_line(
    line: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(line.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_sizes_are_numbers_of_hosts_that_come_once() -> None:
    assert parse_sizes("300, 100") == [100, 300]
    with pytest.raises(UsageError, match="comes twice"):
        parse_sizes("10,10")
    with pytest.raises(UsageError, match="'x' is no number"):
        parse_sizes("x")


def test_the_bench_gives_its_figures(
    tmp_path: Path, make_store, fitted_store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
        return function(*arguments), 1.0

    monkeypatch.setattr(fleet_bench, "watched", here)
    monkeypatch.setattr(fleet_bench, "HISTORY_S", 60.0)
    # A database of its own takes seconds to make.
    monkeypatch.setattr(fleet_bench, "tracking_in", lambda _: fitted_store.tracking_uri)
    donor = make_store(tmp_path / "donor", seconds=60.0, bursts=())
    plan = BenchPlan(
        sizes=(4,),
        seconds=80.0,
        classes=parse_classes("arm2"),
        channels=40,
        faulty=0.25,
        prefect=False,
        recording=Recording(str(donor)),
    )
    folder = tmp_path / "bench"
    folder.mkdir()
    said: list[str] = []
    found = bench_fleet(plan, folder=str(folder), say=said.append)
    assert (found["store"], found["donor"], found["slope"]) == ("folder", "node-1", None)
    (size,) = found["sizes"]
    assert (size["hosts"], size["planted"], size["found_percent"]) == (4, 1, 100.0)
    assert (size["struck_hosts"], size["false_hosts"]) == (1, 0)
    assert size["hosts_per_second"] == pytest.approx(4 / size["seconds"], abs=0.1)
    assert {"plan", "read", "features", "detectors", "attribution", "ledger", "report"} <= set(
        size["stage_percent"]
    )
    assert sum(size["stage_percent"].values()) == pytest.approx(100.0, abs=1.0)
    assert sum(size["stage_seconds"].values()) == pytest.approx(size["seconds"], abs=0.1)
    assert size["prefect_share_percent"] is None
    assert size["question_rows"] > 800
    assert size["question_mib_read"] > 0
    assert len(said) == 5
    assert not list(folder.iterdir())
