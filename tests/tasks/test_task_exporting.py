"""The stage that tells Prometheus: from a store to metrics, once, into a file, and served."""

from __future__ import annotations

import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exporting_samples import DAY_S, MODEL, NOW, UNTIL, judged, put_fleet, put_host, windows
from incident_samples import at, incident_at
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from reveal_core.attribute.tracking import KEPT, follow, settle
from reveal_core.errors import UnavailableError, UsageError
from reveal_core.exporting.fleet import FleetState
from reveal_core.regimes import Regime
from reveal_core.scores import Scores
from storage.store import Store
from tasks import exporting
from tasks.exporting import FleetExporter, FleetWatch, export_prometheus, serve_prometheus

WEEK_S = 7 * DAY_S


@pytest.fixture
def store(tmp_path: Path) -> Store:
    found = Store(str(tmp_path / "store"))
    found.check(write=True)
    return found


def watch(store: Store) -> FleetWatch:
    return FleetWatch(store, budget=1.0, forget_s=WEEK_S)


def value(families: Any, name: str, **labels: str) -> float | None:
    """Return a sample's value; None if there is no such sample."""
    found = [s.value for f in families for s in f.samples if s.name == name and s.labels == labels]
    assert len(found) <= 1
    return found[0] if found else None


def test_a_fleet_is_read_from_a_store(store: Store) -> None:
    put_fleet(store)
    store.put_regime(Regime("node-2", "reveal-2cpu-0gpu-amd", at(0)))
    store.put_regime(Regime("node-1", "reveal-2cpu-0gpu-amd", at(0), until=at(10)))
    store.put_report("20261129T121100Z-score-0a1b2c", "<p>", {"title": "t"})
    state = watch(store).look(NOW)
    assert (state.at, state.forgotten, state.budget) == (NOW, 1, 1.0)
    assert state.report == "20261129T121100Z-score-0a1b2c"
    one, two, three = state.hosts
    assert [host.host for host in state.hosts] == ["node-1", "node-2", "node-3"]
    assert one.levels is not None
    assert (one.levels.score, one.levels.highest, one.levels.coverage) == (1.75, 4.5, 1.0)
    assert [(entry.cause, entry.score) for entry in one.incidents] == [("packet-loss", 4.5)]
    assert (one.begun, one.judged_s, one.judged) == (2, UNTIL, at(UNTIL))
    assert two.levels == replace(one.levels, score=0.5, highest=0.5)
    assert (two.incidents, two.held, one.held) == ((), True, False)
    assert (three.silent, three.judged) == (True, at(100))
    assert [entry.cause for entry in three.incidents] == ["host-silent"]
    assert state.comings == {
        ("node-1", "network", "memory-pressure"): 1,
        ("node-1", "network", "packet-loss"): 1,
        ("node-3", three.incidents[0].subsystem, "host-silent"): 1,
    }


def test_an_empty_store(store: Store) -> None:
    state = watch(store).look(NOW)
    assert (state.hosts, state.forgotten, state.comings, state.report) == ((), 0, {}, "")


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="nothing"):
        export_prometheus(str(tmp_path / "nothing"), budget=1.0, forget_s=WEEK_S)


def test_scores_that_are_too_old_are_not_told(store: Store) -> None:
    put_host(store, judged("node-1"), [0.5] * 10)
    levels = [
        host.levels is not None for s in (3590, 3610) for host in watch(store).look(at(UNTIL + s)).hosts
    ]
    assert levels == [True, False]


def test_a_host_that_only_a_watermark_knows(store: Store) -> None:
    put_fleet(store)
    Path(store.url, "ledger/host=node-2/recent.json").unlink()
    (found,) = [host for host in watch(store).look(NOW).hosts if host.host == "node-2"]
    assert (found.judged, found.incidents, found.judged_s) == (at(UNTIL), (), 0.0)


def test_only_what_was_judged_anew_is_read_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put_fleet(store)
    asked: list[list[str]] = []
    whole = store.read_judged

    def counting(hosts: list[str], *range_: Any) -> Any:
        asked.append(list(hosts))
        return whole(hosts, *range_)

    monkeypatch.setattr(store, "read_judged", counting)
    monkeypatch.setattr(exporting, "HOSTS_AT_ONCE", 2)
    looking = watch(store)
    first = looking.look(NOW)
    assert asked == [["node-3", "node-1"], ["node-2"]]
    assert looking.look(NOW).hosts == first.hosts
    assert len(asked) == 2
    after = follow(store.ledger("node-2"), [], at(UNTIL), at(UNTIL + 30))
    store.put_scores(MODEL, Scores("node-2", windows(at(UNTIL), [0.5] * 29 + [0.75]), ()))
    store.put_ledger(after)
    (again,) = [host for host in looking.look(at(UNTIL + 60)).hosts if host.host == "node-2"]
    assert asked[2:] == [["node-2"]]
    assert again.levels is not None
    assert (again.levels.score, again.judged) == (0.75, at(UNTIL + 30))


