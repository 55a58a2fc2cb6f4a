"""Jobs as tables and schedulers tell of them: a CSV file, and what ``sacct`` prints."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.hostlist import expand_hosts
from reveal_core.jobtable import Job, JobHost, new_job

CSV_NEEDED = ("job", "host", "start")
CSV_COLUMNS = (*CSV_NEEDED, "end", "name", "devices")
SACCT_COLUMNS = ("JobID", "JobName", "NodeList", "Start", "End", "State")
SACCT_FORMAT = ",".join(SACCT_COLUMNS)
"""What ``sacct --format`` must print, with ``--allocations --parsable2``."""

_UNTOLD = frozenset({"", "unknown", "none", "n/a", "none assigned", "(null)"})
"""What sacct prints where there is no time or no node yet."""
_YEARS = (1971, 2199)
"""A time before or after these is a mistake."""


def event_time(text: str, zone: tzinfo | None, where: str, *, after: datetime | None = None) -> datetime:
    """Return the time of something that happened once, in UTC.

    Parameters
    ----------
    text
        ISO 8601.
    zone
        Of a time without one; None if nothing was said.
    where
        Begins the line of an error.
    after
        It was not before this. Of a time in the hour that comes twice when clocks go back, this tells the
        passes apart; where nothing does, the first is taken.

    Raises
    ------
    UsageError
        If it is no time, one that its zone skips, or has no zone and none was given.
    """
    try:
        time = datetime.fromisoformat(text.strip())
        if time.tzinfo is None:
            if zone is None:
                raise UsageError(
                    f"{where}: the time {text!r} has no zone: say which with --timezone "
                    "(for example --timezone Europe/London, or UTC)"
                )
            utc = time.replace(tzinfo=zone).astimezone(UTC)
            if utc.astimezone(zone).replace(tzinfo=None) != time:
                raise UsageError(f"{where}: clocks in {zone} skip the time {text!r}; is the zone right?")
            again = time.replace(tzinfo=zone, fold=1).astimezone(UTC)
            if after is not None and utc < after <= again:
                utc = again
        else:
            utc = time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{where}: {text!r} is not a time: write ISO 8601, such as 2026-11-29T20:15:00Z"
        ) from None
    if not _YEARS[0] <= utc.year <= _YEARS[1]:
        raise UsageError(f"{where}: the time {text!r} is before {_YEARS[0]} or after {_YEARS[1]}")
    return utc


@dataclass(frozen=True)
class _Row:
    """A row of a table: one job on some hosts."""

    start: datetime
    end: datetime | None
    name: str
    hosts: tuple[JobHost, ...]


def read_csv(text: str, where: str, zone: tzinfo | None, seen: datetime) -> tuple[Job, ...]:
    """Return the jobs of a CSV table with a row for each job and host, or list of hosts.

    Columns are ``job``, ``host`` and ``start``, and if they are there ``end`` (empty: it runs still),
    ``name`` and ``devices`` (parted by blanks, semicolons or commas). Rows of a job whose times overlap are
    one run, from the first start to the last end.

    Parameters
    ----------
    text
        The table.
    where
        What it is called, for messages.
    zone
        Of times without one; None if nothing was said.
    seen
        When the table was read: what has no end was running then.

    Raises
    ------
    UsageError
        If it is not such a table; the line says where.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: dict[str, list[_Row]] = {}
    names: list[str] = []
    try:
        for cells in reader:
            place = f"{where}, line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if not names:
                names = _header(cells, place)
                continue
            if len(cells) != len(names):
                raise UsageError(f"{place}: {len(cells)} cells, but {len(names)} columns")
            row = dict(zip(names, (cell.strip() for cell in cells), strict=True))
            if not row["job"]:
                raise UsageError(f"{place}: a job without an id")
            rows.setdefault(row["job"], []).append(_row(row, place, zone))
    except csv.Error as error:
        raise UsageError(f"{where}, line {reader.line_num}: {error}") from None
    if not names:
        raise UsageError(f"{where} is empty: a header with {', '.join(CSV_NEEDED)} is expected")
    return tuple(
        new_job(
            where,
            id=name,
            name=next((row.name for row in run if row.name), ""),
            start=min(row.start for row in run),
            end=_last_end(run),
            hosts=[host for row in run for host in row.hosts],
            source="csv",
            seen=seen,
        )
        for name, mine in rows.items()
        for run in _runs(mine)
    )


