"""The maintaining stages: what they pass on, how work is cut, and how counts are put together."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_telemetry import SYNTHETIC_START

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.incidents import iso
from reveal_core.retention import Retention
from storage.store import Store
from tasks.maintaining import MOST_TASKS, clean_store, maintain_hosts, plan_maintenance, total, work_groups

NONE = {"segments": 0, "into": 0, "bytes_before": 0, "bytes_after": 0}


def common(store: Path, days: float, *, dry_run: bool = False, **retention: str) -> dict[str, Any]:
    """Return arguments of a run so many days after the telemetry."""
    now = iso(SYNTHETIC_START + timedelta(days=days))
    return {"store": str(store), "host": "*", "retention": retention, "now": now, "dry_run": dry_run}


def run(arguments: dict[str, Any]) -> dict[str, Any]:
    cleaned, plan = clean_store(**arguments), plan_maintenance(**arguments)
    passed = json.loads(json.dumps(plan["work"]))  # as it goes to a task elsewhere
    done = [
        maintain_hosts(arguments["store"], work=group, now=arguments["now"], dry_run=arguments["dry_run"])
        for group in work_groups(passed, 1)
    ]
    return total(cleaned, plan, done, dry_run=arguments["dry_run"])


def test_from_segments_to_merged_to_down_sampled_to_nothing(make_store, tmp_path: Path) -> None:
    path = make_store(tmp_path / "store", hosts=("node-1", "node-2"), seconds=120.0, bursts=())
    store = Store(str(path))
    whole = SYNTHETIC_START, SYNTHETIC_START + timedelta(hours=1)
    before = store.read_telemetry("node-1", *whole).telemetry
    merged = run(common(path, 1))
    assert (merged["compacted"]["segments"], merged["compacted"]["into"]) == (4, 2)
    assert merged["compacted"]["bytes_after"] < merged["compacted"]["bytes_before"]
    assert (merged["downsampled"], merged["orphans"], merged["kept"]) == (NONE, [], [])
    after = store.read_telemetry("node-1", *whole).telemetry
    assert after.frame.equals(before.frame)
    assert (after.channels, after.facts) == (before.channels, before.facts)
    waiting = run(common(path, 20, raw="14d", unjudged="7d"))
    assert len(waiting["kept"]) == 2
    slow = run(common(path, 22, raw="14d", unjudged="7d"))
    assert (slow["downsampled"]["segments"], slow["downsampled"]["into"]) == (2, 2)
    assert store.read_telemetry("node-1", *whole).telemetry.frame.height == 12
    gone = run(common(path, 91, telemetry="90d"))
    assert {row["kind"]: row["count"] for row in gone["removed"]}["telemetry"] == 2
    assert store.hosts() == []
    assert run(common(path, 91)) == {
        "removed": [{"kind": row["kind"], "count": 0, "bytes": 0} for row in gone["removed"]],
        "compacted": NONE,
        "downsampled": NONE,
        "orphans": [],
        "kept": [],
        "dry_run": False,
    }


def test_what_cannot_be_read_is_told_and_stops_nothing(make_store, tmp_path: Path) -> None:
    path = make_store(tmp_path / "store", hosts=("node-1", "node-2"), seconds=120.0, bursts=())
    bad = sorted(path.rglob("host=node-1/*.parquet"))[0]
    bad.write_bytes(b"PAR1")
    rehearsed = run(common(path, 1, dry_run=True))
    assert bad.exists()
    done = run(common(path, 1))
    assert {**rehearsed, "dry_run": False} == done
    assert done["compacted"]["segments"] == 2
    assert len(done["kept"]) == 1
    assert "host=node-1" in done["kept"][0]
    assert not bad.exists()


def test_bad_input_is_named(make_store, tmp_path: Path) -> None:
    path = make_store(tmp_path / "store", seconds=60.0, bursts=())
    with pytest.raises(UsageError, match=r"retention\.raw: 'soon' is not a duration"):
        clean_store(**common(path, 1, raw="soon"))
    with pytest.raises(UsageError, match=r"retention\.rare is no setting: there are raw, telemetry, "):
        plan_maintenance(**common(path, 1, rare="1d"))
    with pytest.raises(UsageError, match="a hundred years: write forever"):
        Retention.parse({"reports": "5300w"})
    with pytest.raises(UnavailableError, match="does not exist"):
        plan_maintenance(**common(tmp_path / "none", 1))


@given(st.integers(0, 3000), st.integers(1, 9))
def test_work_is_cut_whole_and_into_so_many_tasks_at_most(items: int, size: int) -> None:
    work = [{"host": str(n)} for n in range(items)]
    groups = work_groups(work, size)
    assert [item for group in groups for item in group] == work
    assert len(groups) <= MOST_TASKS
    assert all(len(group) == len(groups[0]) for group in groups[:-1])
    assert not groups or len(groups[0]) >= min(size, items)
