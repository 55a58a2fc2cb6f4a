"""The stage that imports from Prometheus: hosts, pieces, segments, and going on where it ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from prometheus_fake import FakePrometheus, Fault, serving

from reveal_core.errors import UnavailableError, UsageError
from reveal_core.incidents import iso
from storage.store import Store
from tasks.prometheus_access import Access
from tasks.prometheus_importing import import_prometheus
from tasks.prometheus_plan import HOUR_MS, LEAST_MS, Pace, Selection, host_of

BEGIN = 1_764_446_400_000
"""2025-11-29 20:00 UTC in ms: an hour's beginning."""
START = datetime.fromtimestamp(BEGIN / 1000, UTC)
STEP_MS = 15_000


def moment(seconds: float) -> str:
    return iso(START + timedelta(seconds=seconds))


def fill(fake: FakePrometheus, host: str, seconds: float, begin: int = BEGIN, step: int = STEP_MS) -> None:
    """Give a host samples that say which they are: 1 % of user time, and the number of the scrape."""
    times = range(begin, begin + round(seconds * 1000), step)
    where = {"instance": f"{host}:9100", "job": "node"}
    for cpu in "01":
        fake.add(
            "node_cpu_seconds_total",
            [(t, f"{(t - begin) / 100_000}") for t in times],
            cpu=cpu,
            mode="user",
            **where,
        )
    fake.add("node_procs_running", [(t, str(n)) for n, t in enumerate(times)], **where)
    fake.add("node_load1", [(t, "0.5") for t in times], **where)
    fake.add("node_zfs_arc_hits", [(t, str(n)) for n, t in enumerate(times)], **where)


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    with serving() as found:
        fill(found, "n1", 7200)
        yield found


def imported(
    store: Path, fake: FakePrometheus, start: float = 0, end: float = 7200, **more: Any
) -> dict[str, Any]:
    arguments = {"start": moment(start), "end": moment(end), **more}
    return import_prometheus(str(store), url=fake.url, wait=lambda _: None, **arguments)


def rows(store: Path, host: str = "n1") -> pl.DataFrame:
    source = Store(str(store))
    extent = source.extent(host)
    assert extent is not None
    return source.read_telemetry(host, *extent).telemetry.frame


def files(store: Path) -> list[Path]:
    return sorted((store / "telemetry").rglob("*.parquet"))


def stored_rows(store: Path) -> int:
    """Return the rows of all files, those that are there twice counted twice."""
    return sum(pl.read_parquet(path, columns=["ts"]).height for path in files(store))


def test_what_was_imported_is_in_the_store(tmp_path: Path, fake: FakePrometheus) -> None:
    told: list[str] = []
    result = imported(tmp_path, fake, say=told.append)
    assert result["hosts"] == ["n1"]
    assert (result["segments"], result["samples"]) == (2, 480 * 3)
    assert (result["period_ms"], result["start"], result["end"]) == (15_000, moment(0), moment(7185))
    assert result["bytes"] == sum(path.stat().st_size for path in files(tmp_path))
    assert [(entry["item"], entry["reason"].partition(":")[0]) for entry in result["skipped"]] == [
        ("node_load1", "left out"),
        (
            "node_zfs_arc_hits",
            "unknown to the catalogue; --keep-unknown keeps it",
        ),
    ]
    assert result["notes"] == [
        "samples come every 15 s: windows of 3 s are too short for them; fit and score with window_s = 45 "
        "and stride_s = 15 (docs/importing.md)"
    ]
    assert told[0] == f"Importing n1: {moment(0)}"
    frame = rows(tmp_path)
    assert frame.height == stored_rows(tmp_path) == 480
    assert frame["cpu.user/cpu1"].to_list() == [15 * n for n in range(480)]
    assert frame["stat.procs_running"].to_list() == list(range(480))
    read = Store(str(tmp_path)).read_telemetry("n1", START, START + timedelta(hours=2)).telemetry
    assert {channel.period_ms for channel in read.channels.values()} == {15_000}
    assert read.channels["cpu.user/cpu0"].kind == "counter"
    assert read.facts["imported"] == {"kind": "prometheus", "job": "node", "instance": "n1:9100"}


