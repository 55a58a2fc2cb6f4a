from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pytest
from storage_parts import SECOND, T0, incident, scores

from reveal_core.errors import UsageError
from storage.store import Store

DAY = timedelta(days=1)


def test_scores_lie_by_model_and_hour(store: Store) -> None:
    start = T0.replace(minute=59, second=50)
    keys = store.put_scores("cpu2@3", scores(start, 20))
    assert keys == [f"scores/model=cpu2@3/date=2026-11-29/hour={h}/host=node-1.parquet" for h in (20, 21)]
    assert [pl.read_parquet(io.BytesIO(store.backend.read(k) or b"")).height for k in keys] == [10, 10]
    found = store.read_scores("cpu2@3", "node-1", T0, T0 + DAY)
    assert found is not None
    assert found.frame.equals(scores(start, 20).frame)
    assert found.detectors == ("zscore",)
    assert store.read_scores("cpu2@4", "node-1", T0, T0 + DAY) is None
    cut = store.read_scores("cpu2@3", "node-1", start + 3 * SECOND, start + 12 * SECOND)
    assert cut is not None
    assert cut.frame["start"].to_list() == [start + SECOND * i for i in range(3, 12)]


def test_scores_of_the_same_windows_are_replaced_and_others_stay(store: Store) -> None:
    store.put_scores("m@1", scores(T0, 10, fused=1.0))
    newer = scores(T0 + 5 * SECOND, 10, fused=2.0)
    store.put_scores("m@1", newer)
    (key,) = store.put_scores("m@1", newer)
    frame = pl.read_parquet(io.BytesIO(store.backend.read(key) or b""))
    assert frame["start"].to_list() == [T0 + SECOND * i for i in range(15)]
    assert frame["fused"].to_list() == [1.0] * 5 + [2.0] * 10


def test_scores_of_another_detector_join(local_store: Store) -> None:
    local_store.put_scores("m@1", scores(T0, 2))
    later = scores(T0 + 10 * SECOND, 2)
    local_store.put_scores("m@1", replace(later, frame=later.frame.rename({"score/zscore": "score/pca"})))
    found = local_store.read_scores("m@1", "node-1", T0, T0 + DAY)
    assert found is not None
    assert set(found.detectors) == {"zscore", "pca"}
    assert found.frame["score/pca"].to_list() == [None, None, 1.0, 1.0]


def test_damaged_scores_are_put_aside(local_store: Store) -> None:
    (key,) = local_store.put_scores("m@1", scores(T0, 3))
    local_store.backend.write(key, b"PAR1")
    assert local_store.put_scores("m@1", scores(T0 + 10 * SECOND, 3)) == [key]
    assert local_store.backend.read(f"quarantine/{key}") == b"PAR1"
    found = local_store.read_scores("m@1", "node-1", T0, T0 + DAY)
    assert found is not None
    assert found.frame.height == 3


def test_scores_without_time_are_a_mistake_of_the_caller(local_store: Store) -> None:
    bad = scores(T0, 3)
    with pytest.raises(ValueError, match="column start"):
        local_store.put_scores("m@1", replace(bad, frame=bad.frame.drop("start")))
    with pytest.raises(ValueError, match="no start"):
        local_store.put_scores(
            "m@1", replace(bad, frame=bad.frame.with_columns(start=pl.lit(None, bad.frame["start"].dtype)))
        )


def test_an_incident_comes_back(store: Store) -> None:
    one = incident()
    key = store.put_incident(one)
    assert key == "incidents/date=2026-11-29/i-1.json"
    assert json.loads(store.backend.read(key) or b"") == json.loads(json.dumps(one.to_dict()))
    assert store.read_incidents(T0, T0 + DAY) == [one]
    grown = replace(one, end=one.end + 5 * SECOND)
    assert store.put_incident(grown) == key
    assert store.read_incidents(T0, T0 + DAY) == [grown]


def test_an_incident_of_a_newer_version_is_read(local_store: Store) -> None:
    key = local_store.put_incident(incident())
    data = json.loads(local_store.backend.read(key) or b"")
    for part in (data, data["metrics"][0], data["causes"][0]):
        part["of a later version"] = 1
    local_store.backend.write(key, json.dumps(data).encode())
    assert local_store.read_incidents(T0, T0 + DAY) == [incident()]


def test_numbers_that_are_not_finite_are_null_in_json(local_store: Store) -> None:
    metric = replace(incident().metrics[0], normal_low=-math.inf, normal_high=math.nan)
    key = local_store.put_incident(replace(incident(), metrics=(metric,)))
    assert b"NaN" not in (local_store.backend.read(key) or b"")
    found = local_store.read_incidents(T0, T0 + DAY)[0].metrics[0]
    assert math.isnan(found.normal_low)
    assert math.isnan(found.normal_high)


def test_incidents_that_touch_a_range(local_store: Store) -> None:
    midnight = T0.replace(hour=0, minute=0) + DAY
    local_store.put_incident(incident("long", midnight - timedelta(hours=3), seconds=4 * 3600))
    local_store.put_incident(incident("other", midnight + SECOND, host="node-2"))
    local_store.put_incident(incident("later", midnight + DAY))

    def ids(start: object, end: object, host: str | None = None) -> list[str]:
        return [i.id for i in local_store.read_incidents(start, end, host)]  # type: ignore[arg-type]

    assert ids(midnight, midnight + DAY) == ["long", "other"]
    assert ids(midnight, midnight + DAY, "node-2") == ["other"]
    assert ids(midnight - DAY, midnight - timedelta(hours=3)) == []
    assert ids(midnight + DAY, midnight + 2 * DAY) == ["later"]
    with pytest.raises(UsageError, match="is empty"):
        ids(midnight, midnight)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"start": 3}', b"[" * 100_000])
