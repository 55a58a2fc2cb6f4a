"""Reports at rest, and the list of past ones."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote

from reveal_core.errors import UsageError
from reveal_core.incidents import OPEN, iso
from reveal_core.report.styles import INDEX_PARTS, style
from storage.backend import Backend
from storage.documents import to_json
from storage.files import StoredFile, files_below
from storage.layout import REPORTS, REPORTS_INDEX, REPORTS_LATEST, quote_name, report_folder, unquote_name

_HEADS = re.compile(r'<script type="application/json" id="reports">(.*?)</script>', re.DOTALL)
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)")
_TEXTS = ("report", "created", "title", "headline", "start", "end")
_STAMP = re.compile(r"(\d{8}T\d{6}Z)-")
_DOCUMENT = "report.json"
_REBUILDS = 3
MAX_LISTED = 1000
"""Reports that the list shows; it knows of all of them."""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Reveal: reports</title>
<style>
{style}
</style>
</head>
<body>
<header><div class="brandline"><span class="brand">Reveal</span></div>
<h1>Reports</h1></header>
<main>
<section><div class="scroll">
<table class="reports" role="table">
<caption class="quiet">{count}, newest first</caption>
<thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col">Made</th>
<th role="columnheader" scope="col">Report</th><th role="columnheader" scope="col" class="r">Incidents</th>
<th role="columnheader" scope="col">Judged</th></tr></thead>
<tbody role="rowgroup">
{rows}
</tbody>
</table>
</div></section>
</main>
<script type="application/json" id="reports">{heads}</script>
</body>
</html>
"""

Head = dict[str, Any]


def report_path(backend: Backend, report_id: str) -> str:
    """Return the path or URL of a report's page.

    Raises
    ------
    UsageError
        If the id cannot be a name.
    """
    return backend.address(f"{report_folder(report_id)}/index.html")


def report_head(report_id: str, data: Mapping[str, Any]) -> Head:
    """Return what the list of reports shows of one: times, title, headline, incidents, and those still on."""
    head: Head = {name: str(data.get(name) or "") for name in _TEXTS}
    head["report"] = report_id
    incidents = data.get("incidents")
    head["incidents"] = len(incidents) if isinstance(incidents, list | tuple) else None
    head["open"] = sum(_is_open(i) for i in incidents) if isinstance(incidents, list | tuple) else None
    return head


def _is_open(incident: Any) -> bool:
    return isinstance(incident, dict) and incident.get("state") == OPEN


def put_report(backend: Backend, report_id: str, html: str, data: Mapping[str, Any]) -> str:
    """Store a report and name it in the list; see `storage.store.Store.put_report`."""
    folder = report_folder(report_id)
    data = {**data, "created": data.get("created") or iso(datetime.now(UTC))}
    body = to_json(data)
    # report.json goes last: a report without it is one whose writer died, and is not listed.
    backend.write(f"{folder}/index.html", html.encode())
    backend.write(f"{folder}/report.json", body)
    head = report_head(report_id, json.loads(body))
    backend.write(REPORTS_LATEST, to_json({**head, "path": f"{quote_name(report_id)}/index.html"}))
    backend.write(REPORTS_INDEX, render_index(_heads(backend, head)).encode())
    return report_path(backend, report_id)


def latest_report(backend: Backend) -> Head:
    """Return the head of the report that was stored last; see `storage.store.Store.latest_report`."""
    data = backend.read(REPORTS_LATEST)
    if data is None:
        raise UsageError(f"store {backend.shown} holds no report")
    try:
        head = json.loads(data)
    except ValueError as error:
        raise UsageError(f"store {backend.shown}: {REPORTS_LATEST} is no JSON: {error}") from error
    if not isinstance(head, dict):
        raise UsageError(f"store {backend.shown}: {REPORTS_LATEST} names no report")
    return head


@dataclass(frozen=True)
class StoredReport:
    """What lies in the folder of a report.

    Attributes
    ----------
    id
        Its name.
    files
        What is in its folder.
    created
        When it was made.
    whole
        Whether its document is there, which is written last.
    """

    id: str
    files: tuple[StoredFile, ...]
    created: datetime
    whole: bool


def stored_reports(backend: Backend) -> list[StoredReport]:
    """Return every report that has a folder, by name."""
    folders: dict[str, list[StoredFile]] = {}
    for file in files_below(backend, REPORTS):
        parts = file.key.split("/")
        report = unquote_name(parts[1]) if len(parts) > 2 else None
        if report is not None:
            folders.setdefault(report, []).append(file)
    found = []
    for report, files in sorted(folders.items()):
        document = next((file for file in files if file.key.endswith(f"/{_DOCUMENT}")), None)
        created = _stamp_of(report) or (document or files[0]).written
        found.append(StoredReport(report, tuple(files), created, document is not None))
    return found


def _stamp_of(report: str) -> datetime | None:
    """Return when a report was made as far as its id begins with it."""
    match = _STAMP.match(report)
    try:
        return datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) if match else None
    except ValueError:
        return None


