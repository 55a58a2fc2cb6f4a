"""A report as one HTML page that opens from disk and loads nothing from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from reveal_core.channels import channel_name
from reveal_core.evaluate.matching import FaultMatch
from reveal_core.formatting import (
    counted,
    format_band,
    format_duration,
    format_number,
    format_probability,
    format_range,
    format_time,
    format_value,
)
from reveal_core.incidents import STRAGGLER
from reveal_core.report.charts import (
    counts_sentence,
    subsystem_counts,
    trend_chart,
    trend_rows,
    trend_sentence,
)
from reveal_core.report.coverage import FULL, source_summaries
from reveal_core.report.figures import metric_figure, timeline_figure
from reveal_core.report.heatmap import ROW
from reveal_core.report.page import FEW_HOSTS, MAX_MEMBERS, host_phrase, page_of
from reveal_core.report.render_json import plain
from reveal_core.report.standing import action_phrase, fleet_sentence, standing
from reveal_core.report.strips import picture_sentence, strip
from reveal_core.report.styles import REPORT_PARTS, own_text, style
from reveal_core.report.svg import metric_drawing, timeline_drawing
from reveal_core.report.types import HostReport, Report
from reveal_core.report.words import instance_phrase, metric_title, quantity, subsystem_name


def render_html(report: Report) -> str:
    """Return a report as a self-contained HTML page.

    Plots are static drawings that Plotly, carried within the page where there is any plot, replaces as they
    scroll into view. A content security policy lets only the page's own scripts run and forbids every
    request.
    """
    shown = page_of(report)
    script = own_text("page.js")
    allowed = [script]
    plotly = ""
    if shown.has_plots:
        script += own_text("plots.js")
        allowed = [script, _plotly_script()]
        plotly = _packed_plotly()
    page = _environment().get_template("page.html.j2")
    return page.render(
        report=report,
        shown_page=shown,
        counts=subsystem_counts(report),
        many_hosts=len(report.hosts) > 1,
        faults_of=lambda host: _faults_of(report, host),
        found=sum(match.found for match in report.faults),
        numbers={(i.incident.host, i.incident.id): i for i in report.incidents},
        shared={fleet.id: fleet for fleet in report.fleet},
        host_of={host.host: host for host in report.hosts},
        days=report.start.date() != report.end.date(),
        style=Markup(style(*REPORT_PARTS)),
        plotly=plotly,
        script=Markup(script),
        policy=_policy(*allowed),
    )


def flatten(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested settings as dotted names with their values as text, in the given order.

    >>> flatten({"window": {"length": "3s"}, "seed": 0})
    [('window.length', '3s'), ('seed', '0')]
    """
    rows: list[tuple[str, str]] = []
    for key, value in settings.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            rows += flatten(value, f"{name}.")
        elif isinstance(value, str):
            rows.append((name, value))
        else:
            rows.append((name, json.dumps(plain(value), ensure_ascii=False)))
    return rows


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reveal_core.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": format_duration,
        "number": format_number,
        "odds": format_probability,
        "subsystem": subsystem_name,
        "metric_title": metric_title,
    }
    environment.globals |= {
        "value": format_value,
        "band": format_band,
        "counted": counted,
        "clock": format_time,
        "time_range": format_range,
        "where": instance_phrase,
        "quantity": quantity,
        "channel_name": channel_name,
        "flatten": flatten,
        "standing": standing,
        "action_phrase": action_phrase,
        "fleet_sentence": fleet_sentence,
        "host_phrase": host_phrase,
        "strip": strip,
        "picture_sentence": picture_sentence,
        "counts_sentence": counts_sentence,
        "trend_chart": trend_chart,
        "trend_rows": trend_rows,
        "trend_sentence": trend_sentence,
        "source_summaries": source_summaries,
        "timeline_drawing": timeline_drawing,
        "metric_drawing": metric_drawing,
        "timeline_data": lambda host, faults: _data(timeline_figure(host, faults)),
        "metric_data": lambda plot, incident: _data(metric_figure(plot, incident)),
        "length": lambda span: (span.end - span.start).total_seconds(),
        "STRAGGLER": STRAGGLER,
        "HEAT_ROW": ROW,
        "FULL": FULL,
        "FEW_HOSTS": FEW_HOSTS,
        "MAX_MEMBERS": MAX_MEMBERS,
    }
    return environment


def _faults_of(report: Report, host: HostReport) -> list[FaultMatch]:
    return [match for match in report.faults if match.fault.host in ("", host.host)]


def _data(figure: Mapping[str, Any]) -> Markup:
    """Return a figure as JSON that can stand inside a script element: no ``<`` can end it."""
    text = json.dumps(figure, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def _plotly_script() -> str:
    # A browser reads every line end as \n before it checks the policy's hash.
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")


@cache
def _packed_plotly() -> str:
    """Return Plotly's script compressed, in characters of base 64; the page unpacks it for its first plot.

    Far more reports are stored than opened: packed, a page has 2 MB instead of 5.
    """
    return base64.b64encode(zlib.compress(_plotly_script().encode(), 9)).decode()


def _policy(*scripts: str) -> str:
    hashes = (base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
