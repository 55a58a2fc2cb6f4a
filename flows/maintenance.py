"""What ``maintain-store`` does, over a runner as the other pipelines are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from reveal_core.incidents import iso
from reveal_core.retention import Retention
from tasks.maintaining import clean_store, maintain_hosts, plan_maintenance, total, work_groups
from tasks.runner import Runner

HOURS_PER_TASK = 8


def maintain_store(
    run: Runner,
    *,
    store: str,
    host: str,
    retention: Mapping[str, str],
    dry_run: bool,
    hours_per_task: int = HOURS_PER_TASK,
) -> dict[str, Any]:
    """Remove what is past its age, down-sample and merge telemetry, and clear up after writers that died."""
    Retention.parse(retention)
    common = {
        "store": store,
        "host": host,
        "retention": dict(retention),
        "now": iso(datetime.now(UTC)),
        "dry_run": dry_run,
    }
    cleaned = run.call(clean_store, **common)
    plan = run.call(plan_maintenance, **common)
    calls = [
        {"store": store, "work": group, "now": common["now"], "dry_run": dry_run}
        for group in work_groups(plan["work"], hours_per_task)
    ]
    return total(cleaned, plan, run.map(maintain_hosts, calls), dry_run=dry_run)


def maintenance_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what maintenance did as rows of a table: what, how many files and bytes went, and came."""
    rows = [
        {"what": f"{row['kind']} past their age", "files": row["count"], "bytes": row["bytes"]}
        for row in document["removed"]
    ]
    rows += [
        {
            "what": f"telemetry {what}",
            "files": document[name]["segments"],
            "bytes": document[name]["bytes_before"],
            "into files": document[name]["into"],
            "into bytes": document[name]["bytes_after"],
        }
        for name, what in (("downsampled", "down-sampled"), ("compacted", "merged"))
    ]
    rows += [{"what": one["reason"], "key": one["key"], "bytes": one["bytes"]} for one in document["orphans"]]
    rows += [{"what": f"kept: {line}"} for line in document["kept"]]
    columns = ("what", "files", "bytes", "into files", "into bytes", "key")
    return [{column: row.get(column, "") for column in columns} for row in rows]
