"""Scoring what has arrived: late, in any order, twice, cut short, and hosts of which nothing comes."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_series_equal
from synthetic_telemetry import SYNTHETIC_START, synthetic_columns, synthetic_segment

from flows.arrivals import score_arrivals
from flows.cli import main
from flows.pipelines import score_fleet
from reveal_core.errors import UsageError
from reveal_core.incidents import OPEN, RESOLVED, SILENT, iso
from storage.store import Store
from tasks import publishing
from tasks.runner import DirectRunner

SECONDS = 300
BURSTS = ((118.0, 126.0), (200.0, 208.0))
"""The first begins in one segment and ends in the next."""
PART_S = 60


def parts(host: str, seed: int = 1, bursts=BURSTS, seconds: int = SECONDS):
    columns = synthetic_columns(seconds, bursts, seed)
    return [
        synthetic_segment(
            host,
            SYNTHETIC_START + timedelta(seconds=begin),
            {name: values[begin * 10 : (begin + PART_S) * 10] for name, values in columns.items()},
            begin // PART_S,
        )
        for begin in range(0, seconds, PART_S)
    ]


def run(path: Path, uri: str, after_s: float = SECONDS + 10, silent_s: float = 180.0) -> dict[str, Any]:
    return score_arrivals(
        DirectRunner(),
        store=str(path),
        tracking_uri=uri,
        host="*",
        model=None,
        reach_s=7200.0,
        silent_s=silent_s,
        forget_s=7 * 86400.0,
        now=iso(SYNTHETIC_START + timedelta(seconds=after_s)),
    )


def scores_of(store: Store, label: str, host: str = "node-1") -> pl.DataFrame:
    end = SYNTHETIC_START + timedelta(hours=1)
    scores = store.read_scores(label, host, SYNTHETIC_START, end)
    assert scores is not None
    return scores.frame


@pytest.fixture(scope="module")
def label(fitted_store) -> str:
    return f"{fitted_store.model['model']}@{fitted_store.model['version']}"


@pytest.fixture(scope="module")
def whole(fitted_store, label: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[pl.DataFrame, Any]:
    """What comes of the same telemetry in one run over all of it."""
    store = Store(str(tmp_path_factory.mktemp("whole") / "store"))
    for segment in parts("node-1"):
        store.put_segment(segment)
    score_fleet(
        DirectRunner(),
        store=store.url,
        tracking_uri=fitted_store.tracking_uri,
        host="*",
        start=None,
        end=None,
        model=None,
    )
    return scores_of(store, label), store.ledger("node-1")


def same_scores(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """A window's figures differ in their last digits by what is read beside it; a tree may turn on one."""
    assert found["start"].to_list() == expected["start"].to_list()
    assert found["anomalous"].to_list() == expected["anomalous"].to_list()
    assert_series_equal(found["coverage"], expected["coverage"])
    apart = (found["fused"] - expected["fused"]).abs()
    assert (apart > 1e-6).mean() < 0.05
    assert apart.max() < 0.5


def same_as(whole: tuple[pl.DataFrame, Any], store: Store, label: str) -> None:
    frame, ledger = whole
    same_scores(scores_of(store, label), frame)
    mine = store.ledger("node-1")
    assert mine.judged == ledger.judged
    assert [(e.count, e.cause, e.state, e.start, e.end) for e in mine.entries] == [
        (e.count, e.cause, e.state, e.start, e.end) for e in ledger.entries
    ]


def test_telemetry_that_comes_piece_by_piece_is_judged_as_if_at_once(
    fitted_store, whole, label: str, tmp_path: Path
) -> None:
    store = Store(str(tmp_path))
    for number, segment in enumerate(parts("node-1"), 1):
        store.put_segment(segment)
        document = run(tmp_path, fitted_store.tracking_uri, number * PART_S + 5)
        assert document["hosts"] == ["node-1"]
    same_as(whole, store, label)


@pytest.mark.parametrize("seed", range(3))
def test_in_whatever_order_it_comes(fitted_store, whole, label: str, tmp_path: Path, seed: int) -> None:
    store = Store(str(tmp_path))
    segments = parts("node-1")
    random.Random(seed).shuffle(segments)
    for segment in segments:
        store.put_segment(segment)
        run(tmp_path, fitted_store.tracking_uri, silent_s=3600.0)
    frame, ledger = whole
    same_scores(scores_of(store, label), frame)
    assert store.ledger("node-1").judged == ledger.judged
    assert run(tmp_path, fitted_store.tracking_uri)["report"] is None


