"""The store's layout: which key a thing has, and what a key says about the thing.

Keys are paths below the store's root, with ``/`` between parts. Everything here is a
pure function of names and times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import quote, unquote

from reveal_core.errors import UsageError

TELEMETRY = "telemetry"
SCORES = "scores"
INCIDENTS = "incidents"
REPORTS = "reports"
REGIMES = "regimes"
LEDGER = "ledger"
WATERMARKS = f"{LEDGER}/judged.json"
LABELS = "labels"
SILENCES = "silences"
IMPORTS = "imports"
JOBS = "jobs"
OPEN_JOBS = f"{JOBS}/open.json"
STRAGGLERS = f"{JOBS}/stragglers.json"
WORK = "work"
REQUESTS = "requests"
ALERTS_STATE = "alerts/state.json"
QUARANTINE = "quarantine"
REPORTS_INDEX = f"{REPORTS}/index.html"
REPORTS_LATEST = f"{REPORTS}/latest.json"

LONGEST_SEGMENT = timedelta(hours=1)
"""A segment spans at most this long, so a reader looks one hour partition back and no further."""

_LONGEST_NAME = 200
_RESERVED_REPORTS = {"index.html", "latest.json"}
_DOWNSAMPLED = ".10s"
_SEGMENT = re.compile(
    r"(\d{8}T\d{6}\.\d{3}Z)-([^=]+)-(\d+)(?:=(\d{8}T\d{6}\.\d{3}Z)-(\d+))?(\.10s)?\.parquet"
)
_DATE = re.compile(r"date=(\d{4}-\d{2}-\d{2})")
_HOUR = re.compile(r"hour=(\d{2})")
_HOST = re.compile(r"host=(.+)")
_MONTH = re.compile(r"month=(\d{4})-(\d{2})\.json")


def quote_name(name: str) -> str:
    """Return a name as one part of a key: letters, digits and ``_.-~@`` stay, other bytes become ``%XX``.

    Parameters
    ----------
    name
        A host, model, report or incident name; any text.

    Raises
    ------
    UsageError
        If the name is empty, no valid Unicode, or longer than a file name may be.

    Examples
    --------
    >>> quote_name("rack 7/node-17")
    'rack%207%2Fnode-17'
    """
    if not name:
        raise UsageError("an empty name cannot be stored")
    try:
        quoted = quote(name, safe="@")
    except UnicodeEncodeError:
        raise UsageError(f"the name {name!r} is no valid Unicode text") from None
    # A leading dot would hide the file, and ".." would leave the folder.
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) > _LONGEST_NAME:
        raise UsageError(
            f"the name {name[:40]!r}… is too long: {len(quoted)} of at most {_LONGEST_NAME} characters"
        )
    return quoted


def unquote_name(part: str) -> str | None:
    """Return the name that `quote_name` turned into this part of a key; None if it never returns this."""
    try:
        name = unquote(part, errors="strict")
        return name if quote_name(name) == part else None
    except (UnicodeDecodeError, UsageError):
        return None


def to_utc(time: datetime) -> datetime:
    """Return an aware time in UTC.

    Raises
    ------
    ValueError
        If the time has no zone: guessing one would misplace data by hours.
    """
    if time.tzinfo is None:
        raise ValueError(f"{time!r} has no time zone")
    return time.astimezone(UTC)


def floor_hour(time: datetime) -> datetime:
    """Return the beginning of a time's hour in UTC."""
    return to_utc(time).replace(minute=0, second=0, microsecond=0)


def date_part(day: date) -> str:
    """Return ``date=YYYY-MM-DD``."""
    return f"date={day.year:04d}-{day.month:02d}-{day.day:02d}"


def hour_parts(hour: datetime) -> str:
    """Return ``date=YYYY-MM-DD/hour=HH`` of a time in UTC."""
    return f"{date_part(hour.date())}/hour={hour.hour:02d}"


def parse_date_part(part: str) -> date | None:
    """Return the day of ``date=YYYY-MM-DD``; None for anything else."""
    match = _DATE.fullmatch(part)
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        return None


def parse_hour_part(part: str) -> int | None:
    """Return the hour, 0 to 23, of ``hour=HH``; None for anything else."""
    match = _HOUR.fullmatch(part)
    return int(match[1]) if match is not None and int(match[1]) < 24 else None


def parse_host_part(part: str) -> str | None:
    """Return the host of ``host=<quoted>``; None for anything else."""
    match = _HOST.fullmatch(part)
    return unquote_name(match[1]) if match is not None else None


@dataclass(frozen=True, slots=True, order=True)
class SegmentName:
    """What a telemetry segment's key says.

    Attributes
    ----------
    start
        UTC time of the first sample, to the millisecond below.
    host, boot, sequence
        Whose segment, of which boot, and its number within it.
    key
        The key itself. Names sort by time.
    last_start, last_sequence
        Of the last of the segments that were merged into it; its own where none were.
    downsampled
        Whether it was down-sampled.
    """

    start: datetime
    host: str
    boot: str
    sequence: int
    key: str
    last_start: datetime
    last_sequence: int
    downsampled: bool


def host_folder(hour: datetime, host: str) -> str:
    """Return the folder that holds the segments of one host that begin in one hour."""
    return f"{TELEMETRY}/{hour_parts(hour)}/host={quote_name(host)}"