def test_only_what_is_wanted_is_asked_for(tmp_path: Path, fake: FakePrometheus) -> None:
    imported(tmp_path, fake)
    queries = fake.queries()
    assert queries[0].fields["query"] == (
        '{instance="n1:9100", __name__=~"node_cpu_seconds_total|node_procs_running"}[60000ms]'
    )
    assert sum(int(query.fields["query"].split("[")[1][:-3]) for query in queries) == 2 * HOUR_MS
    assert len(queries) <= 5
    assert fake.most_active <= 2


@pytest.mark.parametrize("closed", [True, False])
def test_boundaries_lose_nothing_and_give_nothing_twice(
    tmp_path: Path, fake: FakePrometheus, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pieces of 9 samples, so that their boundaries fall on samples; of both versions of the server."""
    monkeypatch.setattr("tasks.prometheus_plan.WANTED", 9)
    fake.closed = closed
    result = imported(tmp_path, fake, 3000, 4200)
    assert len(fake.queries()) > 20
    assert rows(tmp_path)["stat.procs_running"].to_list() == list(range(200, 280))
    assert stored_rows(tmp_path) == 80
    assert result["samples"] == 240


def test_a_second_import_adds_nothing(tmp_path: Path, fake: FakePrometheus) -> None:
    imported(tmp_path, fake)
    before = {path: path.read_bytes() for path in files(tmp_path)}
    fake.requests.clear()
    result = imported(tmp_path, fake)
    assert fake.queries() == []
    assert (result["hosts"], result["segments"], result["samples"], result["bytes"]) == ([], 0, 0, 0)
    assert (result["period_ms"], result["start"], result["end"]) == (None, None, None)
    assert result["notes"] == [
        "of 1 of 1 hosts all of the range was imported before (--again imports it anew)",
        "there is nothing new",
    ]
    again = imported(tmp_path, fake, again=True)
    assert again["samples"] == 480 * 3
    assert {path: path.read_bytes() for path in files(tmp_path)} == before


def test_it_goes_on_where_it_was_interrupted(
    tmp_path: Path, fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.prometheus_plan.WANTED", 90)
    fill(fake, "n2", 7200)
    whole = imported(tmp_path / "whole", fake)
    asked = len(fake.requests)
    # Of the second host the first hour is answered, and part of the second.
    fake.requests.clear()
    fake.faults.extend([*[None] * (asked * 9 // 10), *[Fault(503)] * 50])  # type: ignore[list-item]
    with pytest.raises(UnavailableError, match="it answers 503, 6 times in a row"):
        imported(tmp_path / "other", fake)
    first = stored_rows(tmp_path / "other")
    assert 480 < first < 960
    fake.faults.clear()
    fake.requests.clear()
    result = imported(tmp_path / "other", fake)
    assert len(fake.requests) < asked // 2
    assert 0 < result["samples"] < whole["samples"] // 2
    assert stored_rows(tmp_path / "other") == 960
    for host in ("n1", "n2"):
        assert rows(tmp_path / "other", host).equals(rows(tmp_path / "whole", host))


def test_a_longer_range_adds_what_is_missing(tmp_path: Path, fake: FakePrometheus) -> None:
    imported(tmp_path, fake, 1800, 3600)
    imported(tmp_path, fake, 5400, 7200)
    result = imported(tmp_path, fake)
    assert result["samples"] == 240 * 3
    assert rows(tmp_path).height == stored_rows(tmp_path) == 480


def test_what_may_still_come_is_asked_for_again(tmp_path: Path, fake: FakePrometheus) -> None:
    """The newest sample is where an import of the present ends, whatever the end of its range."""
    now = round(datetime.now(UTC).timestamp()) * 1000
    fake.series.clear()
    fill(fake, "n1", 100, begin=now - 200_000, step=1000)
    first = import_prometheus(str(tmp_path), url=fake.url)
    assert first["samples"] == 300
    for labels, samples in fake.series:
        if labels["__name__"] == "node_procs_running":
            samples += [(now - 100_000 + 1000 * n, str(100 + n)) for n in range(50)]
    second = import_prometheus(str(tmp_path), url=fake.url)
    assert second["samples"] == 50
    assert rows(tmp_path)["stat.procs_running"].to_list() == list(range(150))
    assert stored_rows(tmp_path) == 150


def test_too_much_at_once_is_halved(tmp_path: Path, fake: FakePrometheus) -> None:
    fake.most, fake.closed = 100, True
    result = imported(tmp_path, fake, 0, 3600)
    assert result["samples"] == 240 * 3
    assert rows(tmp_path)["stat.procs_running"].to_list() == list(range(240))
    assert len(result["skipped"]) == 2  # nothing was given twice
    fake.most = 1
    with pytest.raises(
        UnavailableError, match=r"cannot give .* s of n1 at once: query processing would load"
    ):
        imported(tmp_path, fake, 3600, 7200)


def test_what_waits_is_bounded(tmp_path: Path, fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.prometheus_plan.WANTED", 90)
    monkeypatch.setattr("tasks.prometheus_importing.MOST_HELD", 200)
    result = imported(tmp_path, fake)
    assert result["segments"] > 4
    assert rows(tmp_path)["stat.procs_running"].to_list() == list(range(480))
    assert stored_rows(tmp_path) == 480


def test_exporters_of_a_host_come_together(tmp_path: Path, fake: FakePrometheus) -> None:
    gpu = {"instance": "n1:9400", "job": "dcgm", "gpu": "0", "UUID": "GPU-a-b"}
    fake.add("DCGM_FI_DEV_GPU_UTIL", [(BEGIN + 7000 + 30_000 * n, "50") for n in range(100)], **gpu)
    result = imported(tmp_path, fake)
    assert result["hosts"] == ["n1"]
    assert result["samples"] == 480 * 3 + 100
    read = Store(str(tmp_path)).read_telemetry("n1", START, START + timedelta(hours=2)).telemetry
    assert read.channels["gpu.utilization/GPU-a"].period_ms == 30_000
    assert read.channels["gpu.utilization/GPU-a"].source == "dcgm-exporter"
    assert read.facts["cpu"]["logical"] == 2
    assert [gpu["name"] for gpu in read.facts["gpus"]] == ["GPU-a"]


def test_selection_and_host_label(tmp_path: Path, fake: FakePrometheus) -> None:
    fake.series.clear()
    for node, cluster in (("alpha", "a"), ("beta", "b")):
        times = [(BEGIN + STEP_MS * n, "1") for n in range(10)]
        fake.add(
            "node_procs_running", times, instance="10.0.0.1:9100", node=node, cluster=cluster, job="node"
        )
    result = imported(tmp_path, fake, match='{cluster="a"}', host_label="node")
    assert result["hosts"] == ["alpha"]
    assert fake.queries()[0].fields["query"].startswith('{cluster="a", node="alpha", __name__=~"')
    assert imported(tmp_path, fake, host_label="node")["hosts"] == ["alpha", "beta"]


def test_unknown_series_are_kept_if_wanted(tmp_path: Path, fake: FakePrometheus) -> None:
    fake.kinds = {"node_zfs_arc_hits": "counter"}
    result = imported(tmp_path, fake, keep_unknown=True)
    kept = "imported.prometheus.node_zfs_arc_hits"
    assert result["unmapped"] == [{"column": "node_zfs_arc_hits", "metric": kept}]
    read = Store(str(tmp_path)).read_telemetry("n1", START, START + timedelta(hours=2)).telemetry
    assert read.channels[kept].kind == "counter"
    assert read.frame[kept].to_list() == list(range(480))
    assert [entry["item"] for entry in result["skipped"]] == ["node_load1"]


def test_a_server_without_metadata_is_told(tmp_path: Path, fake: FakePrometheus) -> None:
    fake.faults.extend([None, Fault(404)])  # type: ignore[list-item]
    result = imported(tmp_path, fake, keep_unknown=True)
    assert result["notes"][0].startswith("only names that end in _total count as counters: ")


def test_resets_of_counters_make_no_rate(tmp_path: Path, fake: FakePrometheus) -> None:
    from reveal_core.features.rates import physical_series

    fake.series.clear()
    values = [1000, 1015, 5, 20]
    samples = [(BEGIN + STEP_MS * n, str(value)) for n, value in enumerate(values)]
    fake.add("node_context_switches_total", samples, instance="n1:9100", job="node")
    imported(tmp_path, fake)
    read = Store(str(tmp_path)).read_telemetry("n1", START, START + timedelta(hours=2)).telemetry
    assert read.frame["stat.ctxt"].to_list() == values
    assert physical_series(read).frame["stat.ctxt"].to_list() == [None, 1.0, None, 1.0]


def test_windows_follow_the_data_and_what_they_hide_is_told(tmp_path: Path, fake: FakePrometheus) -> None:
    from reveal_core.method import analyse, build_series, build_windows, fit_model
    from reveal_core.profiles import load_profile

    imported(tmp_path, fake, 0, 3600)
    read = Store(str(tmp_path)).read_telemetry("n1", START, START + timedelta(hours=2)).telemetry
    profile = load_profile("default", {"window_s": 45.0, "stride_s": 15.0})
    windows = build_windows(build_series(read), profile)
    assert windows.frame["coverage"].min() == 1.0
    assert windows.frame["telemetry.coverage.node_exporter:value:level"].min() == 1.0
    levels = windows.frame["cpu.user:mean:level"].drop_nulls()
    assert levels.len() > 230
    assert (levels.min(), levels.max()) == pytest.approx((1.0, 1.0))
    analysis = analyse(fit_model([read], profile), read)
    assert analysis.notes[0].startswith("Samples come every 15 s: what is shorter shows as a mean")


def test_nothing_to_import_is_one_line_and_no_store(tmp_path: Path, fake: FakePrometheus) -> None:
    store = tmp_path / "store"
    with pytest.raises(UsageError, match=r'has no series .*job="x".* from 2025-11-29T20:00:00.000Z to'):
        imported(store, fake, match='{job="x"}')
    assert not store.exists()
    with pytest.raises(
        UsageError, match=r"nothing of http://127\.0\.0\.1.* could be imported: n1: targets with a"
    ):
        imported(store, fake, 0, 10)
    with pytest.raises(UsageError, match=r"begins at .*, which is still to come"):
        import_prometheus(str(store), url=fake.url, start="+1h")
    with pytest.raises(UsageError, match="before it starts"):
        imported(store, fake, 100, 50)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"match": 'job="node"'}, "--match takes label matchers in braces"),
        ({"match": "{}"}, "--match takes label matchers in braces"),
        ({"match": "up{job='a'}"}, "--match takes label matchers in braces"),
        ({"host_label": "a-b"}, "'a-b' is no name of a label"),
        ({"url": "h:9090"}, "the address of a server is expected"),
        ({"access": Access(password="x")}, "REVEAL_PROMETHEUS__USER is not"),
        ({"start": "someday"}, "'someday' is not a time"),
    ],
)
def test_wrong_arguments_ask_nobody(more: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=said):
        import_prometheus(str(tmp_path / "store"), **{"url": "http://127.0.0.1:1", **more})
    assert not (tmp_path / "store").exists()


def test_an_answer_of_another_form_is_told(tmp_path: Path, fake: FakePrometheus) -> None:
    odd = b'{"status": "success", "data": {"resultType": "vector", "result": []}}'
    fake.faults.extend([None, None, Fault(body=odd)])  # type: ignore[list-item]
    with pytest.raises(UnavailableError, match="of no use: it holds no samples over a range"):
        imported(tmp_path, fake)


def test_what_is_insecure_is_a_note(
    tmp_path: Path, fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.prometheus_importing.is_local", lambda _url: False)
    result = imported(tmp_path, fake, access=Access(user="ann", password="pa55"))
    assert (
        result["notes"][0]
        == f"what enters {fake.url} went over the network in clear, for it is no https address"
    )


@pytest.mark.parametrize(
    ("instance", "host"),
    [("n1:9100", "n1"), ("n1", "n1"), ("[::1]:9100", "::1"), ("fe80::1", "fe80::1"), ("n1:http", "n1:http")],
)
def test_hosts_of_instances(instance: str, host: str) -> None:
    assert host_of(instance) == host


def test_selectors_are_quoted() -> None:
    chosen = Selection(' {a="}", b=~"x{2}",} ')
    assert chosen.selector("c=1") == '{a="}", b=~"x{2}", c=1}'
    assert chosen.host(('n"1:9100',)) == 'instance="n\\"1:9100"'
    assert chosen.host(("n.1:91", "n.1:94")) == 'instance=~"n\\\\.1:91|n\\\\.1:94"'


def test_the_pace_follows_the_samples() -> None:
    pace = Pace()
    pace.saw(100_000, 60_000)
    assert pace.length_ms == 120_000
    pace.saw(10_000_000, 1000)
    assert pace.length_ms == LEAST_MS
    pace.saw(0, 1000)
    assert pace.length_ms == HOUR_MS
