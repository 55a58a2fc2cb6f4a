"""Logs of real machines, from the shared copies beside the repository."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from import_parts import imported

SHARED = Path(__file__).parents[3] / "shared/data"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there"),
]


def turbostat_files() -> list[Path]:
    # Of the machine with 272 CPUs the interrupts are read, below.
    found = sorted((SHARED / "stats_collect").glob("*/*turbostat.txt*")) if SHARED.is_dir() else []
    return [path for path in found if path.parent.name != "knl0"]


@pytest.mark.parametrize("path", turbostat_files(), ids=lambda path: f"{path.parent.name}-{path.name[:9]}")
def test_turbostat_of_every_machine(path: Path) -> None:
    found = imported("turbostat", path, host=path.parent.name)
    frame, channels = found.frame(), found.channels()
    assert found.findings.skipped == []
    assert frame.height == 1 if "discovery" in path.name else 20 <= frame.height <= 25
    cpus = [name for name in channels if name.startswith("perf.busy/cpu")]
    assert len(cpus) >= 8
    if frame.height > 1:  # turbostat takes a while for its 272 CPUs
        assert channels[cpus[0]].period_ms == pytest.approx(5000, rel=0.04)
    assert frame[cpus].null_count().sum_horizontal().item() == 0
    assert frame["ts"][0] > datetime(2024, 1, 1, tzinfo=UTC)
    if path.parent.name == "bdwup0":
        assert frame["perf.busy/cpu0"][0] == pytest.approx(1.20)
        assert frame["cstate.C1E_usage/cpu3"][0] == pytest.approx(738 / 5)
        assert frame["power.energy/package-0"][0] == pytest.approx(8.42)


def test_the_damaged_log_gives_its_good_part_and_one_line() -> None:
    folder = SHARED / "stats_collect/bdwup0"
    whole, damaged = (
        imported("turbostat", folder / f"{name}.txt") for name in ("turbostat", "turbostat-corrupted")
    )
    assert len(damaged.findings.skipped) == 1
    told = damaged.findings.skipped[0]
    assert told["item"] == "turbostat-corrupted.txt, line 64, and 8 more"
    assert told["reason"].startswith(
        "rows below a header that cannot be read (first: ';alksdfTime_Of_Day_Seconds"
    )
    assert damaged.frame().equals(whole.frame()[1:])


@pytest.mark.parametrize(
    "path",
    sorted((SHARED / "nvidia_smi").glob("*.txt")) if SHARED.is_dir() else [],
    ids=lambda path: path.name.split("__")[1],
)
def test_nvidia_smi_of_every_card(path: Path, tmp_path: Path) -> None:
    sections = path.read_text(encoding="utf-8").split("#" * 80 + "\n")
    tables = [body.strip() + "\n" for head, body in pairwise(sections) if ":: query-gpu (csv" in head]
    assert len(tables) == 2
    for number, table in enumerate(tables):
        log = tmp_path / f"{number}.csv"
        log.write_text(table, encoding="utf-8")
        found = imported("nvidia-smi", log, zone="UTC", host="card")
        reasons = {reason.partition(" (")[0] for reason in found.reasons()}
        assert reasons <= {
            "columns of text, which holds no samples",
            "columns that are empty throughout a file",
        }
        frame = found.frame()
        power = [name for name in frame.columns if name.startswith("gpu.power/")]
        assert power
        assert frame[power[0]].max() > 5
    dmon = [body for head, body in pairwise(sections) if ":: dmon" in head]
    log = tmp_path / "dmon.txt"
    log.write_text("# gpu" + dmon[1].partition("# gpu")[2], encoding="utf-8")
    found = imported("nvidia-smi", log, origin=datetime(2026, 7, 14, tzinfo=UTC), interval_s=1.0)
    assert found.findings.skipped == []
    assert found.frame().height == 5


def test_a_power_meter_s_table() -> None:
    found = imported("csv", SHARED / "stats_collect/snr0/acpower.txt", host="snr0")
    # The meter was interrupted, and says so in its last line.
    assert found.items() == ["acpower.txt, line 123"]
    assert found.frame()["imported.csv.P"][0] == pytest.approx(66.33)
    assert found.channels()["imported.csv.P"].period_ms == 1000


def test_the_nodes_of_a_job_become_hosts() -> None:
    mapping = {
        "time": {"column": "minute", "format": "m", "origin": "2021-02-01T00:00:00Z"},
        "host": {"column": "node", "prefix": "emmy-"},
        "columns": {
            "mem_bw": {"metric": "job.memory_bandwidth", "unit": "B/s", "scale": 1e9, "subsystem": "memory"},
            "clock": {"metric": "cpu.frequency"},
            "ipc": {"metric": "perf.ipc"},
        },
    }
    found = imported("parquet", SHARED / "emmy_jobs/job_a.parquet", mapping=mapping)
    assert len(found.assembler.hosts) == 32
    table = pl.read_parquet(SHARED / "emmy_jobs/job_a.parquet")
    wanted = table.filter(node=7).sort("minute").filter(pl.col("mem_bw").is_finite())["mem_bw"]
    stored = found.frame("emmy-7")["job.memory_bandwidth"].drop_nulls()
    assert (stored / 1e9).to_list() == pytest.approx(wanted.to_list(), rel=1e-6)
    assert {channel.period_ms for channel in found.channels().values()} == {60_000}


def test_all_logs_of_a_host_together() -> None:
    found = imported("stats-collect", SHARED / "stats_collect/snr0")
    assert found.items() == ["acpower.txt, line 123"]
    assert found.assembler.hosts == {"snr0"}
    frame, channels = found.frame(), found.channels()
    assert {channel.source for channel in channels.values()} == {
        "turbostat",
        "interrupts",
        "ipmi",
        "power-meter",
    }
    assert channels["irq.total/cpu23"].kind == "counter"
    assert frame["irq.LOC/cpu0"].drop_nulls().diff().drop_nulls().min() >= 0
    assert frame["thermal.temperature/CPU Temp"].drop_nulls()[0] == 52
    assert frame["hwmon.fan/FAN1"].drop_nulls()[0] == 4760
    assert frame["imported.power-meter.P"].drop_nulls()[0] == pytest.approx(66.33)


def test_interrupts_of_a_very_wide_machine() -> None:
    found = imported("stats-collect", SHARED / "stats_collect/knl0/interrupts.txt.xz", host="knl")
    channels = found.channels()
    assert len([name for name in channels if name.startswith("irq.total/")]) == 272
    totals = found.frame().select(sorted(name for name in channels if name.startswith("irq.total/")))
    assert totals.null_count().sum_horizontal().item() == 0
    assert (totals[-1].to_numpy() >= totals[0].to_numpy()).all()
