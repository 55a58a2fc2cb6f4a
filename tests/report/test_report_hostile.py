"""Every text of a report comes from elsewhere: whatever it is, it is only ever text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from fleet_samples import START, host_input, trend
from hypothesis import given, settings
from hypothesis import strategies as st
from page_parser import Page
from report_samples import CREATED, MODEL
from sample_reports import BUSY_CORE, HOT_GPU

from reveal_core.evaluate.matching import InjectedFault
from reveal_core.incidents import FleetIncident, History
from reveal_core.report.model import build_report
from reveal_core.report.render_html import render_html
from reveal_core.report.render_json import report_dict
from reveal_core.report.render_markdown import render_markdown
from storage.reports import render_index, report_head

NASTY = (
    '<script>alert("x")</script><img src=x onerror=alert(1)>',
    '"\' onmouseover=\'alert(1)\' style="background:url(//x)" x="',
    "</style></svg></title></textarea><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}${7*7}<!--]]>--!>",
    "a|b`c``d*e_f[g](javascript:alert(1))#~\\",
    "line\nbreak\r\n| x | y |\n\n# head\u2028\u2029\u202e\x00\x07",
    "x" * 600,
)
STYLE = re.compile(r"(height|bottom|left|top):[-0-9.]+%(;top:[-0-9.]+%)?|--n:\d+")
LISTED = set(
    re.findall(
        r"\w+",
        "html head meta title style body header div span h1 main section table caption thead tbody tr th td "
        "a time script",
    )
)
"""Elements of the list of reports."""
GENERATED = {"anchor"}
"""What the report makes itself, from its own alphabet."""


def sample():
    """Return a small report in which every optional part is there."""
    end = START + timedelta(seconds=420)
    early = [replace(fault, begin=100.0, length=40.0) for fault in (BUSY_CORE, replace(HOT_GPU, begin=0.0))]
    hosts = [host_input(f"n{n}", early[n : n + 1], 420, cores=20) for n in range(5)]
    hosts[0] = replace(hosts[0], quarantined=["q"])
    fault = InjectedFault("f", "cpu", hosts[0].incidents[0].start, hosts[0].incidents[0].end, ("c",), "n0")
    shared = FleetIncident("s", "cpu", "c", "t", ("n0", "x"), 5, "n*", START, end, ("n0-0001",))
    histories = {f"n{n}-0001": History(2, START, True, "known", "why", "because") for n in range(2)}
    return build_report(
        "r", "t", CREATED, START, end, hosts, MODEL, [fault], ["note"] * 7,
        fleet=[shared], histories=histories, trend=trend(),
    )  # fmt: skip


def poisoned(value: Any, text: str) -> Any:
    """Return a copy of a part of a report in which every text that there is is another."""
    if isinstance(value, str):
        return text if value else value
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value) if field.init and field.name not in GENERATED]
        return replace(value, **{name: poisoned(getattr(value, name), text) for name in names})
    if isinstance(value, Mapping):
        return {poisoned(key, text): poisoned(item, text) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(poisoned(item, text) for item in value)
    return value


@pytest.fixture(scope="module")
def report():
    return sample()


@pytest.fixture(scope="module")
def clean(report):
    return Page(render_html(report))


def check_page(html: str, clean: Page) -> Page:
    page = Page(html)
    assert page.open == []
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in clean.elements} | {"code"}
    known = {name for _, attributes in clean.elements for name in attributes}
    for tag, attributes in page.elements:
        assert set(attributes) <= known, (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
        assert re.fullmatch("(#.*)?", attributes.get("href") or "", re.DOTALL)
        assert "src" not in attributes
        assert STYLE.fullmatch(attributes.get("style") or "--n:0"), attributes["style"]
    for script in page.scripts:
        assert "</script" not in script
        if script.startswith('{"kind"'):
            json.loads(script)
    return page


@pytest.mark.parametrize("text", NASTY)
def test_whatever_a_text_is_the_page_stays_the_page(report, clean, text):
    page = check_page(render_html(poisoned(report, text)), clean)
    assert len(page.named("article")) == 2


@settings(max_examples=6, deadline=None)
@given(text=st.text(max_size=40))
def test_any_text_at_all(report, clean, text):
    dirty = poisoned(report, text)
    check_page(render_html(dirty), clean)
    json.loads(json.dumps(report_dict(dirty), allow_nan=False))


@pytest.mark.parametrize("text", NASTY)
def test_markdown_keeps_its_tables(report, text):
    plain_text, dirty = render_markdown(report), render_markdown(poisoned(report, text))
    fenced = re.compile(r"^(`{3,})sh\n.*?\n\1$", re.DOTALL | re.MULTILINE)
    lines = fenced.sub("", dirty).split("\n")
    bare = re.compile(r"(?<!\\)(?:\\\\)*[<|`]")
    rows = [line for line in lines if line.startswith("| ")]
    assert len(rows) == sum(line.startswith("| ") for line in fenced.sub("", plain_text).split("\n"))
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} <= {4, 5, 7, 9}
    for line in lines:
        if not line.startswith("| "):
            assert not bare.search(line), line


@pytest.mark.parametrize("text", NASTY)
def test_the_list_of_reports_keeps_its_rows(text):
    head = report_head(
        "r", {"headline": text, "created": text, "start": text, "end": text, "incidents": [{}]}
    )
    parsed = Page(render_index([head, {**head, "headline": "", "title": text}]))
    assert parsed.open == []
    assert len(parsed.named("tr")) == 3
    assert {tag for tag, _ in parsed.elements} <= LISTED
    assert not any(name.startswith("on") for _, attributes in parsed.elements for name in attributes)
