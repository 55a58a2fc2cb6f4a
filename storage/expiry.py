"""What is past its age besides telemetry: scores, incidents, ledgers, silences, reports, quarantine.

What is about a time long ago may be new: scores of last year that were made today. So ages count from what it
is about or from when it was written, whichever is later.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

from pydantic import TypeAdapter

from reveal_core.ledger import Entry
from reveal_core.retention import Retention
from storage.backend import TEMPORARY, Backend
from storage.files import StoredFile, files_below, remove_empty
from storage.layout import (
    INCIDENTS,
    QUARANTINE,
    SCORES,
    SILENCES,
    ledger_folder,
    parse_date_part,
    parse_host_part,
    parse_hour_part,
    parse_month_part,
    silence_key,
    unquote_name,
)
from storage.ledgers import ledger_hosts, read_entries
from storage.reports import StoredReport
from storage.silences import label_hosts, read_labels, read_silences
from storage.typed import read_typed

KINDS = ("telemetry", "scores", "incidents", "ledger", "silences", "reports", "quarantine")
"""What is removed by age, as it is told."""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Wanted = Callable[[str], bool]


@dataclass(frozen=True)
class Expired:
    """A file that is past its age, and of which kind."""

    kind: str
    file: StoredFile


@cache
def _entries() -> TypeAdapter[tuple[Entry, ...]]:
    return TypeAdapter(tuple[Entry, ...])


def expired_of_hosts(
    backend: Backend, wanted: Wanted, retention: Retention, now: datetime
) -> tuple[list[Expired], list[str]]:
    """Return the scores and the past ledger entries of hosts that are past their age, and what is kept.

    Parameters
    ----------
    backend
        The store.
    wanted
        Tells by its name whether a host is looked at.
    retention, now
        How long what is kept, and what ages count from.
    """
    found: list[Expired] = []
    kept: list[str] = []
    if retention.scores is not None:
        limit = now - retention.scores
        found += [Expired("scores", file) for file in _scores(backend, wanted, limit)]
    if retention.incidents is not None:
        files, kept = _ledgers(backend, wanted, now - retention.incidents)
        found += [Expired("ledger", file) for file in files]
    return found, kept


def expired_of_all(
    backend: Backend,
    latest: str | None,
    reports: Sequence[StoredReport],
    retention: Retention,
    now: datetime,
) -> tuple[list[Expired], list[str]]:
    """Return the incidents, silences, reports and bad files that are past their age, and what is kept."""
    found: list[Expired] = []
    kept: list[str] = []
    if retention.incidents is not None:
        limit = now - retention.incidents
        files, kept = _incidents(backend, limit)
        found += [Expired("incidents", file) for file in files]
        over = {silence_key(silence.id) for silence in read_silences(backend) if silence.over(limit)}
        found += [Expired("silences", file) for file in files_below(backend, SILENCES) if file.key in over]
    if retention.reports is not None:
        limit = now - retention.reports
        old = [report for report in reports if report.whole and report.created <= limit]
        found += [Expired("reports", f) for report in old if report.id != latest for f in report.files]
        kept += [f"report {r.id} is past its age, but it is the latest" for r in old if r.id == latest]
    if retention.quarantine is not None:
        limit = now - retention.quarantine
        found += [Expired("quarantine", f) for f in files_below(backend, QUARANTINE) if f.written <= limit]
    return found, kept


def _scores(backend: Backend, wanted: Wanted, limit: datetime) -> Iterator[StoredFile]:
    for model in backend.names(SCORES):
        for part in backend.names(f"{SCORES}/{model}"):
            day = parse_date_part(part)
            if day is None or _begin(day) >= limit:
                continue
            for file in files_below(backend, f"{SCORES}/{model}/{part}"):
                parts = file.key.split("/")
                hour = parse_hour_part(parts[3]) if len(parts) == 5 else None
                host = parse_host_part(parts[-1].removesuffix(".parquet"))
                if hour is None or host is None or not wanted(host):
                    continue
                if max(_begin(day) + (hour + 1) * HOUR, file.written) <= limit:
                    yield file


def _incidents(backend: Backend, limit: datetime) -> tuple[list[StoredFile], list[str]]:
    """Return the incidents that began on a day that is past, but those that somebody labelled."""
    days = [
        name
        for name in backend.names(INCIDENTS)
        if (day := parse_date_part(name)) is not None and _begin(day) + DAY <= limit
    ]
    if not days:
        return [], []
    labelled = _labelled(backend)
    found = [file for day in days for file in files_below(backend, f"{INCIDENTS}/{day}")]
    old = [file for file in found if file.written <= limit]
    held = [file for file in old if _incident_of(file.key) in labelled]
    kept = [f"{len(held)} incidents are past their age, but somebody labelled them"] if held else []
    return [file for file in old if _incident_of(file.key) not in labelled], kept


def _incident_of(key: str) -> str | None:
    return unquote_name(key.rpartition("/")[2].removesuffix(".json"))


def _labelled(backend: Backend) -> set[str]:
    """Return the ids of incidents that are labelled: a label of one of its comings is a label of all."""
    hosts = label_hosts(backend)
    labels = {label.incident for label in read_labels(backend, hosts)}
    entries = [entry for entry in read_entries(backend, hosts, None, None) if _is_labelled(entry, labels)]
    return labels.union(*(_ids(entry) for entry in entries))


def _ids(entry: Entry) -> set[str]:
    return {entry.id, entry.strongest, *(i for episode in entry.episodes for i in episode.incidents)}


def _is_labelled(entry: Entry, labels: Collection[str]) -> bool:
    return not _ids(entry).isdisjoint(labels)


def _ledgers(backend: Backend, wanted: Wanted, limit: datetime) -> tuple[list[StoredFile], list[str]]:
    """Return the files of months that are past, but those with an entry that somebody labelled."""
    old: list[StoredFile] = []
    held = 0
    for host in filter(wanted, ledger_hosts(backend)):
        labels: set[str] | None = None
        for file in files_below(backend, ledger_folder(host)):
            month = parse_month_part(file.key.rpartition("/")[2])
            if month is None or max(_after(month), file.written) > limit:
                continue
            if labels is None:
                labels = {label.incident for label in read_labels(backend, [host])}
            entries = read_typed(backend, file.key, _entries()) or () if labels else ()
            if any(_is_labelled(entry, labels) for entry in entries):
                held += 1
            else:
                old.append(file)
    told = "1 month" if held == 1 else f"{held} months"
    kept = [f"ledgers of {told} are past their age, but hold incidents that somebody labelled"]
    return old, kept if held else []


def _begin(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _after(month: date) -> datetime:
    """Return when a month is over."""
    return _begin((month.replace(day=28) + timedelta(days=4)).replace(day=1))


def remove_files(backend: Backend, files: Sequence[StoredFile]) -> None:
    """Remove files, and the folders that are empty then.

    The document of a report goes first: without it a report is one whose writer died, for everybody.
    """
    documents = {file.key for file in files if file.key.endswith("/report.json")}
    backend.each(backend.remove, sorted(documents))
    backend.each(backend.remove, [file.key for file in files if file.key not in documents])
    for folder in sorted({file.key.rpartition("/")[0] for file in files}):
        if not folder.endswith(f"/{TEMPORARY}"):  # a writer counts on it from one moment to the next
            remove_empty(backend, folder)