def _header(cells: Sequence[str], place: str) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    missing = [name for name in CSV_NEEDED if name not in names]
    unknown = [name for name in names if name not in CSV_COLUMNS]
    twice = [name for name in names if names.count(name) > 1]
    if missing:
        raise UsageError(
            f"{place}: there is no column {missing[0]}; a table of jobs has {', '.join(CSV_COLUMNS)}"
        )
    if unknown:
        raise UsageError(f"{place}: column {unknown[0]!r} is none of {', '.join(CSV_COLUMNS)}")
    if twice:
        raise UsageError(f"{place}: column {twice[0]} stands twice")
    return names


def _row(row: Mapping[str, str], place: str, zone: tzinfo | None) -> _Row:
    start = event_time(row["start"], zone, place)
    end = event_time(row["end"], zone, place, after=start) if row.get("end") else None
    if end is not None and end <= start:
        raise UsageError(f"{place}: job {row['job']} ends before it starts")
    devices = tuple(filter(None, re.split(r"[\s;,]+", row.get("devices", ""))))
    hosts = expand_hosts(row["host"], place)
    return _Row(start, end, row.get("name", ""), tuple(JobHost(host, devices) for host in hosts))


def _runs(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Return the rows of a job by run: those that overlap in time belong together."""
    runs: list[list[_Row]] = []
    for row in sorted(rows, key=lambda row: row.start):
        last = _last_end(runs[-1]) if runs else row.start
        if runs and (last is None or row.start < last):
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _last_end(rows: Sequence[_Row]) -> datetime | None:
    ends = [row.end for row in rows]
    known = [end for end in ends if end is not None]
    return max(known) if len(known) == len(ends) else None


def read_sacct(
    text: str, where: str, zone: tzinfo | None, seen: datetime, findings: Findings
) -> tuple[Job, ...]:
    """Return the jobs that ``sacct --allocations --parsable2`` printed.

    Parameters
    ----------
    text
        Its output, with the header, of the columns `SACCT_COLUMNS` in any order.
    where, zone, seen
        As `read_csv` takes them.
    findings
        Is told of jobs that never ran, and of what are parts of jobs.

    Raises
    ------
    UsageError
        If it is not such a list; the line says where.
    """
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1)]
    filled = [(number, line) for number, line in lines if line.strip()]
    if not filled:
        raise UsageError(f"{where} is empty: the header of sacct is expected")
    names = filled[0][1].split("|")
    for name in SACCT_COLUMNS:
        if names.count(name) != 1:
            raise UsageError(
                f"{where}, line {filled[0][0]}: one column {name} is expected: print it with "
                f"sacct --allocations --parsable2 --format={SACCT_FORMAT}"
            )
    findings.where = where
    jobs = []
    for number, line in filled[1:]:
        place = f"{where}, line {number}"
        row = dict(zip(names, _cells(line, names, place), strict=True))
        job = _sacct_job(row, place, zone, seen, findings, number)
        if job is not None:
            jobs.append(job)
    return tuple(jobs)


def _cells(line: str, names: Sequence[str], place: str) -> list[str]:
    """Return the cells of a line; sacct does not mark a bar within the job's name, so it is taken for one."""
    cells = line.split("|")
    more = len(cells) - len(names)
    if more < 0:
        raise UsageError(f"{place}: {len(cells)} fields, but {len(names)} columns")
    at = names.index("JobName")
    return [*cells[:at], "|".join(cells[at : at + more + 1]), *cells[at + more + 1 :]]


def _sacct_job(
    row: Mapping[str, str],
    place: str,
    zone: tzinfo | None,
    seen: datetime,
    findings: Findings,
    number: int,
) -> Job | None:
    name = row["JobID"].strip()
    if "." in name:
        findings.skip("steps of jobs, which --allocations leaves out", line=number, detail=name)
        return None
    if row["Start"].strip().lower() in _UNTOLD or row["NodeList"].strip().lower() in _UNTOLD:
        findings.skip("jobs that never ran on a node", line=number, detail=name)
        return None
    start = event_time(row["Start"], zone, place)
    told = row["End"].strip().lower() not in _UNTOLD
    end = event_time(row["End"], zone, place, after=start) if told else None
    if end is not None and end <= start:
        findings.skip("jobs that ran for no time", line=number, detail=name)
        return None
    return new_job(
        place,
        id=name,
        name=row["JobName"].strip(),
        start=start,
        end=end,
        hosts=[JobHost(host) for host in expand_hosts(row["NodeList"], place)],
        source="slurm",
        seen=seen,
    )
