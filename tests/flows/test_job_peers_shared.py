"""A real job of 32 nodes, of which two are slow: imported as a table and scored as any other telemetry."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from flows.cli import main
from reveal_core.incidents import STRAGGLER
from storage.store import Store

SHARED = Path(__file__).parents[3] / "shared/data/emmy_jobs"

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED.is_dir(), reason=f"{SHARED} is not there"),
]

HOURS = 4
SLOW = ["emmy-7", "emmy-8"]
MAPPING = """
ignore = ["flops_sp", "flops_dp"]

[time]
column = "minute"
format = "m"
origin = "2026-11-29T00:00:00Z"

[host]
column = "node"
prefix = "emmy-"

[job]
id = "job_a"

[columns.ipc]
metric = "perf.ipc"

[columns.mem_bw]
metric = "memory.bandwidth"
scale = 1e9
unit = "B/s"
subsystem = "memory"

[columns.flops_any]
metric = "cpu.flops"
scale = 1e9
unit = "flop/s"
subsystem = "cpu"

[columns.clock]
metric = "perf.busy_mhz"
"""
SETTINGS = """
[method.overrides]
window_s = 180.0
stride_s = 60.0
gap_s = 240.0
cooldown_s = 600.0
"""


def run(line: str, capsys: pytest.CaptureFixture) -> dict:
    code = main([*line.split(), "--store", "s", "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def test_the_slow_nodes_come_first_and_no_other_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REVEAL_FLEET__WORKERS", "1")  # processes would take longer to start than they save
    Path("map.toml").write_text(MAPPING, encoding="utf-8")
    Path("reveal.toml").write_text(SETTINGS, encoding="utf-8")
    frame = pl.read_parquet(SHARED / "job_a.parquet").with_columns(pl.col("minute").cast(pl.Int64))
    part = frame.with_columns(pl.col("minute") - pl.col("minute").min()).filter(pl.col("minute") < HOURS * 60)
    part.fill_nan(None).write_csv("job_a.csv")
    imported = run("import csv job_a.csv --mapping map.toml", capsys)
    assert len(imported["hosts"]) == 32
    run("fit --host emmy-1* --start 2026-11-29T00:00 --end 2026-11-29T02:00", capsys)
    document = run("score --start 2026-11-29T03:00 --end 2026-11-29T04:00", capsys)
    assert len(document["hosts"]) == 32
    named = [
        one for one in document["incidents"] if one["causes"][:1] and one["causes"][0]["id"] == STRAGGLER
    ]
    assert sorted(one["host"] for one in named) == SLOW
    assert all((one["job"], one["state"]) == ("job_a", "open") for one in named)
    assert all(one["start"] < "2026-11-29T03:15" for one in named)
    assert all(one["metrics"][0]["peers"] >= 28 for one in named)
    first = sorted(document["incidents"], key=lambda one: one["attention"])[:2]
    assert sorted(one["host"] for one in first) == SLOW
    store = Store("s")
    others = [host for host in document["hosts"] if host not in SLOW]
    assert not [e for ledger in store.ledgers(others) for e in ledger.entries if e.cause == STRAGGLER]
    assert store.stragglers() == dict.fromkeys(SLOW, ("job_a",))
