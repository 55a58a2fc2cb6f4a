"""OTLP JSON in files of every form, and with damage anywhere: what can be read is, the rest is told."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from import_parts import imported
from otlp_documents import DELTA, Json, cpu_time, gauge, point, read, request, total

from reveal_core.errors import UsageError
from reveal_core.importing import otlp
from reveal_core.importing.findings import Findings
from reveal_core.importing.otlp_names import Known, Other, Refused, place
from reveal_core.importing.otlp_points import metrics_of


@pytest.mark.parametrize("form", ["pretty", "array", "gzip", "lines"])
def test_files_of_every_form(tmp_path: Path, form: str) -> None:
    documents = [request(cpu_time(n)) for n in range(3)]
    text = json.dumps(documents, indent=1)
    if form in ("lines", "gzip"):
        text = "\n\n".join(map(json.dumps, documents))
    if form == "pretty":
        joined = {"resourceMetrics": [one["resourceMetrics"][0] for one in documents]}
        text = json.dumps(joined, indent=2)
    path = tmp_path / f"m.json{'.gz' if form == 'gzip' else ''}"
    path.write_bytes(gzip.compress(text.encode()) if form == "gzip" else text.encode())
    found = imported("otlp", tmp_path)  # a folder
    assert found.frame()["cpu.user/cpu0"].to_list() == [250, 275, 300]
    assert found.reasons() == []


def test_lines_that_are_cut_off_cost_themselves(tmp_path: Path) -> None:
    good = [json.dumps(request(cpu_time(n))) for n in range(4)]
    path = tmp_path / "m.jsonl"
    path.write_text("\n".join([good[0][:50], good[1], '{"resourceLogs": []}', "[1]", good[2], good[3][:99]]))
    found = imported("otlp", path)
    assert found.frame()["cpu.user/cpu0"].to_list() == [275, 300]
    assert [(row["item"], row["reason"].partition(" (first")[0]) for row in found.findings.skipped] == [
        ("m.jsonl, line 1", "lines that are no JSON"),
        ("m.jsonl, line 3", "requests of logs, traces or profiles"),
        ("m.jsonl, line 4", "documents that are no request of OTLP"),
        ("m.jsonl, line 6", "the last line: the file ends within it"),
    ]


@pytest.mark.parametrize("text", ["", "\n", "no json", '{"resourceLogs": []}', "null", "{\n", "[]", "7"])
def test_a_file_that_is_no_otlp_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"m\.json is no OTLP JSON of metrics"):
        imported("otlp", path)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"timeUnixNano": None}, "points without a time"),
        ({"timeUnixNano": "0"}, "points without a time"),
        ({"timeUnixNano": "1764446400"}, "rows of a time before 1971 or after 2199; is its unit right?"),
        ({"asDouble": None}, "points without a number"),
        ({"asDouble": "many"}, "points without a number"),
        ({"asDouble": True}, "points without a number"),
        ({"asInt": "1.5"}, "points without a number"),
        ({"asDouble": "NaN"}, "samples that are no finite number"),
        ({"asDouble": "-Infinity"}, "samples that are no finite number"),
        ({"asDouble": -4.0}, "samples outside the range that the catalogue gives"),
        ({"asDouble": None, "flags": 1}, ""),
    ],
)
def test_a_point_that_is_none_costs_itself(tmp_path: Path, broken: Json, reason: str) -> None:
    bad = {**cpu_time(1)["sum"]["dataPoints"][0], **broken}
    metric = total("system.cpu.time", *cpu_time(0)["sum"]["dataPoints"], bad, unit="s")
    found = read(tmp_path, request(metric), request(cpu_time(2)))
    assert found.frame()["cpu.user/cpu0"].drop_nulls().to_list() == [250, 300]
    assert [one.partition(" (first")[0] for one in found.reasons()] == ([reason] if reason else [])


def test_channels_of_a_host_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_CHANNELS", 3)
    monkeypatch.setattr(otlp, "MOST_PLACES", 4)
    points = [point(0, 1.0, user=f"u{n}") for n in range(10)]
    found = read(tmp_path, request(gauge("app.load", *points)), request(gauge("app.load", *points)))
    assert len(found.channels()) == 3
    assert found.reasons()[0] == "channels beyond the first 3 of a host"


def test_what_waits_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MOST_SAMPLES", 5)
    documents = [request(cpu_time(n), host=f"node-{n % 2}") for n in range(40)]
    found = read(tmp_path, *documents)
    assert found.frame("node-0")["cpu.user/cpu0"].to_list() == [250 + 25 * n for n in range(0, 40, 2)]


WHOLE = request(
    cpu_time(0),
    total(
        "system.disk.io",
        point(0, 512, since=-1, device="sda", direction="read"),
        unit="By",
        temporality=DELTA,
    ),
    gauge("app.depth", point(0, 5, queue="a"), unit="By"),
    service__name="shop",
)
WORTHLESS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.none(), max_size=2),
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every value of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, one in inner for found in places_in(one, (*path, key)))]


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(places_in(WHOLE)[1:]), WORTHLESS)
def test_a_document_that_holds_something_else_anywhere(path: tuple[Any, ...], value: Any) -> None:
    document = copy.deepcopy(WHOLE)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    findings = Findings()
    metrics = metrics_of(document, findings, 1)
    for metric in metrics or ():
        for one in metric.points:
            found = place(metric.name, metric.form, metric.unit, one.attributes)
            assert isinstance(found, Known | Other | Refused)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(places_in(WHOLE)[1:]), WORTHLESS, st.floats(0.0, 1.0), st.integers(0, 30))
def test_a_file_that_is_damaged_anywhere(
    tmp_path_factory: pytest.TempPathFactory, path: tuple[Any, ...], value: Any, where: float, lost: int
) -> None:
    document = copy.deepcopy(WHOLE)
    holder = document
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    good, odd = json.dumps(request(cpu_time(5))), json.dumps(document)
    at = round(where * len(odd))
    file = tmp_path_factory.getbasetemp() / "damaged.jsonl"
    file.write_text("\n".join([good, odd, odd[:at] + odd[at + lost :]]), encoding="utf-8")
    found = imported("otlp", file)
    assert 375 in found.frame("node-1")["cpu.user/cpu0"].to_list()


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(text, encoding="utf-8", errors="replace", newline="")
    with contextlib.suppress(UsageError):
        imported("otlp", file)
