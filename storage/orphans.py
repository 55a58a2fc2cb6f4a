"""What writers that died left behind: half files, half reports, rows of no report, folders of no file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from storage.backend import STALE_S, TEMPORARY, Backend, is_stale
from storage.expiry import remove_files
from storage.files import StoredFile, empty_folders, files_below, remove_empty
from storage.layout import (
    ALERTS_STATE,
    IMPORTS,
    INCIDENTS,
    JOBS,
    LABELS,
    LEDGER,
    QUARANTINE,
    REGIMES,
    REPORTS,
    REPORTS_INDEX,
    REPORTS_LATEST,
    REQUESTS,
    SCORES,
    SILENCES,
    TELEMETRY,
    WORK,
    report_folder,
)
from storage.reports import StoredReport, mend_latest, rebuild_index

AREAS = (
    TELEMETRY,
    WORK,
    REQUESTS,
    SCORES,
    INCIDENTS,
    JOBS,
    REPORTS,
    REGIMES,
    LEDGER,
    LABELS,
    SILENCES,
    IMPORTS,
    ALERTS_STATE.partition("/")[0],
    QUARANTINE,
)
"""Folders of the store itself; what else lies beside them is not ours."""
ORPHAN_AGE = timedelta(seconds=STALE_S)
"""What is older was left by a writer that died, for none works so long on one file or report."""


@dataclass(frozen=True)
class Orphan:
    """What a writer that died left behind.

    Attributes
    ----------
    kind
        ``temporary``, ``report``, ``unlisted``, ``row``, ``latest`` or ``folder``.
    key
        Of the file or folder.
    reason
        What is wrong, and what becomes of it.
    files
        What is removed.
    """

    kind: str
    key: str
    reason: str
    files: tuple[StoredFile, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, with ``bytes`` of what is removed."""
        size = sum(file.bytes for file in self.files)
        return {"kind": self.kind, "key": self.key, "bytes": size, "reason": self.reason}


def find_orphans(
    backend: Backend,
    latest: str | None,
    listed: Collection[str],
    reports: Sequence[StoredReport],
    expired: Collection[str],
    now: datetime,
) -> list[Orphan]:
    """Return what writers that died left behind.

    Parameters
    ----------
    backend
        The store.
    latest, listed, reports
        The report that ``latest.json`` names, those that the list names, and those that are there; looked up
        in this order, so that a report that is written meanwhile is not taken for one that is missing.
    expired
        Ids of the reports that are past their age.
    now
        What ages count from.
    """
    found = [
        Orphan("temporary", file.key, "its writer died while it wrote", (file,))
        for area in AREAS
        for file in files_below(backend, f"{area}/{TEMPORARY}")
        if is_stale(file.key.rpartition("/")[2], now.timestamp())
    ]
    found += _reports(listed, reports, expired, now)
    if latest is not None and latest not in {report.id for report in reports if report.whole}:
        found.append(Orphan("latest", REPORTS_LATEST, "it names no report that is there: named anew"))
    found += [
        Orphan("folder", folder, "it holds no file")
        for area in AREAS
        for folder in empty_folders(backend, area, now - ORPHAN_AGE)
    ]
    return found


def _reports(
    listed: Collection[str], reports: Sequence[StoredReport], expired: Collection[str], now: datetime
) -> list[Orphan]:
    found = []
    for report in reports:
        folder = report_folder(report.id)
        if report.created > now - ORPHAN_AGE:
            continue
        if not report.whole:
            found.append(Orphan("report", folder, "its writer died before it was whole", report.files))
        elif report.id not in listed and report.id not in expired:
            found.append(Orphan("unlisted", folder, "the list of reports lacks it: listed again"))
    there = {report.id for report in reports if report.whole}
    found += [
        Orphan("row", REPORTS_INDEX, f"the list names report {one}, which is not there: the row goes")
        for one in sorted(set(listed) - there)
    ]
    return found


def mend(backend: Backend, orphans: Sequence[Orphan], gone: Collection[str] = ()) -> None:
    """Remove what dead writers left, and set the list of reports right.

    Parameters
    ----------
    backend
        The store.
    orphans
        From `find_orphans`.
    gone
        Ids of reports that are to be removed after this: the list names them no more.
    """
    kinds = {orphan.kind for orphan in orphans}
    if gone or kinds & {"unlisted", "row"}:
        rebuild_index(backend, without=gone)
    if "latest" in kinds:
        mend_latest(backend)
    remove_files(backend, [file for orphan in orphans for file in orphan.files])
    for orphan in orphans:
        if orphan.kind == "folder":
            remove_empty(backend, orphan.key, within=True)