def segment_key(
    host: str,
    start: datetime,
    boot: str,
    sequence: int,
    *,
    last: tuple[datetime, int] | None = None,
    downsampled: bool = False,
) -> str:
    """Return a segment's key, a function of its content identity.

    Parameters
    ----------
    host, start, boot, sequence
        Of the segment, or of the first of those that were merged into it.
    last
        Start and number of the last of these.
    downsampled
        Whether it was down-sampled.

    Raises
    ------
    UsageError
        If host or boot cannot be a name.
    ValueError
        If ``start`` has no zone or ``sequence`` is negative.
    """
    if sequence < 0:
        raise ValueError(f"segment number {sequence} is negative")
    start = to_utc(start)
    name = f"{_stamp(start)}-{quote_name(boot)}-{sequence:06d}"
    if last is not None:
        name += f"={_stamp(to_utc(last[0]))}-{last[1]:06d}"
    if downsampled:
        name += _DOWNSAMPLED
    return f"{host_folder(start, host)}/{name}.parquet"


def _stamp(time: datetime) -> str:
    return (
        f"{time.year:04d}{time.month:02d}{time.day:02d}T{time.hour:02d}{time.minute:02d}{time.second:02d}"
        f".{time.microsecond // 1000:03d}Z"
    )


def _parse_stamp(text: str) -> datetime:
    return datetime.strptime(text, "%Y%m%dT%H%M%S.%fZ").replace(tzinfo=UTC)


def parse_segment_key(key: str) -> SegmentName | None:
    """Return what a segment's key says; None if `segment_key` never returns this key."""
    parts = key.split("/")
    match = _SEGMENT.fullmatch(parts[-1])
    if len(parts) < 2 or match is None:
        return None
    host, boot = parse_host_part(parts[-2]), unquote_name(match[2])
    if host is None or boot is None:
        return None
    try:
        start = _parse_stamp(match[1])
        last = (_parse_stamp(match[4]), int(match[5])) if match[4] else None
    except ValueError:
        return None
    sequence, downsampled = int(match[3]), match[6] is not None
    if last is not None and (last[0] <= start or last[1] <= sequence):
        return None
    if segment_key(host, start, boot, sequence, last=last, downsampled=downsampled) != key:
        return None
    last_start, last_sequence = last or (start, sequence)
    return SegmentName(start, host, boot, sequence, key, last_start, last_sequence, downsampled)


def scores_folder(model: str) -> str:
    """Return the folder of one model's scores; ``model`` is ``<name>@<version>``."""
    return f"{SCORES}/model={quote_name(model)}"


def scores_key(model: str, host: str, hour: datetime) -> str:
    """Return the key of the scores that a model gave to the windows of one host that begin in one hour."""
    return f"{scores_folder(model)}/{hour_parts(to_utc(hour))}/host={quote_name(host)}.parquet"


def incident_key(incident_id: str, start: datetime) -> str:
    """Return an incident's key; it lies under the day on which it began."""
    return f"{INCIDENTS}/{date_part(to_utc(start).date())}/{quote_name(incident_id)}.json"


def regime_key(model: str, host: str) -> str:
    """Return the key of a host's regime; ``model`` is the name of the registered model, without a version."""
    return f"{REGIMES}/model={quote_name(model)}/host={quote_name(host)}.json"


def ledger_folder(host: str) -> str:
    """Return the folder of a host's ledger."""
    return f"{LEDGER}/host={quote_name(host)}"


def ledger_key(host: str) -> str:
    """Return the key of the part of a host's ledger that is written to: what is on, or was on lately."""
    return f"{ledger_folder(host)}/recent.json"


def past_ledger_key(host: str, month: date) -> str:
    """Return the key of the entries of a host's ledger that ended in a month and are long over."""
    return f"{ledger_folder(host)}/month={month.year:04d}-{month.month:02d}.json"


def parse_month_part(part: str) -> date | None:
    """Return the first day of ``month=YYYY-MM.json``; None for anything else."""
    match = _MONTH.fullmatch(part)
    return date(int(match[1]), int(match[2]), 1) if match is not None and 1 <= int(match[2]) <= 12 else None


def labels_key(host: str) -> str:
    """Return the key of what people said of a host's incidents."""
    return f"{LABELS}/host={quote_name(host)}.json"


def silence_key(silence_id: str) -> str:
    """Return a silence's key."""
    return f"{SILENCES}/{quote_name(silence_id)}.json"


def imports_key(host: str) -> str:
    """Return the key of what was imported of a host from servers."""
    return f"{IMPORTS}/host={quote_name(host)}.json"


def request_key(host: str) -> str:
    """Return the key of what a host's agent is asked to do."""
    return f"{REQUESTS}/host={quote_name(host)}.json"


def jobs_key(day: date) -> str:
    """Return the key of the jobs that ran on a day and are over."""
    return f"{JOBS}/{date_part(day)}.json"


def work_key(host: str) -> str:
    """Return the key of what a host did lately, minute by minute."""
    return f"{WORK}/host={quote_name(host)}.json"


def parse_scores_model(part: str) -> tuple[str, int] | None:
    """Return name and version of ``model=<name>@<version>``; None for anything else."""
    label = unquote_name(part.removeprefix("model=")) if part.startswith("model=") else None
    name, _, version = (label or "").rpartition("@")
    return (name, int(version)) if name and version.isdecimal() else None


def report_folder(report_id: str) -> str:
    """Return a report's folder.

    Raises
    ------
    UsageError
        If the id is the name of a file that the folder of reports holds itself.
    """
    if report_id in _RESERVED_REPORTS:
        raise UsageError(f"a report cannot be called {report_id!r}")
    return f"{REPORTS}/{quote_name(report_id)}"


def quarantine_key(key: str) -> str:
    """Return where the file under ``key`` goes when it cannot be read."""
    return f"{QUARANTINE}/{key}"
