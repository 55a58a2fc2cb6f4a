"""Runs of ``score --new`` that are cut short, and what is to come of it all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
from synthetic_telemetry import synthetic_columns, synthetic_segment

from storage.store import Store

PART_S = 60
LATEST_S = 240
"""Telemetry of the last minutes: what is new is judged by the clock."""


def newest_start() -> datetime:
    return (datetime.now(UTC) - timedelta(seconds=LATEST_S + 30)).replace(microsecond=0)


def fill(url: str, start: datetime) -> Store:
    """Return a store with the telemetry of one host, an incident in it."""
    store = Store(url)
    columns = synthetic_columns(LATEST_S, [(100.0, 108.0)], 1)
    for number in range(LATEST_S // PART_S):
        part = {n: v[number * 600 : (number + 1) * 600] for n, v in columns.items()}
        store.put_segment(synthetic_segment("node-1", start + timedelta(seconds=60 * number), part, number))
    return store


def command(store: Store) -> list[str]:
    return [sys.executable, "-m", "flows.cli", "score", "--new", "--no-flow", "--json", "--store", store.url]


def run(store: Store, environment: dict[str, str]) -> dict[str, Any]:
    """Run it to its end and return the document."""
    done = subprocess.run(
        command(store), env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def outcome(store: Store, label: str, start: datetime) -> tuple[pl.DataFrame, list, list]:
    """Return what came of it: scores, ledger, what was judged."""
    scores = store.read_scores(label, "node-1", start, start + timedelta(hours=1))
    assert scores is not None
    ledger = store.ledger("node-1")
    return scores.frame, [(e.count, e.cause, e.start, e.end) for e in ledger.entries], list(ledger.judged)


def assert_as_undisturbed(cut: Store, whole: Store, label: str, start: datetime) -> None:
    """No window is lost, none counts twice, no report is half there or named in the list before it is."""
    frame, entries, judged = outcome(cut, label, start)
    expected, others, spans = outcome(whole, label, start)
    assert frame.equals(expected)  # the same ranges were read
    assert (entries, judged) == (others, spans)
    index = (cut.backend.read("reports/index.html") or b"").decode()
    reports = [name for name in cut.backend.names("reports") if name.startswith("2")]
    assert reports
    for report in reports:
        whole_report = {"index.html", "report.json"} == set(cut.backend.names(f"reports/{report}"))
        assert whole_report or report not in index
