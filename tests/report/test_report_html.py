import base64
import hashlib
import json
import re
import zlib
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from page_parser import Page
from report_samples import (
    CREATED,
    END,
    FAULTS,
    MODEL,
    NOTES,
    START,
    evidence,
    faulty_incidents,
    host_input,
    incident,
)

from reveal_core.report.model import InjectedFault, SourceNote, build_report
from reveal_core.report.render_html import flatten, render_html

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>'


def report(*hosts, injected=FAULTS, notes=NOTES, model=MODEL, title="Demo"):
    return build_report("r1", title, CREATED, START, END, hosts or [host_input()], model, injected, notes)


@pytest.fixture(scope="module")
def page():
    return Page(render_html(report()))


def test_every_element_is_closed(page):
    assert page.open == []


def test_nothing_is_loaded_from_anywhere(page):
    for tag, attributes in page.elements:
        for name in ("src", "href", "srcset", "data", "poster", "action", "xlink:href"):
            if attributes.get(name) is not None:
                assert tag == "a"
                assert attributes[name].startswith("#")
        assert tag not in ("link", "iframe", "object", "embed", "base")
    style = re.search(r"<style>(.*?)</style>", render_html(report()), re.S).group(1)
    assert "@import" not in style
    assert set(re.findall(r"url\(([^)]*)\)", style)) == {"#hatch"}
    policy = next(m["content"] for m in page.named("meta") if "http-equiv" in m)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.split("style-src")[0]


def carried(page):
    """Return the script that a page carries packed, and how many characters that takes."""
    packed = [s for s in page.scripts if len(s) > 1_000_000]
    return [zlib.decompress(base64.b64decode(script)).decode() for script in packed], sum(map(len, packed))


def test_plotly_is_carried_once_and_packed(page):
    (script,), size = carried(page)
    assert "plotly.js v" in script[:200]
    assert size < 0.5 * len(script)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in next(m["content"] for m in page.named("meta") if "http-equiv" in m)


def test_a_page_without_plots_carries_no_plotly():
    hosts = [host_input(name, incidents=[]) for name in "abcde"]
    quiet = Page(render_html(report(*hosts, injected=())))
    assert carried(quiet) == ([], 0)
    assert not quiet.named("figure")
    assert sum("use strict" in script for script in quiet.scripts) == 1


def test_headings_do_not_skip_a_level(page):
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_tables_have_captions_and_headers(page):
    tables = page.named("table")
    assert len(tables) == len(page.named("caption")) >= 6
    assert all("scope" in header for header in page.named("th"))


def test_links_and_labels_lead_somewhere_and_ids_are_unique(page):
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))
    targets = {a["href"][1:] for a in page.named("a")}
    labels = {a["aria-labelledby"] for _, a in page.elements if a.get("aria-labelledby")}
    assert targets | labels <= set(ids)
    assert sum(t.startswith("incident-") for t in targets) == 3


def test_every_drawing_has_a_label_and_data_for_the_script(page):
    drawings = [a for a in page.named("svg") if a.get("class") == "static"]
    assert len(drawings) == 1 + 6 + 2 + 2
    assert all(a["role"] == "img" and a["aria-label"] for a in drawings)
    data = [json.loads(s) for s in page.scripts if s.lstrip().startswith('{"kind"')]
    assert [d["kind"] for d in data] == ["timeline"] + ["metric"] * 10
    assert all(len(d["y"]) <= 600 for d in data)
    assert [f["found"] for f in data[0]["faults"]] == [True, True, False, True]
    assert len(data[0]["gaps"]) == 1
    paths = [a["d"] for a in page.named("path") if a.get("class") == "line"]
    assert len(paths) == len(data)
    assert all(path.startswith("M") for path in paths)