def listed_reports(backend: Backend) -> list[str]:
    """Return the ids of the reports that the list of reports names."""
    return [head["report"] for head in _listed(backend.read(REPORTS_INDEX))]


def latest_id(backend: Backend) -> str | None:
    """Return which report ``latest.json`` names, ``""`` if it names none; None if there is no such file."""
    data = backend.read(REPORTS_LATEST)
    if data is None:
        return None
    try:
        head = json.loads(data)
    except ValueError:
        return ""
    return str(head.get("report") or "") if isinstance(head, dict) else ""


def rebuild_index(backend: Backend, without: Collection[str] = ()) -> None:
    """Write the list of reports anew from those that are there, leaving out some."""
    for _ in range(_REBUILDS):
        names = backend.names(REPORTS)
        whole = {report.id for report in stored_reports(backend) if report.whole}.difference(without)
        heads = [head for head in _heads(backend) if head["report"] in whole]
        backend.write(REPORTS_INDEX, render_index(heads).encode())
        if backend.names(REPORTS) == names:
            return  # else a report has come meanwhile, and its row may have been written over


def mend_latest(backend: Backend) -> None:
    """Let ``latest.json`` name the newest report of the list; without any it goes."""
    heads = sorted(_listed(backend.read(REPORTS_INDEX)), key=lambda head: (head["created"], head["report"]))
    if heads:
        path = f"{quote_name(heads[-1]['report'])}/index.html"
        backend.write(REPORTS_LATEST, to_json({**heads[-1], "path": path}))
    else:
        backend.remove(REPORTS_LATEST)


def _heads(backend: Backend, new: Head | None = None) -> list[Head]:
    """Return the head of every stored report, from the page that lists them or else from its own file."""
    known = {head["report"]: head for head in _listed(backend.read(REPORTS_INDEX))}
    if new is not None:
        known[new["report"]] = new
    names = map(unquote_name, backend.names(REPORTS))
    ids = [name for name in names if name is not None and name not in ("index.html", "latest.json")]
    unknown = [name for name in ids if name not in known]
    for name, data in zip(
        unknown,
        backend.each(backend.read, [f"{report_folder(name)}/report.json" for name in unknown]),
        strict=True,
    ):
        if data is not None:
            known[name] = _head_of_file(name, data)
    return [known[name] for name in ids if name in known]


def _head_of_file(report_id: str, data: bytes) -> Head:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {"headline": "its report.json cannot be read"}
    return report_head(report_id, document)


def _listed(page: bytes | None) -> list[Head]:
    """Return the heads that a page holds; none from a page that is missing or not ours: it is made anew."""
    match = _HEADS.search(page.decode(errors="replace")) if page is not None else None
    if match is None:
        return []
    try:
        heads = json.loads(match[1])
    except ValueError:
        return []
    return [head for head in heads if _is_head(head)] if isinstance(heads, list) else []


def _is_head(head: Any) -> bool:
    return (
        isinstance(head, dict)
        and all(isinstance(head.get(name), str) for name in _TEXTS)
        and isinstance(head.get("incidents"), int | None)
        and isinstance(head.get("open"), int | None)
    )


def render_index(heads: list[Head]) -> str:
    """Return the page that lists reports, newest first; it holds the heads as data too, to be added to."""
    ordered = sorted(heads, key=lambda head: (head["created"], head["report"]), reverse=True)
    # "<" must not appear: "</script>" in a headline would end the element.
    data = json.dumps(ordered, ensure_ascii=False).replace("<", "\\u003c")
    count = "1 report" if len(ordered) == 1 else f"{len(ordered):,} reports"
    if len(ordered) > MAX_LISTED:
        count += f", of which the {MAX_LISTED:,} newest are listed"
    rows = "\n".join(map(_row, ordered[:MAX_LISTED]))
    return _PAGE.format(style=style(*INDEX_PARTS), count=count, rows=rows, heads=data)


def _row(head: Head) -> str:
    link = escape(quote(quote_name(head["report"])) + "/index.html")
    label = escape(head["headline"] or head["title"] or head["report"])
    incidents, still_open = head["incidents"], head.get("open")
    told = "–" if incidents is None else str(incidents)
    if still_open:
        told += f' <span class="is open">{still_open} open</span>'
    cells = (
        ("", _time(head["created"])),
        ("what", f'<a href="{link}">{label}</a>'),
        ("number", told),
        ("", _span(head["start"], head["end"])),
    )
    row = "".join(f'<td role="cell" class="{name}">{content}</td>' for name, content in cells)
    return f'<tr role="row" class="{"some" if incidents else "none"}">{row}</tr>'


def _span(start: str, end: str) -> str:
    """Return a span of time; the day of its end only where it is another."""
    if not start or not end:
        return _time(start or end)
    return f"{_time(start)} to {_time(end, day=start[:10] != end[:10])}"


def _time(text: str, *, day: bool = True) -> str:
    """Return a time as an element that shows it to the minute; text that is no time stays as it is."""
    if not text:
        return ""
    match = _ISO.match(text)
    shown = " ".join(match.groups() if day else match.groups()[1:]) if match else text
    return f'<time datetime="{escape(text)}">{escape(shown)}</time>'