def test_nothing_new_is_no_error_and_no_report(fitted_store, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for segment in parts("node-1"):
        store.put_segment(segment)
    first = run(tmp_path, fitted_store.tracking_uri)
    reports = sorted(path.name for path in (tmp_path / "reports").iterdir())
    again = run(tmp_path, fitted_store.tracking_uri)
    assert first["windows"] > 290
    assert (again["report"], again["windows"], again["incidents"]) == (None, 0, [])
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == reports


def test_a_run_that_is_killed_before_its_report_is_done_again(
    fitted_store, whole, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    for segment in parts("node-1"):
        store.put_segment(segment)

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "put_report", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, fitted_store.tracking_uri)
    document = run(tmp_path, fitted_store.tracking_uri)
    assert document["windows"] > 290
    assert len(document["incidents"]) == 2
    same_as(whole, store, label)


def test_two_runs_at_once_are_as_one(
    fitted_store, whole, label: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(str(tmp_path))
    for segment in parts("node-1"):
        store.put_segment(segment)
    real, documents = publishing.put_report, []

    def meanwhile(*args: Any, **kwargs: Any) -> Any:
        if not documents:
            documents.append(None)
            documents[0] = run(tmp_path, fitted_store.tracking_uri)
        return real(*args, **kwargs)

    monkeypatch.setattr(publishing, "put_report", meanwhile)
    document = run(tmp_path, fitted_store.tracking_uri)
    assert [i["id"] for i in document["incidents"]] == [i["id"] for i in documents[0]["incidents"]]
    same_as(whole, store, label)
    assert len(store.watermarks()["node-1"].seen) == 1


def test_a_silent_host_is_an_incident_until_it_comes_back(fitted_store, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    segments = parts("node-1", bursts=(), seconds=1500)
    for segment in segments[:2]:
        store.put_segment(segment)
    for segment in parts("node-2", seed=2, bursts=(), seconds=600):
        store.put_segment(segment)
    uri = fitted_store.tracking_uri
    document = run(tmp_path, uri, 610)
    assert document["silent"] == ["node-1"]
    (incident,) = document["incidents"]
    assert (incident["host"], incident["causes"][0]["id"]) == ("node-1", SILENT)
    assert sorted(document["hosts"]) == ["node-1", "node-2"]
    # Nothing comes from anybody any more: the report is of silent hosts alone.
    document = run(tmp_path, uri, 1200)
    assert sorted(document["silent"]) == ["node-1", "node-2"]
    assert document["windows"] == 0
    assert document["report"] is not None
    assert Path(document["report"]).read_text().count("No telemetry comes from the host any more") > 1
    (entry,) = store.ledger("node-1").entries
    assert (entry.cause, entry.state, entry.count) == (SILENT, OPEN, 1)
    for segment in segments[2:]:  # what it kept meanwhile
        store.put_segment(segment)
    document = run(tmp_path, uri, 1505)
    assert document["silent"] == ["node-2"]
    (entry,) = store.ledger("node-1").entries
    assert entry.state == RESOLVED
    assert store.ledger("node-1").judged_s(SYNTHETIC_START, SYNTHETIC_START + timedelta(hours=1)) > 1490


def test_a_host_that_nobody_waits_for_is_given_up(fitted_store, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for segment in parts("node-1", bursts=()):
        store.put_segment(segment)
    run(tmp_path, fitted_store.tracking_uri)
    assert run(tmp_path, fitted_store.tracking_uri, 86400.0)["silent"] == ["node-1"]
    document = run(tmp_path, fitted_store.tracking_uri, 8 * 86400.0)
    assert (document["report"], document["silent"]) == (None, [])
    assert store.watermarks() == {}
    assert [e.state for e in store.ledger("node-1").entries] == [RESOLVED]


def test_one_bad_host_does_not_stop_the_others_and_is_tried_again(fitted_store, tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for segment in parts("node-1"):
        store.put_segment(segment)
    columns = {
        ("net.rx_bytes", f"eth{n}"): values for n, values in enumerate(synthetic_columns(60, (), 3).values())
    }
    store.put_segment(synthetic_segment("odd", SYNTHETIC_START, columns))
    big = {"cpu": {"model": "AMD EPYC 9654", "logical": 192}, "gpus": []}
    store.put_segment(
        synthetic_segment("unlearned", SYNTHETIC_START, synthetic_columns(60, (), 4), facts=big)
    )
    document = run(tmp_path, fitted_store.tracking_uri, 60.0)
    notes = " ".join(document["notes"])
    assert document["hosts"] == ["node-1"]
    assert "odd was not scored: the model expects other features" in notes
    assert "unlearned was not scored: its hardware class 192cpu-0gpu-amd has no champion yet" in notes
    assert list(store.watermarks()) == ["node-1"]
    with pytest.raises(UsageError, match=r"expects other features|no champion yet"):
        run(tmp_path, fitted_store.tracking_uri, 60.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--new", "--start", "-1h"], "--new judges whatever has arrived"),
        (["--new"], "is of the last 120 minutes"),
    ],
)
def test_bad_use_is_one_line(
    fitted_store, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["score", "--store", str(fitted_store.path), *arguments]) == UsageError.exit_code
    assert said in capsys.readouterr().err
