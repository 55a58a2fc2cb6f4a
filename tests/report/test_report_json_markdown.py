import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from report_samples import CREATED, END, FAULTS, MODEL, NOTES, START, faulty_incidents, host_input

from reveal_core.report.model import build_report
from reveal_core.report.render_json import plain, report_dict
from reveal_core.report.render_markdown import MAX_SECTIONS, escape, render_markdown


def report(*hosts, injected=FAULTS):
    return build_report("r1", "Demo", CREATED, START, END, hosts or [host_input()], MODEL, injected, NOTES)


def test_json_keeps_the_contract_and_is_strict():
    data = json.loads(json.dumps(report_dict(report()), allow_nan=False))
    assert data["report"] == "r1"
    assert data["model"] == "reveal-2cpu-0gpu/3"
    assert data["windows"] == 417
    assert data["hosts"] == ["node-17"]
    assert data["quarantined"] == []
    assert data["model_details"]["settings"]["floor"] is None
    assert data["model_details"]["trained_to"] == "2026-11-29T20:11:30.000Z"
    first = data["incidents"][0]
    keys = "id host start end severity probability subsystem subsystems metrics causes headline moved_first"
    assert set(keys.split()) <= set(first)
    assert first["start"] == "2026-11-29T20:15:32.400Z"
    assert first["causes"][0]["evidence"]
    assert [f["found"] for f in data["injected"]] == [True, True, False, True]
    assert data["injected"][2]["incident"] is None
    assert data["host_details"][0]["gaps"] == [
        {"start": "2026-11-29T20:14:02.000Z", "end": "2026-11-29T20:14:11.000Z"}
    ]


def test_json_holds_quarantined_files_of_all_hosts():
    data = report_dict(report(host_input("a", quarantined=["x"]), host_input("b", quarantined=["y"])))
    assert data["quarantined"] == ["x", "y"]


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text()
        | st.datetimes(timezones=st.just(UTC)),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    )
)
def test_anything_becomes_strict_json(value):
    json.loads(json.dumps(plain(value), allow_nan=False))


def test_odd_values_become_plain():
    assert plain({1: np.float64("nan"), "a": np.arange(2), "s": {"b", "a"}}) == {
        "1": None,
        "a": [0, 1],
        "s": ["a", "b"],
    }
    assert plain([np.int64(3), date(2026, 1, 2), timedelta(seconds=90)]) == [3, "2026-01-02", 90.0]
    assert plain(datetime(2026, 1, 2, tzinfo=UTC)) == "2026-01-02T00:00:00.000Z"
    assert plain(1j) == "1j"


def test_markdown_tells_the_whole_story():
    text = render_markdown(report())
    assert text.startswith("# 3 incidents on node-17 between 20:15 and 20:17 UTC")
    assert "| 1 | 20:15:32.4 | 9 s | node-17 | network | Packets are lost on the way | 3 of 4 |" in text
    assert "**Packets are lost on the way** (86 % confidence)" in text
    assert "- against: No interface counts a drop or an error" in text
    assert "No entry of the cause catalogue fits." in text
    assert "3 of 4 found; 0 false incidents." in text
    assert "| huge-pages-reserved | 20:17:00.0 | **missed** | – | – | – |" in text
    assert "nft list ruleset | grep -n drop" in text


def test_markdown_of_nothing_is_short():
    text = render_markdown(report(host_input(incidents=[]), injected=()))
    assert text.count("\n") < 8
    assert "|" not in text


def test_markdown_tells_ten_at_length_and_lists_all():
    (one, *_) = faulty_incidents()
    many = [replace(one, id=str(n), start=one.start + timedelta(seconds=n)) for n in range(14)]
    text = render_markdown(report(host_input(incidents=many), injected=()))
    assert text.count("\n## ") == MAX_SECTIONS
    assert "4 more incidents in the full report." in text
    assert len(re.findall(r"^\| \d+ \|", text, re.M)) == 14


def test_a_pipe_a_tag_or_a_fence_breaks_nothing():
    (one, *_) = faulty_incidents("a|b<script>\nc")
    cause = replace(one.causes[0], title="x | y", commands=("```", "rm -rf `pwd`"))
    text = render_markdown(
        report(host_input("a|b<script>\nc", incidents=[replace(one, causes=(cause,))]), injected=())
    )
    row = next(line for line in text.split("\n") if line.startswith("| 1 |"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 9
    assert "<script>" not in text.replace("\\<", "")
    assert "````sh\n```\nrm -rf `pwd`\n````" in text


@given(st.text())
def test_escaped_text_has_no_bare_pipe_and_one_line(text):
    escaped = escape(text)
    assert len(escaped.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", escaped)
