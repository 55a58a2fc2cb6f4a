"""Measure how many samples a second ``reveal import prometheus`` takes from a server on this machine.

    .venv/bin/python tests/benchmarks/prometheus_import.py --cores 64 --seconds 7200

A real Prometheus serves a block that promtool made: one host with 8 counters a core and 32 levels, a scrape
every second. First the same pieces are only fetched, which is as fast as the server can send, then imported.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from prometheus_servers import PROMETHEUS, prometheus

from reveal_core.catalog import load_catalog
from reveal_core.incidents import iso
from tasks.memory import peak_memory_bytes
from tasks.prometheus_access import Access
from tasks.prometheus_importing import import_prometheus
from tasks.prometheus_plan import HOUR_MS, WANTED
from tasks.prometheus_server import PrometheusServer

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
MEMORY = "meminfo."
LEVELS = [name.removeprefix(MEMORY) for name in load_catalog() if name.startswith(MEMORY)]
LEVELS = [name for name in LEVELS if not name.startswith("HugePages")][:32]
WHERE = 'instance="node-1:9100",job="node"'


def lines(cores: int, begin: int, seconds: int) -> Iterator[str]:
    """Yield the samples in the OpenMetrics format, series by series."""
    yield "# TYPE node_cpu_seconds counter\n"
    for core in range(cores):
        for number, mode in enumerate(MODES):
            labels = f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}",{WHERE}}}'
            pace = (number + 1) / 36.0
            for second in range(seconds):
                yield f"{labels} {second * pace + 0.01 * (second % 7):.2f} {begin + second}\n"
    for number, name in enumerate(LEVELS):
        yield f"# TYPE node_memory_{name}_bytes gauge\n"
        for second in range(seconds):
            level = 1e9 + 4096 * round(1e4 * math.sin(second / 50 + number))
            yield f"node_memory_{name}_bytes{{{WHERE}}} {level:.0f} {begin + second}\n"
    yield "# EOF\n"


def fetch(url: str, begin: int, seconds: int, series: int) -> tuple[float, int]:
    """Ask for all samples and drop the answers; return how long it took and how many bytes they were."""
    server = PrometheusServer(url, Access())
    step = max(1000, WANTED // series * 1000)
    starts = range(begin * 1000, (begin + seconds) * 1000, step)
    end = (begin + seconds) * 1000

    def one(start: int) -> int:
        return len(server.samples('{job="node"}', start, min(start + step, end)))

    before = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        size = sum(pool.map(one, starts))
    server.close()
    return time.monotonic() - before, size


def main() -> None:
    """Make the data, measure, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cores", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=7200)
    options = parser.parse_args()
    promtool = shutil.which("promtool")
    if PROMETHEUS is None or promtool is None:
        raise SystemExit("prometheus and promtool are not installed (Debian's package prometheus)")
    series = options.cores * len(MODES) + len(LEVELS)
    hour_s = HOUR_MS // 1000
    begin = (int(time.time()) // hour_s - options.seconds // hour_s - 1) * hour_s
    with tempfile.TemporaryDirectory(prefix="prometheus-import-") as name:
        folder = Path(name)
        with (folder / "samples.txt").open("w") as file:
            file.writelines(lines(options.cores, begin, options.seconds))
        made = [promtool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "samples.txt")]
        subprocess.run([*made, str(folder / "tsdb")], check=True, capture_output=True)
        (folder / "samples.txt").unlink()
        with prometheus(folder, [], flags=["--storage.tsdb.retention.time=10y"]) as url:
            fetched_s, size = fetch(url, begin, options.seconds, series)
            before = time.monotonic(), time.process_time()
            result = import_prometheus(
                str(folder / "store"),
                url=url,
                start=iso(datetime.fromtimestamp(begin, UTC)),
                end=iso(datetime.fromtimestamp(begin + options.seconds, UTC)),
            )
            took, used = time.monotonic() - before[0], time.process_time() - before[1]
    assert result["samples"] == series * options.seconds, result["samples"]
    found = {
        "samples": result["samples"],
        "series": series,
        "server_bytes_per_sample": round(size / result["samples"], 1),
        "fetched_samples_per_second": round(result["samples"] / fetched_s),
        "imported_samples_per_second": round(result["samples"] / took),
        "cpu_us_per_sample": round(used / result["samples"] * 1e6, 3),
        "stored_bytes_per_sample": round(result["bytes"] / result["samples"], 2),
        "peak_rss_mib": peak_memory_bytes() // 2**20,
        "machine": f"{os.cpu_count()} cores, Linux {platform.release().split('-')[0]}",
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