def test_counts_hold_what_is_long_over_and_never_fall(store: Store) -> None:
    far = KEPT.total_seconds() + 3 * DAY_S
    ledger = follow(judged("node-1", incident_at(60, 70)), [], at(far), at(far + 10))
    kept, past = settle(ledger)
    assert len(past) == 1
    store.put_ledger(kept, past)
    key = "node-1", "network", "packet-loss"
    now = at(far + 60)
    looking = watch(store)
    assert looking.look(now).comings == {key: 1}
    for month in Path(store.url, "ledger/host=node-1").glob("month=*.json"):
        month.unlink()  # as a retention of the store would
    assert looking.look(now).comings == {key: 1}
    on = incident_at(far + 15, far + 20, state="open")
    store.put_ledger(follow(kept, [on], at(far + 10), at(far + 20)))
    assert looking.look(now).comings == {key: 2}


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


class Looks:
    """Stands for a watch: counts looks, and fails when told to."""

    def __init__(self) -> None:
        self.count = 0
        self.fail = False

    def look(self) -> FleetState:
        self.count += 1
        if self.fail:
            raise UnavailableError("store x: away")
        return FleetState(NOW, (), self.count, {}, 1.0)


def test_the_store_is_read_at_most_so_often_whatever_asks() -> None:
    clock, looks = Clock(), Looks()
    exporter = FleetExporter(looks, every_s=30.0, clock=clock)  # type: ignore[arg-type]
    threads = [threading.Thread(target=exporter.collect) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert looks.count == 1
    clock.time += 29.0
    assert value(exporter.collect(), "reveal_hosts_forgotten") == 1
    clock.time += 1.0
    assert value(exporter.collect(), "reveal_hosts_forgotten") == 2


def test_a_store_that_went_away_is_told_and_nothing_beside_it(caplog: pytest.LogCaptureFixture) -> None:
    clock, looks = Clock(), Looks()
    exporter = FleetExporter(looks, every_s=30.0, clock=clock)  # type: ignore[arg-type]
    assert value(exporter.collect(), "reveal_store_up") == 1
    looks.fail = True
    clock.time += 30.0
    (only,) = exporter.collect()
    assert value([only], "reveal_store_up") == 0
    assert "the store could not be read: store x: away" in caplog.text
    looks.fail = False
    clock.time += 30.0
    assert value(exporter.collect(), "reveal_store_up") == 1


def test_a_text_file_for_node_exporter(store: Store, tmp_path: Path) -> None:
    put_fleet(store)
    path = tmp_path / "reveal.prom"
    path.write_text("before")
    done = export_prometheus(store.url, budget=1.0, forget_s=100 * 365 * DAY_S, textfile=str(path))
    text = path.read_text()
    families = list(text_string_to_metric_families(text))
    assert done == {
        "hosts": 4,
        "silent": ["node-3"],
        "open": 2,
        "series": sum(len(family.samples) for family in families),
        "textfile": str(path),
    }
    # The textfile collector takes no times, and no other file may lie beside it.
    assert all(sample.timestamp is None for family in families for sample in family.samples)
    assert {entry.name for entry in tmp_path.iterdir()} == {"store", "reveal.prom"}


@pytest.mark.parametrize(
    ("name", "error", "said"),
    [
        ("reveal.txt", UsageError, "only files that end in .prom"),
        ("no/reveal.prom", UnavailableError, "No such file"),
    ],
)
def test_a_file_that_cannot_be(
    store: Store, tmp_path: Path, name: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        export_prometheus(store.url, budget=1.0, forget_s=1.0, textfile=str(tmp_path / name))


def test_the_text_itself(store: Store) -> None:
    put_fleet(store)
    done = export_prometheus(store.url, budget=0.5, forget_s=100 * 365 * DAY_S)
    families = list(text_string_to_metric_families(done["text"]))
    assert value(families, "reveal_alarm_budget_per_host_day") == 0.5
    names = {sample["name"] for sample in done["samples"]}
    assert {sample.name for family in families for sample in family.samples} == names
    assert len(done["samples"]) == done["series"]


@contextmanager
def served(store: Store, listen: str = "127.0.0.1:0") -> Iterator[str]:
    done, server = serve_prometheus(store.url, listen=listen, every_s=30.0, budget=1.0, forget_s=WEEK_S)
    try:
        yield done["listen"]
    finally:
        server.shutdown()
        server.server_close()


def scrape(address: str, accept: str = "text/plain") -> tuple[str, list[Metric]]:
    request = urllib.request.Request(f"http://{address}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
        return answer.headers["Content-Type"], list(text_string_to_metric_families(text))


def test_it_is_served(store: Store) -> None:
    put_fleet(store)
    with served(store) as address:
        kind, families = scrape(address)
        assert kind.startswith("text/plain")
        assert value(families, "reveal_store_up") == 1
        kind, families = scrape(address, "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        assert value(families, "reveal_store_up") == 1


@pytest.mark.parametrize(
    ("listen", "error", "said"),
    [
        ("nonsense", UsageError, "--listen nonsense: give it as HOST:PORT, such as 127.0.0.1:9465"),
        ("127.0.0.1:x", UsageError, "HOST:PORT"),
        ("127.0.0.1:99999", UnavailableError, "99999"),
        ("192.0.2.1:9465", UnavailableError, "192.0.2.1"),
    ],
)
def test_an_address_that_cannot_be_served(
    store: Store, listen: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said), served(store, listen):
        pass
