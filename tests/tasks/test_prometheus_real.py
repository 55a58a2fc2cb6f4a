"""A real Prometheus that scrapes a real node_exporter on this machine, imported."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from prometheus_servers import MISSING, node_exporter, prometheus, wait_for

from reveal_core.errors import UsageError
from storage.store import Store
from tasks.prometheus_importing import import_prometheus

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {MISSING}"),
]
SCRAPES = 3
COUNT = "count_over_time(node_intr_total[1h])"


def jiffies() -> int:
    """Return the time that the first core has been idle."""
    line = next(text for text in Path("/proc/stat").read_text().splitlines() if text.startswith("cpu0 "))
    return int(line.split()[4])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    folder, idle = tmp_path_factory.mktemp("prometheus"), jiffies()
    with node_exporter(folder) as exporter, prometheus(folder, [exporter], "300ms") as server:
        yield server, idle


def test_what_it_scraped_is_imported_and_only_once(served: tuple[str, int], tmp_path: Path) -> None:
    url, before = served
    wait_for(url, COUNT, SCRAPES)
    first = import_prometheus(str(tmp_path), url=url)
    assert first["hosts"] == ["127.0.0.1"]
    assert first["samples"] > 100 * SCRAPES
    assert first["unmapped"] == []
    wait_for(url, COUNT, 2 * SCRAPES + 1)
    second = import_prometheus(str(tmp_path), url=url)
    after = jiffies()
    assert second["samples"] > 0
    assert second["start"] > first["end"]

    store = Store(str(tmp_path))
    extent = store.extent("127.0.0.1")
    assert extent is not None
    read = store.read_telemetry("127.0.0.1", *extent).telemetry
    stored = sum(pl.read_parquet(path, columns=["ts"]).height for path in tmp_path.rglob("*.parquet"))
    assert read.frame.height == stored >= 2 * SCRAPES
    families = {channel.metric.partition(".")[0] for channel in read.channels.values()}
    assert families >= {"cpu", "meminfo", "vmstat", "net", "stat", "tcp", "softnet", "sockstat"}
    idle = read.frame["cpu.idle/cpu0"]
    assert idle.null_count() == 0
    assert before <= idle[0] <= idle[-1] <= after
    assert read.frame["meminfo.MemFree"].null_count() == 0
    assert read.facts["cpu"]["logical"] >= 1
    skipped = {entry["item"]: entry["reason"] for entry in first["skipped"]}
    assert not [reason for reason in skipped.values() if "outside the range" in reason], skipped


def test_the_server_s_own_words_reach_the_person(served: tuple[str, int], tmp_path: Path) -> None:
    url, _ = served
    with pytest.raises(UsageError, match=r"does not take the question: .*parse error"):
        import_prometheus(str(tmp_path), url=url, match='{job=="node"}')
    with pytest.raises(UsageError, match="has no series"):
        import_prometheus(str(tmp_path), url=url, match='{job="other"}')
