"""Keeping a store in order: what is due is looked up, then done, host by host and hour by hour.

Each step can be done again, or by two at once, and can be stopped at any moment: the next run finds what is
left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from reveal_core.errors import UsageError
from reveal_core.retention import Retention
from storage.arrivals import read_watermarks
from storage.backend import Backend
from storage.compaction import compact_hour
from storage.downsampling import downsample_hour
from storage.expiry import KINDS, expired_of_all, expired_of_hosts, remove_files
from storage.files import ReadOnlyBackend, StoredFile, files_below
from storage.hosts import hosts
from storage.layout import SegmentName, host_folder
from storage.ledgers import ledger_hosts
from storage.orphans import Orphan, find_orphans, mend
from storage.reports import latest_id, listed_reports, stored_reports
from storage.retention import HourWork, plan_telemetry
from storage.rewriting import Rewritten

LATE = timedelta(days=1)
"""Telemetry that comes later than this is not waited for: no run goes so far back to judge it."""
_HOSTS_NAMED = 8


@dataclass
class Tally:
    """Files that were removed by age, by kind: how many, and their bytes."""

    count: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))

    def add(self, kind: str, files: Iterable[StoredFile]) -> None:
        """Count files."""
        for file in files:
            self.count[kind] += 1
            self.bytes[kind] += file.bytes


@dataclass(frozen=True)
class Cleaned:
    """What became of all that is not telemetry: removed by age, left by dead writers, kept beyond its age."""

    removed: Tally
    orphans: list[Orphan]
    kept: list[str]


@dataclass
class Worked:
    """What became of telemetry."""

    removed: Tally = field(default_factory=Tally)
    compacted: Rewritten = field(default_factory=Rewritten)
    downsampled: Rewritten = field(default_factory=Rewritten)


class Maintenance:
    """Keeps a store in order.

    Parameters
    ----------
    url
        Root of the store.
    retention
        How long what is kept.
    now
        What ages count from, UTC.
    host
        A host's label, or a shell pattern over labels: what is looked at. With ``*`` also what belongs to no
        single host.
    dry_run
        Say what would be done, and change nothing.
    storage_options
        As `storage.store.Store` takes them.

    Raises
    ------
    UnavailableError
        If the store cannot be reached; every method raises it then, or if it cannot be written.
    """

    def __init__(
        self,
        url: str,
        retention: Retention,
        now: datetime,
        *,
        host: str = "*",
        dry_run: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        opened = ReadOnlyBackend if dry_run else Backend
        self.backend: Backend = opened(url, storage_options)
        self.backend.check()
        self.retention = retention
        self.now = now
        self.host = host
        self.dry_run = dry_run

    def _wanted(self, host: str) -> bool:
        return fnmatchcase(host, self.host)

    def _check_host(self) -> None:
        """Refuse a pattern that no host matches: it would do nothing, and look as if nothing was due."""
        known = sorted({*hosts(self.backend), *ledger_hosts(self.backend)})
        if not any(map(self._wanted, known)):
            names = ", ".join(known[:_HOSTS_NAMED]) or "none"
            raise UsageError(f"no host {self.host!r} in store {self.backend.shown}: it holds {names}")

    def plan(self) -> tuple[list[HourWork], list[str]]:
        """Return what is due with telemetry, in order of time, and what is kept beyond its age."""
        return plan_telemetry(
            self.backend, self._wanted, self.retention, self.now, _Judged(self.backend, self.now)
        )

    def work(self, items: Iterable[HourWork]) -> Worked:
        """Do what is due with telemetry."""
        judged = _Judged(self.backend, self.now)
        done = Worked()
        for item in items:
            if item.action == "compact":
                done.compacted += compact_hour(
                    self.backend, item.host, item.hour, judged, dry_run=self.dry_run
                )
            elif item.action == "downsample":
                done.downsampled += downsample_hour(self.backend, item.host, item.hour, dry_run=self.dry_run)
            else:
                files = files_below(self.backend, host_folder(item.hour, item.host))
                if not self.dry_run:
                    remove_files(self.backend, files)
                done.removed.add("telemetry", files)
        return done

    def clean(self) -> Cleaned:
        """Remove what is past its age besides telemetry, and what writers that died left behind.

        Raises
        ------
        UsageError
            If no host matches.
        """
        if self.host != "*":
            self._check_host()
        expired, kept = expired_of_hosts(self.backend, self._wanted, self.retention, self.now)
        orphans: list[Orphan] = []
        gone: set[str] = set()
        if self.host == "*":
            latest, listed = latest_id(self.backend), listed_reports(self.backend)
            reports = stored_reports(self.backend)
            more, kept_too = expired_of_all(self.backend, latest, reports, self.retention, self.now)
            expired += more
            kept += kept_too
            old = {one.file.key for one in more if one.kind == "reports"}
            gone = {report.id for report in reports if old.intersection(file.key for file in report.files)}
            orphans = find_orphans(self.backend, latest, listed, reports, gone, self.now)
        if not self.dry_run:
            mend(self.backend, orphans, gone)
            remove_files(self.backend, [one.file for one in expired])
        tally = Tally()
        for one in expired:
            tally.add(one.kind, [one.file])
        return Cleaned(tally, orphans, kept)


class _Judged:
    """Tells whether a run that judges what is new has judged a segment; see `storage.compaction.Judged`."""

    def __init__(self, backend: Backend, now: datetime) -> None:
        self._marks = read_watermarks(backend)
        self._since = now - LATE

    def __call__(self, name: SegmentName) -> bool | None:
        mark = self._marks.get(name.host)
        if mark is None:
            return False  # nobody judges what is new of this host
        if mark.has(name.boot, name.sequence, name.start):
            return True
        return None if name.last_start > self._since else False
