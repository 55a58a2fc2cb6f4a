"""The maintaining stages: what is due in a store, and doing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reveal_core.incidents import iso
from reveal_core.retention import Retention
from reveal_core.timespec import parse_time

if TYPE_CHECKING:
    from storage.maintenance import Maintenance, Tally
    from storage.rewriting import Rewritten

MOST_TASKS = 500
"""So many tasks at most do what is due with telemetry; more would only cost Prefect time."""


def _open(store: str, *, host: str, retention: Mapping[str, str], now: str, dry_run: bool) -> Maintenance:
    from storage.maintenance import Maintenance

    return Maintenance(store, Retention.parse(retention), parse_time(now), host=host, dry_run=dry_run)


def clean_store(
    store: str, *, host: str, retention: Mapping[str, str], now: str, dry_run: bool
) -> dict[str, Any]:
    """Removing what is old, and what dead writers left.

    Parameters
    ----------
    store
        Root of the store.
    host
        A host's label, or a shell pattern over labels. With another than ``*`` only scores and ledgers are
        looked at, of these hosts.
    retention
        How long what is kept; see `reveal_core.retention.Retention.parse`.
    now
        What ages count from, ISO 8601.
    dry_run
        Say what would be done, and change nothing.

    Returns
    -------
    dict
        ``removed`` (``kind``, ``count``, ``bytes``), ``orphans`` (``kind``, ``key``, ``bytes``, ``reason``)
        and ``kept`` (lines).

    Raises
    ------
    UsageError
        If the retention is none.
    UnavailableError
        If the store cannot be reached or written.
    """
    cleaned = _open(store, host=host, retention=retention, now=now, dry_run=dry_run).clean()
    return {
        "removed": _rows(cleaned.removed),
        "orphans": [orphan.to_dict() for orphan in cleaned.orphans],
        "kept": cleaned.kept,
    }


def plan_maintenance(
    store: str, *, host: str, retention: Mapping[str, str], now: str, dry_run: bool
) -> dict[str, Any]:
    """Looking for telemetry that is due.

    Parameters
    ----------
    store, host, retention, now, dry_run
        As `clean_store` takes them.

    Returns
    -------
    dict
        ``work``: for each host and hour what is due (``host``, ``hour``, ``action``), in order of time;
        ``kept``: lines on what stays beyond its age.

    Raises
    ------
    UsageError
        If the retention is none.
    UnavailableError
        If the store cannot be reached.
    """
    items, kept = _open(store, host=host, retention=retention, now=now, dry_run=dry_run).plan()
    work = [{"host": item.host, "hour": iso(item.hour), "action": item.action} for item in items]
    return {"work": work, "kept": kept}


def maintain_hosts(
    store: str, *, work: Sequence[Mapping[str, str]], now: str, dry_run: bool
) -> dict[str, Any]:
    """Removing, down-sampling and merging telemetry.

    Parameters
    ----------
    store, now, dry_run
        As `clean_store` takes them.
    work
        From `plan_maintenance`, or a part of it.

    Returns
    -------
    dict
        ``removed`` as `clean_store` has it, ``compacted`` and ``downsampled`` (``segments``, ``into``,
        ``bytes_before``, ``bytes_after``), and ``kept`` (lines).

    Raises
    ------
    UnavailableError
        If the store cannot be reached or written.
    """
    from storage.retention import HourWork

    maintenance = _open(store, host="*", retention={}, now=now, dry_run=dry_run)
    done = maintenance.work(
        HourWork(parse_time(item["hour"]), item["host"], item["action"])  # type: ignore[arg-type]
        for item in work
    )
    return {
        "removed": _rows(done.removed),
        "compacted": _counts(done.compacted),
        "downsampled": _counts(done.downsampled),
        "kept": [*done.compacted.notes, *done.downsampled.notes],
    }


def _rows(tally: Tally) -> list[dict[str, Any]]:
    return [{"kind": kind, "count": tally.count[kind], "bytes": tally.bytes[kind]} for kind in tally.count]


def _counts(rewritten: Rewritten) -> dict[str, int]:
    return {
        "segments": rewritten.segments,
        "into": rewritten.into,
        "bytes_before": rewritten.bytes_before,
        "bytes_after": rewritten.bytes_after,
    }


def work_groups(work: Sequence[Mapping[str, str]], size: int) -> list[list[dict[str, str]]]:
    """Return what is due, cut into what a task does: ``size`` hours of hosts, more where there is very much.

    >>> work_groups([{"host": name} for name in "abc"], 2)
    [[{'host': 'a'}, {'host': 'b'}], [{'host': 'c'}]]
    """
    size = max(size, -(-len(work) // MOST_TASKS))
    return [[dict(item) for item in work[at : at + size]] for at in range(0, len(work), size)]


def total(
    cleaned: Mapping[str, Any], plan: Mapping[str, Any], done: Iterable[Mapping[str, Any]], *, dry_run: bool
) -> dict[str, Any]:
    """Return what all stages together did: what ``reveal maintain --json`` prints."""
    results = list(done)
    removed = {row["kind"]: dict(row) for row in cleaned["removed"]}
    for result in results:
        for row in result["removed"]:
            removed[row["kind"]]["count"] += row["count"]
            removed[row["kind"]]["bytes"] += row["bytes"]
    return {
        "removed": list(removed.values()),
        "compacted": _sum(result["compacted"] for result in results),
        "downsampled": _sum(result["downsampled"] for result in results),
        "orphans": cleaned["orphans"],
        "kept": [*cleaned["kept"], *plan["kept"], *(line for result in results for line in result["kept"])],
        "dry_run": dry_run,
    }


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    whole = dict.fromkeys(("segments", "into", "bytes_before", "bytes_after"), 0)
    for one in counts:
        for name in whole:
            whole[name] += one[name]
    return whole