def test_the_page_says_what_was_found(page):
    text = re.sub(r"\s+", " ", " ".join(page.text))
    for sentence in (
        "3 incidents on node-17 between 20:15 and 20:17 UTC: first a network fault at 20:15:32",
        "TCP retransmissions of namespace reveal-lab rose to 310 /s (normal 0 to 2 /s)",
        "86 % confidence",
        "A flapping or capped link shows the same counters on this host.",
        "No interface counts a drop or an error",
        "ethtool -S eth0 | grep -i drop",
        "Unknown: no entry of the cause catalogue fits this incident.",
        "3 of 4 injected faults found, 1 missed; 0 false incidents.",
        "no zone under /sys/class/thermal",
        "1 in 120,000 healthy windows is as strange",
        "Telemetry is missing from 20:14:02 to 20:14:11",
        "window.length_s 3.0",
        "reveal score --start",
    ):
        assert sentence in text, sentence


def hostile_report():
    (one, *_) = faulty_incidents(HOSTILE)
    cause = replace(one.causes[0], **dict.fromkeys(("id", "title", "explanation", "fix", "caveat"), HOSTILE))
    cause = replace(cause, evidence=(HOSTILE,), against=(HOSTILE,), commands=(HOSTILE,), checks=(HOSTILE,))
    metric = evidence("tcp.RetransSegs/reveal-lab", 310, 0.3, 0.0, stands_for=(HOSTILE,))
    odd = replace(metric, metric=f"x.{HOSTILE}", instance=HOSTILE, unit=HOSTILE)
    one = replace(one, id=HOSTILE, causes=(cause, cause), metrics=(metric, odd))
    host = host_input(
        HOSTILE,
        incidents=[one],
        facts={HOSTILE: [HOSTILE]},
        sources=[SourceNote(HOSTILE, False, HOSTILE, 0)],
        quarantined=[HOSTILE],
    )
    fault = InjectedFault(HOSTILE, "network", one.start, one.end)
    model = replace(
        MODEL, name=HOSTILE, profile=HOSTILE, alias=HOSTILE, settings={HOSTILE: {HOSTILE: HOSTILE}}
    )
    return report(host, injected=[fault], notes=[HOSTILE], model=model, title=HOSTILE)


def test_names_and_texts_from_elsewhere_are_only_ever_text(page):
    hostile = Page(render_html(hostile_report()))
    assert hostile.open == []
    assert not hostile.named("img")
    assert not any(name.startswith("on") for _, attributes in hostile.elements for name in attributes)
    assert [s for s in hostile.scripts if "alert" in s and not s.startswith('{"kind"')] == []
    assert sum("</script" in script for script in hostile.scripts) == 0
    assert {t for t, _ in hostile.elements} <= {t for t, _ in page.elements} | {"ul", "code"}
    assert " ".join(hostile.text).count('<script>alert("x")</script>') >= 15


def test_a_report_without_incidents_is_whole():
    quiet = Page(render_html(report(host_input(incidents=[]), injected=())))
    assert quiet.open == []
    assert "Nothing unusual on node-17" in " ".join(quiet.text)
    assert not quiet.named("article")


def test_fifty_incidents_on_two_hosts():
    moved = [evidence("psi.cpu_some", 61, 0.5, 0.0), evidence("cpu.busy/cpu0", 99, 0.3, 0.2)]
    many = [
        incident(n, 5 + 8 * n, 6, ("cpu", "network", "memory", "storage")[n % 4], moved) for n in range(50)
    ]
    made = report(host_input(incidents=many), host_input("b", incidents=[]), injected=())
    html = render_html(made)
    crowded = Page(html)
    assert crowded.open == []
    assert len(crowded.named("article")) == 50
    assert len(html) - carried(crowded)[1] < 1_500_000


def test_days_are_named_where_a_report_spans_midnight():
    end = END + timedelta(hours=5)
    made = build_report("r", "t", CREATED, START, end, [host_input(end=end)], MODEL, FAULTS)
    assert '<td role="cell" class="time">2026-11-29 20:15:32.4</td>' in render_html(made)


def test_same_report_same_bytes():
    assert render_html(report()) == render_html(report())


def test_settings_are_flattened_with_dots():
    assert flatten({"a": {"b": 1, "c": {}}, "d": [True, None], "e": float("nan"), "f": "x"}) == [
        ("a.b", "1"), ("a.c", "{}"), ("d", "[true, null]"), ("e", "null"), ("f", "x"),
    ]  # fmt: skip