def test_a_damaged_incident_is_put_aside(local_store: Store, data: bytes) -> None:
    local_store.put_incident(incident())
    bad = local_store.put_incident(incident("bad"))
    local_store.backend.write(bad, data)
    assert [i.id for i in local_store.read_incidents(T0, T0 + DAY)] == ["i-1"]
    assert local_store.backend.read(f"quarantine/{bad}") == data
    assert local_store.backend.read(bad) is None


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def index(store: Store) -> Page:
    return Page((store.backend.read("reports/index.html") or b"").decode())


def test_a_report_is_stored_and_listed(store: Store) -> None:
    data = {
        "created": "2026-11-29T20:20:00.000Z",
        "headline": "2 incidents",
        "incidents": [{}, {}],
        "windows": 5,
    }
    address = store.put_report("r 1", "<p>one</p>", data)
    assert address == store.report_path("r 1")
    assert store.backend.read("reports/r%201/index.html") == b"<p>one</p>"
    assert json.loads(store.backend.read("reports/r%201/report.json") or b"") == data
    assert store.latest_report()["report"] == "r 1"
    store.put_report("r2", "<p>two</p>", {**data, "created": "2026-11-29T20:25:00.000Z", "headline": "quiet"})
    store.put_report("r0", "<p>none</p>", {**data, "created": "2026-11-29T20:10:00.000Z"})
    assert store.latest_report()["path"] == "r0/index.html"
    assert index(store).links == ["r2/index.html", "r%25201/index.html", "r0/index.html"]
    store.put_report("r2", "<p>two</p>", {**data, "headline": "changed"})
    assert sorted(index(store).links) == ["r%25201/index.html", "r0/index.html", "r2/index.html"]
    assert "changed" in index(store).words
    assert "quiet" not in index(store).words


def test_links_in_the_list_lead_to_the_pages(local_store: Store) -> None:
    for name in ("a b", "..", "ü/1", "50%"):
        local_store.put_report(name, name, {})
    folder = Path(local_store.url, "reports")
    found = {(folder / unquote(link)).read_text() for link in index(local_store).links}
    assert found == {"a b", "..", "ü/1", "50%"}
    assert Path(local_store.report_path("..")).read_text() == ".."


def test_an_object_store_knows_a_report_for_a_page(s3_options: dict[str, Any], bucket: str) -> None:
    store = Store(f"s3://{bucket}/site", s3_options)
    store.put_report("r1", "<!doctype html><p>all well", {"title": "t"})
    for name, kind in (
        ("r1/index.html", "text/html; charset=utf-8"),
        ("index.html", "text/html; charset=utf-8"),
        ("latest.json", "application/json"),
    ):
        assert store.backend.fs.info(store.backend.path(f"reports/{name}"))["ContentType"] == kind


def test_nothing_in_a_report_becomes_markup_in_the_list(local_store: Store) -> None:
    nasty = "</script><script>alert(1)</script><img src=x onerror='x'>&\""
    for _ in range(2):
        local_store.put_report(
            "r", "x", {"headline": nasty, "title": nasty, "start": nasty, "created": nasty}
        )
    page = index(local_store)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert nasty in page.words
    assert page.links == ["r/index.html"]


def test_the_list_needs_nothing_from_a_network(local_store: Store) -> None:
    local_store.put_report("r", "x", {})
    text = (local_store.backend.read("reports/index.html") or b"").decode()
    assert not re.search(r"https?://|@import|url\(", text)


def test_the_list_mends_itself(local_store: Store) -> None:
    for name in ("a", "b", "c", "d"):
        local_store.put_report(name, "x", {"created": f"2026-11-29T20:20:00.00{ord(name) - 97}Z"})
    backend = local_store.backend
    backend.write("reports/index.html", b"\xff<html>of somebody else")
    backend.write("reports/c/report.json", b"{")
    backend.remove("reports/a/report.json")
    backend.write("reports/unfinished/index.html", b"its writer was killed")
    local_store.put_report("e", "x", {"created": "2026-11-29T20:21:00Z"})
    page = index(local_store)
    assert page.links == ["e/index.html", "d/index.html", "b/index.html", "c/index.html"]
    assert "its report.json cannot be read" in page.words


def test_a_report_that_was_removed_leaves_the_list(local_store: Store) -> None:
    for name in ("a", "b"):
        local_store.put_report(name, "x", {})
    folder = Path(local_store.url, "reports", "a")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    local_store.put_report("c", "x", {})
    assert sorted(index(local_store).links) == ["b/index.html", "c/index.html"]


def test_no_report_yet(local_store: Store) -> None:
    with pytest.raises(UsageError, match="holds no report"):
        local_store.latest_report()


def test_what_json_cannot_say(local_store: Store) -> None:
    local_store.put_report("r", "x", {"values": [math.nan, {"deep": math.inf}], "when": T0})
    body = json.loads(local_store.backend.read("reports/r/report.json") or b"")
    assert body["values"] == [None, {"deep": None}]
    assert body["when"] == "2026-11-29T20:15:00.000Z"
    with pytest.raises(TypeError):
        local_store.put_report("s", "x", {"what": object()})
    assert local_store.latest_report()["report"] == "r"
