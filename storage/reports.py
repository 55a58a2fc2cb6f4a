"""Reports at rest, and the list of past ones."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import quote

from reveal_core.errors import UsageError
from reveal_core.incidents import iso
from storage.backend import Backend
from storage.documents import to_json
from storage.layout import REPORTS, REPORTS_INDEX, REPORTS_LATEST, quote_name, report_folder, unquote_name

_HEADS = re.compile(r'<script type="application/json" id="reports">(.*?)</script>', re.DOTALL)
_TEXTS = ("report", "created", "title", "headline", "start", "end")

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Reveal: reports</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
caption {{ text-align: left; padding-bottom: .5rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem .8rem .4rem 0; }}
th, td {{ border-bottom: 1px solid #8886; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; }}
time {{ white-space: nowrap; }}
</style>
</head>
<body>
<h1>Reports</h1>
<table>
<caption>{count}, newest first</caption>
<thead><tr><th scope="col">Made</th><th scope="col">Report</th><th scope="col">Incidents</th>
<th scope="col">From</th><th scope="col">To</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
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
    """Return what the list of reports shows of a report: times, title, headline and how many incidents."""
    head: Head = {name: str(data.get(name) or "") for name in _TEXTS}
    head["report"] = report_id
    incidents = data.get("incidents")
    head["incidents"] = len(incidents) if isinstance(incidents, list | tuple) else None
    return head


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


def _heads(backend: Backend, new: Head) -> list[Head]:
    """Return the head of every stored report, from the page that lists them or else from its own file."""
    known = {head["report"]: head for head in _listed(backend.read(REPORTS_INDEX))}
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
    )


def render_index(heads: list[Head]) -> str:
    """Return the page that lists reports, newest first; it holds the heads as data too, to be added to."""
    ordered = sorted(heads, key=lambda head: (head["created"], head["report"]), reverse=True)
    # "<" must not appear: "</script>" in a headline would end the element.
    data = json.dumps(ordered, ensure_ascii=False).replace("<", "\\u003c")
    count = "1 report" if len(ordered) == 1 else f"{len(ordered)} reports"
    return _PAGE.format(count=count, rows="\n".join(map(_row, ordered)), heads=data)


def _row(head: Head) -> str:
    link = escape(quote(quote_name(head["report"])) + "/index.html")
    label = escape(head["headline"] or head["title"] or head["report"])
    incidents = "" if head["incidents"] is None else str(head["incidents"])
    return (
        f'<tr><td>{_time(head["created"])}</td><td><a href="{link}">{label}</a></td>'
        f'<td class="number">{incidents}</td>'
        f"<td>{_time(head['start'])}</td><td>{_time(head['end'])}</td></tr>"
    )


def _time(text: str) -> str:
    return f'<time datetime="{escape(text)}">{escape(text)}</time>' if text else ""
