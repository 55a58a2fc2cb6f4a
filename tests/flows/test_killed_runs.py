"""A run that is killed outright, at its worst moments: nothing is lost or counts twice, no half report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from synthetic_telemetry import synthetic_columns, synthetic_segment

from storage.store import Store

PART_S = 60
LATEST_S = 240
"""Telemetry of the last minutes: what is new is judged by the clock."""


def fill(path: Path, start: datetime) -> Store:
    store = Store(str(path))
    columns = synthetic_columns(LATEST_S, [(100.0, 108.0)], 1)
    for number in range(LATEST_S // PART_S):
        part = {n: v[number * 600 : (number + 1) * 600] for n, v in columns.items()}
        store.put_segment(synthetic_segment("node-1", start + timedelta(seconds=60 * number), part, number))
    return store


def command(store: Store) -> list[str]:
    return [sys.executable, "-m", "flows.cli", "score", "--new", "--no-flow", "--json", "--store", store.url]


def outcome(store: Store, label: str, start: datetime) -> tuple[pl.DataFrame, list, list]:
    """Return what came of it: scores, ledger, what was judged."""
    scores = store.read_scores(label, "node-1", start, start + timedelta(hours=1))
    assert scores is not None
    ledger = store.ledger("node-1")
    return scores.frame, [(e.count, e.cause, e.start, e.end) for e in ledger.entries], list(ledger.judged)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["scores/model=*/**/*.parquet", "ledger/host=*/recent.json", "reports/2*"])
def test_a_run_that_is_killed_is_made_good_by_the_next(fitted_store, tmp_path: Path, moment: str) -> None:
    start = (datetime.now(UTC) - timedelta(seconds=LATEST_S + 30)).replace(microsecond=0)
    label = f"{fitted_store.model['model']}@{fitted_store.model['version']}"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": fitted_store.tracking_uri}
    killed, whole = fill(tmp_path / "killed", start), fill(tmp_path / "whole", start)
    process = subprocess.Popen(
        command(killed), env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 60
    while not list(Path(killed.url).glob(moment)):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    late = bool(killed.watermarks())  # the last moment is so short that it may be over
    found = []
    for store in (killed, whole):
        done = subprocess.run(
            command(store), env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    if not late:
        assert [i["id"] for i in found[0]["incidents"]] == [i["id"] for i in found[1]["incidents"]]
    assert len(found[1]["incidents"]) == 1
    frame, entries, judged = outcome(killed, label, start)
    expected, others, spans = outcome(whole, label, start)
    assert frame.equals(expected)  # the same ranges were read
    assert (entries, judged) == (others, spans)
    for report in Path(killed.url, "reports").glob("2*"):  # none is half there, nor named in the list
        listed = report.name in Path(killed.url, "reports", "index.html").read_text()
        assert {p.name for p in report.iterdir()} == {"index.html", "report.json"} or not listed
